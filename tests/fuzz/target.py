"""A Muster without a cluster that gets hostile documents, and its invariants in any case."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from random import Random
from typing import Any

import msgspec

from extender.core.effects import SuspendJob
from extender.core.engine import Engine
from extender.core.events import Event, JobGone, NamespaceSeen, PodGone, QueueSeen, Tick
from extender.core.explain.reasons import reason_of
from extender.http.verbs import Message, Scope, Verbs
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.kinds.resources import jobs_of
from extender.kube.queues.status import status_of
from extender.kube.queues.workloads import record_status, spec_of
from extender.kube.reading.eviction import evictions_text
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE
from extender.kube.resources import GROUPS, PODS, Resource
from extender.kube.resources import NODES as NODES_SEEN
from extender.observe.logs import OneLine
from extender.observe.metrics import Metrics
from extender.platforms import nodes as platforms
from extender.runtime.runner import Runner
from policies.model import CLIQUE, GroupKey
from policies.model.mentions import full
from policies.model.queues import ClusterQueue, LocalQueue, Quota, ResourceFlavor, ResourceGroup
from tests.core.invariants import validate
from tests.fuzz.hostile import NAMESPACES, NODES, ZONE, Hostile
from tests.running import Written

VERBS = ("filter", "prioritize", "preempt", "bind")
LONGEST_REASON = 2000
MOST_SERIES = 700
"""Each level of the topology has about ten, and nodes of four platforms bring up to ten levels."""
_EXPOSED = re.compile(r'# (HELP|TYPE) .*|[a-z_]+(\{([a-z_]+="[A-Za-z0-9_.+/-]*",?)+\})? [0-9.e+-]+')


class Target:
    """A Muster, four nodes of platforms, and a clock that ``attack`` moves. ``inputs``: documents that it was fed."""

    def __init__(self, seed: int) -> None:
        self.inputs = 0
        self._random = Random(seed)  # noqa: S311 - to be repeated
        self._hostile = Hostile(self._random)
        self._now = 0.0
        self._log = io.StringIO()
        self._handler = logging.StreamHandler(self._log)
        self._handler.setFormatter(OneLine())
        self._core = Engine()
        self._writer = Written()
        self._runner = Runner(self._core, self._writer, clock=lambda: self._now)
        self._metrics = Metrics(lambda: self._core.state)
        self._verbs = Verbs(self._runner, self._metrics, bind_timeout_s=30, max_body=1 << 20)

    async def attack(self, steps: int) -> None:
        """Feed it that many documents, and check it afterwards. Raises AssertionError for a broken invariant."""
        logger = logging.getLogger("muster")
        logger.addHandler(self._handler)
        try:
            for i in range(len(NODES)):
                self._show_node(i)
            for namespace in NAMESPACES:
                self._runner.dispatch(NamespaceSeen(namespace, ()))
                self._runner.dispatch(QueueSeen(LocalQueue(namespace, "q", "team")))
            group = ResourceGroup(("nvidia.com/gpu",), (("gpu", {"nvidia.com/gpu": Quota(8)}),))
            self._runner.dispatch(QueueSeen(ResourceFlavor("gpu")))
            self._queue = ClusterQueue("team", (group,), namespaces=())
            self._runner.dispatch(QueueSeen(self._queue))
            self._runner.act()
            for _ in range(steps):
                await self._step()
                assert not self._runner.failed.is_set(), self._log.getvalue()
            for _ in range(5):
                await self._wait(30.0)
            self._check()
        finally:
            logger.removeHandler(self._handler)
            await self._runner.drain()

    async def _step(self) -> None:
        self.inputs += 1
        match self._random.randrange(14):
            case 13:
                self._show_node(self._random.randrange(len(NODES)))
            case 10 | 11:
                self._show(_JOBS, self._hostile.job(self._random.randint(0, 5)))
            case 12:
                self._runner.dispatch(JobGone(GroupKey("team-a", "job-job-0"), "job-uid-0"))
            case 0 | 1 | 2 | 3:
                self._show_pod(self._hostile.pod(self._random.randint(0, 9)))
            case 4:
                self._show(GROUPS, self._hostile.group(self._random.randint(0, 3)))
            case 5:
                uid = f"uid-{self._random.randint(0, 9)}"
                self._writer.bound.pop(uid, None)
                self._runner.dispatch(PodGone(uid))
            case _:
                await self._ask(self._random.choice(VERBS))
        await self._wait(self._random.choice((0.0, 0.01, 0.1, 5.0)))

    def _show_node(self, i: int) -> None:
        """A node of some platform, as it is or with an amount that has gone, or that its kubelet lists no more."""
        (document,) = platforms.nodes(self._random.choice(platforms.PLATFORMS), 1, name=lambda _: NODES[i])
        document["metadata"]["labels"] |= {ZONE: "ab"[i // 2], CLIQUE: f"c{i // 2}"}
        document["spec"].pop("taints", None)
        amounts = document["status"]["allocatable"]
        amounts.setdefault("nvidia.com/gpu", "8")
        match self._random.randrange(4), self._random.choice(sorted(amounts.keys() - {"pods"})):
            case 0, name:
                amounts[name] = "0"
            case 1, name:
                del amounts[name]
        self._show(NODES_SEEN, document)

    def _show_pod(self, document: Any) -> None:
        """Show a pod. A bound pod stays on its node, whatever its author writes: the API server ensures that."""
        bound = self._writer.bound
        match document:
            case {"metadata": {"uid": str(uid)}, "spec": {"nodeName": str() | None as node, **spec}}:
                if at := bound.get(uid) or node:
                    bound[uid] = at
                self._show(PODS, {**document, "spec": {**spec, "nodeName": at}})

    def _show(self, resource: Resource[Any, Event], document: Any) -> None:
        """Show a document as the reflector does with an object of the watch."""
        raw = json.dumps(document).encode("utf-8", "replace")
        try:
            _, value = resource.read(msgspec.Raw(raw))
        except (*UNDECODABLE, UnreadableError) as error:
            logging.getLogger("muster").warning("%s is skipped: %s", resource.path, error)
        else:
            if value is not None:
                self._runner.dispatch(resource.seen(value))

    async def _ask(self, verb: str) -> None:
        body = self._hostile.body(verb)
        arriving: list[Message] = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
        answer: list[Message] = []

        async def receive() -> Message:
            return arriving.pop(0) if len(arriving) > 1 else arriving[0]

        async def send(message: Message) -> None:
            answer.append(message)

        headers = [(b"content-type", b"application/json")]
        scope: Scope = {"type": "http", "method": "POST", "path": f"/{verb}", "headers": headers}
        await self._verbs(scope, receive, send)
        start, content = answer
        assert start["status"] in (200, 400, 413), (verb, body, start)
        _check_answer(verb, json.loads(content["body"]), body)

    async def _wait(self, seconds: float) -> None:
        """Let time pass, with the Ticks that are due, and the writes that were asked for."""
        self._now += seconds
        for _ in range(50):
            at = self._core.next_wake()
            if at is None or at > self._now:
                break
            self._runner.dispatch(Tick())
        for _ in range(5):
            await asyncio.sleep(0)

    def _check_records(self) -> None:
        """Check that records of jobs and queues can be written, and that no annotation overdraws a quota."""
        for workload in self._core.state.workloads.values():
            if (record := workload.job) is not None:
                nodes = [node for planned in (record.seen.plan or {}).values() for node in planned]
                names = [*(record.seen.plan or {}), *nodes, *record.seen.flavor_names, workload.key.name]
                assert all(name.isascii() and name.isprintable() for name in names), names
        for key in self._core.queued():
            if (report := self._core.workload_report(key)) is not None:
                msgspec.json.encode([spec_of(report), record_status(report, (), None, "now")])
        reports = self._core.queue_reports(self._now)
        msgspec.json.encode(status_of(self._queue, reports["ClusterQueue", "", "team"], (), "now"))
        for effect in self._writer.asked:
            if isinstance(effect, SuspendJob):
                evictions_text(effect.evicted)

    def _check(self) -> None:
        assert not self._runner.failed.is_set(), self._log.getvalue()
        state = self._core.state
        validate(state)
        for gang in state.workloads.values():
            assert {member.pod.namespace for member in gang.members} <= {gang.key.namespace}, gang.key
            message = full(reason_of(gang.reason_state.cause).message)
            assert message.isprintable(), reason_of(gang.reason_state.cause)
            assert len(message) <= LONGEST_REASON, reason_of(gang.reason_state.cause)
        self._check_records()
        for report in self._writer.reports:
            assert report.message.isprintable(), report
            assert str(report.key).isprintable(), report
        for line in self._log.getvalue().split("\n"):
            assert line.isprintable(), repr(line)
            assert re.match(r"    |\d{4}-\d\d-\d\d |$", line), repr(line)
        exposed = self._metrics.render().decode().splitlines()
        assert len(exposed) < MOST_SERIES, len(exposed)
        for line in exposed:
            assert _EXPOSED.fullmatch(line), line


_JOBS = jobs_of(JOB, Reader())


def _check_answer(verb: str, answer: Any, body: bytes) -> None:
    """Check that the answer has the shape that kube-scheduler can read without harm."""
    match verb:
        case "prioritize":
            assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in answer), (answer, body)
        case "preempt":
            victims = answer["NodeNameToMetaVictims"]
            assert all(pod["UID"] for entry in victims.values() for pod in entry["Pods"]), (answer, body)
        case _:
            assert len(answer["Error"]) <= 1024, (answer, body)
            assert answer["Error"].isprintable(), (answer, body)
            if verb == "filter":
                assert isinstance(answer["NodeNames"], list), (answer, body)
                assert answer["FailedNodes"] == {}, (answer, body)
