"""An object on which the core fails keeps no other workload from starting, from one life of the process to the next."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from extender.core.bare import named
from extender.core.effects import Effect, JobEffect, Wake
from extender.core.engine import Engine
from extender.core.events import (
    BudgetGone,
    BudgetSeen,
    CapacityGone,
    CapacitySeen,
    ClaimGone,
    ClaimSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    ComputeDomainGone,
    ComputeDomainSeen,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    Event,
    GroupGone,
    GroupJobGone,
    GroupJobSeen,
    GroupSeen,
    JobGone,
    JobSeen,
    NamespaceGone,
    NamespaceSeen,
    NativeGangGone,
    NativeGangSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    PodsSeen,
    QueueGone,
    QueueSeen,
    SliceGone,
    SliceSeen,
    StorageClassGone,
    StorageClassSeen,
    StorageDriverGone,
    StorageDriverSeen,
    TaintRuleGone,
    TaintRuleSeen,
    Tick,
    VolumeGone,
    VolumeSeen,
)
from extender.core.ledger.kube_scheduler import LEFT_OUT
from extender.core.lifecycle import Lifecycle
from extender.core.limits import Limits
from extender.core.workload.workload import Workload
from extender.runtime import quarantine
from extender.runtime.failures_file import FailuresFile
from extender.runtime.quarantine import (
    FAILURES,
    MOST_ENTRIES,
    REMEMBERED_S,
    WITHIN_S,
    Quarantine,
    Record,
    Source,
)
from extender.runtime.runner import Runner
from policies.model import Controller, DisruptionBudget, GangOwner, GroupJob, Node, Pod, PodSets, Stamp
from policies.model.devices import (
    ClaimSpec,
    ClaimTemplate,
    ComputeDomain,
    DeviceClaim,
    PoolKey,
    Reach,
    Slice,
    TaintRule,
)
from policies.model.node import Taint
from policies.model.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, TopologyObject, VolcanoQueue
from policies.model.storage import Capacity, StorageClass
from tests.builders import GPU, cluster, gang, key, node, podgroup, single
from tests.core.jobs import job
from tests.running import Written

pytestmark = pytest.mark.anyio

Fails = Callable[[Event], bool]


class Fragile(Engine):
    """A core with a bug that some events trigger, in any order."""

    def __init__(self, fails: Fails, **facts: Any) -> None:
        super().__init__(**facts)
        self._fails = fails

    def handle(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, PodsSeen):
            for pod in event.pods:
                self.state.process.subject = pod.uid
                self._check(PodSeen(pod))
            self.state.process.subject = None
        self._check(event)
        return super().handle(event, now)

    def _check(self, event: Event) -> None:
        if self._fails(event):
            raise IndexError("index 8 is out of bounds \ud800")


class Place:
    """A pod of the deployment: its file, its clock, and one process after the other."""

    def __init__(self, path: Path, fails: Fails) -> None:
        self.path = path
        self.now = 1_000_000.0
        self.clock: Callable[[], float] = lambda: self.now
        self.fails = fails
        self.limits = Limits()
        self.lives: list[Runner] = []

    @property
    def record(self) -> Record:
        return FailuresFile(self.path).read()

    def start(self) -> Runner:
        """Start a process, which begins with the file that the last one has written."""
        file = FailuresFile(self.path)
        self.written = Written()
        kept = Quarantine(file.read(), file.write, self.clock)
        runner = Runner(self.core(), self.written, quarantine=kept)
        self.lives.append(runner)
        return runner

    def core(self) -> Engine:
        return Fragile(self.fails, limits=self.limits)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    opened = Place(tmp_path / "failures.json", lambda _: False)
    yield opened
    for runner in opened.lives:
        await runner.drain()


async def until(holds: Callable[[], bool]) -> None:
    """Let the core continue at its deadlines."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the core goes on by itself, at deadlines that nothing else tells
            await asyncio.sleep(0.001)


async def settled(runner: Runner) -> None:
    """Let everything happen that is due."""
    for _ in range(3):
        await asyncio.sleep(0)
    await until(lambda: runner.failed.is_set() or (runner.core.passes[0] > 0 and not runner.core.passes[1]))
    await asyncio.sleep(0)


async def plans(place: Place, runner: Runner) -> None:
    """A gang of others is planned, and its pods are led to their nodes."""
    for pod in gang("others", 2, gpus=4):
        runner.show(PodSeen(pod), Source("pods", pod.uid, "1"))
    await asyncio.sleep(0)
    await until(lambda: all(member.placed for member in runner.core.state.workloads[key("others")].members))


class Kind(NamedTuple):
    name: str
    seen: Event
    gone: Event
    changed: Event


JOB = job(2, name="train")
OWNER = GangOwner(key("sts"), Controller("apps/v1", "StatefulSet", "sts", "owner"), 2)
GROUP_JOB = GroupJob(Controller("batch.volcano.sh/v1alpha1", "Job", "vj", "vj"), PodSets(key("vj"), ()))
QUEUES = (
    ClusterQueue("bad", ()),
    Cohort("bad"),
    LocalQueue("default", "bad", "all"),
    ResourceFlavor("bad", {"pool": "a"}),
    TopologyObject("bad", ("rack",)),
    VolcanoQueue("bad"),
)
SLICE = Slice("bad", PoolKey("gpus", "a-0"), 1, 1, Reach())
RULE = TaintRule("bad", Taint("broken", "", "NoSchedule"))
KINDS = (
    Kind("pod", PodSeen(single("bad")), PodGone("bad"), PodSeen(single("bad", gpus=2))),
    Kind(
        "bound pod",
        PodSeen(single("bad", node="a-0", labels=(("odd", ""),))),
        PodGone("bad"),
        PodSeen(single("bad", node="a-1")),
    ),
    Kind("node", NodeSeen(node("bad", 8)), NodeGone("bad"), NodeSeen(node("bad", 4))),
    Kind("PodGroup", GroupSeen(podgroup("bad", 2)), GroupGone(key("bad"), "bad"), GroupSeen(podgroup("bad", 3))),
    Kind("job", JobSeen(JOB), JobGone(JOB.key, JOB.uid), JobSeen(replace(JOB, held=True))),
    Kind(
        "GroupJob",
        GroupJobSeen(GROUP_JOB),
        GroupJobGone(key("vj"), "vj"),
        GroupJobSeen(replace(GROUP_JOB, podsets=PodSets(key("other"), ()))),
    ),
    Kind("owner", OwnerSeen(OWNER), OwnerGone(OWNER.key, "owner"), OwnerSeen(replace(OWNER, minimum=3))),
    Kind("namespace", NamespaceSeen("bad", ()), NamespaceGone("bad"), NamespaceSeen("bad", (("a", "b"),))),
    Kind(
        "claim",
        ClaimSeen("default", "bad", bound=False),
        ClaimGone("default", "bad"),
        ClaimSeen("default", "bad", bound=True),
    ),
    Kind(
        "volume",
        VolumeSeen("bad", "default", "claim", ()),
        VolumeGone("bad", "default", "claim"),
        VolumeSeen("bad", "default", "other", ()),
    ),
    Kind(
        "budget",
        BudgetSeen(DisruptionBudget("default", "bad", (), 1)),
        BudgetGone("default", "bad"),
        BudgetSeen(DisruptionBudget("default", "bad", (), 2)),
    ),
    Kind(
        "native gang",
        NativeGangSeen(key("bad"), "bad"),
        NativeGangGone(key("bad"), "bad"),
        NativeGangSeen(key("bad"), "made anew"),
    ),
    Kind("DeviceClass", DeviceClassSeen("bad", "a/b"), DeviceClassGone("bad"), DeviceClassSeen("bad", "")),
    Kind("slice", SliceSeen(SLICE), SliceGone("bad"), SliceSeen(replace(SLICE, generation=2))),
    Kind(
        "ResourceClaim",
        DeviceClaimSeen(DeviceClaim("default", "bad", "bad")),
        DeviceClaimGone("default", "bad"),
        DeviceClaimSeen(DeviceClaim("default", "bad", "bad", reserved_for=("pod",))),
    ),
    Kind(
        "template of claims",
        ClaimTemplateSeen(ClaimTemplate("default", "bad")),
        ClaimTemplateGone("default", "bad"),
        ClaimTemplateSeen(ClaimTemplate("default", "bad", ClaimSpec(domain="other"))),
    ),
    Kind(
        "StorageClass",
        StorageClassSeen(StorageClass("bad")),
        StorageClassGone("bad"),
        StorageClassSeen(StorageClass("bad", waits=True)),
    ),
    Kind(
        "CSIDriver",
        StorageDriverSeen("bad", counts=False),
        StorageDriverGone("bad"),
        StorageDriverSeen("bad", counts=True),
    ),
    Kind(
        "CSIStorageCapacity",
        CapacitySeen(Capacity("default", "bad", "local", None, 1)),
        CapacityGone("default", "bad"),
        CapacitySeen(Capacity("default", "bad", "local", None, 2)),
    ),
    Kind("rule of taints", TaintRuleSeen(RULE), TaintRuleGone("bad"), TaintRuleSeen(replace(RULE, driver="gpus"))),
    Kind(
        "ComputeDomain",
        ComputeDomainSeen(ComputeDomain("default", "bad", "bad")),
        ComputeDomainGone("bad"),
        ComputeDomainSeen(ComputeDomain("default", "bad", "bad", nodes=2)),
    ),
    *(Kind(type(queue).__name__, QueueSeen(queue), QueueGone(queue), QueueSeen(queue, ("odd",))) for queue in QUEUES),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_an_object_that_fails_the_core_is_left_out_in_that_version_alone(place: Place, kind: Kind) -> None:
    place.fails = lambda event: event == kind.seen
    bad, first = Source("bads", "bad", "7"), place.start()
    for machine in cluster("a: 2x8"):
        first.show(NodeSeen(machine), Source("nodes", machine.name, "1"))
    first.act()
    await settled(first)
    first.show(kind.seen, bad)
    await asyncio.sleep(0)
    assert first.failed.is_set()
    (entry,) = place.record.entries
    assert (entry.uid, entry.version) == ("bad", "7")
    assert entry.error.startswith("IndexError: index 8 is out of bounds")

    for life in ("the next", "the one after"):
        runner = place.start()
        for machine in cluster("a: 2x8"):
            runner.show(NodeSeen(machine), Source("nodes", machine.name, "1"))
        runner.show(kind.seen, bad)
        runner.act()
        await settled(runner)
        assert not runner.failed.is_set(), life
        assert len(runner.quarantine.left_out()) == 1
        await plans(place, runner)

    runner.show(kind.changed, Source("bads", "bad", "8"))
    await asyncio.sleep(0)
    assert not runner.failed.is_set()
    assert runner.quarantine.left_out() == []
    assert all(entry.taken_in for entry in place.record.entries)
    place.now += REMEMBERED_S + 1
    runner.quarantine.forget_unseen()
    assert place.record.entries == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_an_object_that_is_left_out_may_go(place: Place, kind: Kind) -> None:
    place.fails = lambda event: event == kind.seen
    place.start().show(kind.seen, Source("bads", "bad", "7"))
    await asyncio.sleep(0)
    runner = place.start()
    runner.show(kind.seen, Source("bads", "bad", "7"))
    runner.act()
    await settled(runner)
    runner.lose(kind.gone, Source("bads", "bad", "8"))
    assert not runner.failed.is_set()
    assert place.record.entries == ()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_object_has_a_name_for_people(kind: Kind) -> None:
    whose = named(kind.seen)
    assert whose is not None
    assert whose[1].kind
    assert whose[1].name


def test_every_kind_that_is_followed_is_tried_here() -> None:
    shown = {type(kind.seen) for kind in KINDS}
    followed = {
        event_type
        for event_type in get_args(Event)
        if event_type.__name__.endswith("Seen") and event_type is not PodsSeen
    }
    assert followed == shown


def bad(event: Event) -> bool:
    """Whether the event shows a pod with an odd label, which is not among the bare facts."""
    return isinstance(event, PodSeen) and ("odd", "") in event.pod.labels


def odd(pod: Pod) -> Pod:
    return replace(pod, labels=(("odd", ""),))


def stamp(at: int) -> Stamp:
    """The stamp of a complete release, of which only one member says so."""
    return Stamp("uid", "release", complete=not at, quorum=2, size=2, name="train")


async def read(runner: Runner, *facts: Node | Pod) -> None:
    """The lists are read, and the core begins."""
    for fact in facts:
        event = NodeSeen(fact) if isinstance(fact, Node) else PodSeen(fact)
        runner.show(event, Source("all", fact.name if isinstance(fact, Node) else fact.uid, "1"))
    await asyncio.sleep(0)
    if not runner.failed.is_set():
        runner.act()
        await settled(runner)


async def test_of_pods_that_are_seen_together_the_one_is_found_that_the_core_fails_on(place: Place) -> None:
    place.fails = bad
    plain = [single(f"p{number}") for number in range(20)]
    pods = [odd(pod) if pod.name == "p7" else pod for pod in plain]
    await read(place.start(), *cluster("a: 4x8"), *pods)
    assert [(entry.uid, entry.suspect) for entry in place.record.entries] == [(plain[7].uid, False)]
    runner = place.start()
    await read(runner, *cluster("a: 4x8"), *pods)
    assert set(runner.core.state.pods) == {pod.uid for pod in plain} - {plain[7].uid}


async def test_if_it_cannot_be_told_each_is_shown_alone_when_the_others_are_served(place: Place) -> None:
    """The core fails when it draws its conclusions from all that it was shown."""

    def concludes(event: Event) -> bool:
        return (
            bad(event)
            if isinstance(event, PodSeen)
            else isinstance(event, PodsSeen) and any(("odd", "") in pod.labels for pod in event.pods)
        )

    class Late(Fragile):
        def handle(self, event: Event, now: float) -> list[Effect]:
            self._check(event)
            return Engine.handle(self, event, now)

    place.core = lambda: Late(concludes)  # type: ignore[method-assign]
    plain = [single(f"p{number}", node="a-0") for number in range(5)]
    pods = [odd(pod) if pod.name == "p3" else pod for pod in plain]
    await read(place.start(), *cluster("a: 2x8"), *pods)
    assert all(entry.suspect for entry in place.record.entries)
    second = place.start()
    await read(second, *cluster("a: 2x8"), *pods)
    assert second.core.state.process.recovered, "it served the others before it looked for the culprit"
    assert set(second.core.state.pods) == {pod.uid for pod in plain}, "each is known by its bare facts"
    assert second.failed.is_set()
    third = place.start()
    await read(third, *cluster("a: 2x8"), *pods)
    assert not third.failed.is_set()
    assert [str(source) for source in third.quarantine.left_out()] == ["Pod default/p3"]
    assert [entry.uid for entry in place.record.entries] == [plain[3].uid]


async def test_a_node_is_not_to_blame_for_a_gang_on_which_the_core_fails_when_it_changes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Lifecycle.settle

    def fails(self: Lifecycle, workload: Workload, now: float) -> None:
        if any(("odd", "") in member.pod.labels for member in workload.members) and len(self._claims.nodes) > 2:
            raise KeyError("odd")
        settle(self, workload, now)

    monkeypatch.setattr(Lifecycle, "settle", fails)
    pods = [replace(pod, node=f"a-{at}") for at, pod in enumerate(gang("odd", 2))]
    pods[0] = odd(pods[0])
    first = place.start()
    await read(first, *cluster("a: 2x8"), *pods)
    first.core.state.store.mark_dirty(first.core.state.workloads[key("odd")])
    first.show(NodeSeen(node("b")), Source("all", "b", "1"))
    assert first.failed.is_set()
    assert {entry.uid for entry in place.record.entries} == {"b", *(pod.uid for pod in pods)}
    second = place.start()
    await read(second, *cluster("a: 2x8"), node("b"), *pods)
    assert second.failed.is_set(), "at the pod, which it was shown alone"
    third = place.start()
    await read(third, *cluster("a: 2x8"), node("b"), *pods)
    assert [str(source) for source in third.quarantine.left_out()] == ["Pod default/odd-0"]
    assert not third.core.state.claims.nodes["b"].unschedulable


async def test_what_fails_only_when_the_core_recovers_keeps_it_from_starting_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    recover = Lifecycle.recover

    def fails(self: Lifecycle, workload: Workload, now: float) -> None:
        if any(("odd", "") in member.pod.labels for member in workload.members):
            raise KeyError("odd")
        recover(self, workload, now)

    monkeypatch.setattr(Lifecycle, "recover", fails)
    pods = [replace(pod, node=f"a-{at}") for at, pod in enumerate(gang("odd", 2))]
    pods[0] = odd(pods[0])
    await read(first := place.start(), *cluster("a: 3x8"), *pods)
    assert first.failed.is_set()
    assert {entry.uid for entry in place.record.entries} == {pod.uid for pod in pods}
    for _ in range(2):
        runner = place.start()
        await read(runner, *cluster("a: 3x8"), *pods)
        assert not runner.failed.is_set()
        assert len(runner.core.state.workloads[key("odd")].members.bound) == 2
        assert runner.core.state.pods[pods[0].uid] == pods[0], "it is shown as it is by now"


async def test_an_object_that_fails_in_each_of_its_versions_is_taken_in_less_and_less_often(place: Place) -> None:
    """Repeated changes of an object by its author end Muster only at growing intervals."""
    place.fails = bad
    ends = 0
    for version in range(60):
        place.now += 30
        pod = replace(odd(single("bad")), hint=f"{version}")
        runner = place.start()
        runner.show(PodSeen(pod), Source("pods", pod.uid, f"{version}"))
        await asyncio.sleep(0)
        ends += runner.failed.is_set()
    assert ends == 6, "of 60 versions in half an hour"
    place.now += 1000
    good = replace(pod, labels=())
    runner = place.start()
    await read(runner, *cluster("a: 1x8"))
    runner.show(PodSeen(good), Source("pods", good.uid, "60"))
    await asyncio.sleep(0)
    assert good.uid in runner.core.state.pods


async def test_what_has_changed_is_taken_in_when_its_time_has_come(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "_FIRST_PAUSE_S", 0.5)
    place.fails, place.clock = bad, time.time
    first, second, good = replace(odd(single("bad")), hint="1"), odd(single("bad")), single("bad", refusal=LEFT_OUT)
    for pod in (first, second):
        runner = place.start()
        await read(runner, *cluster("a: 1x8"), first)
        runner.show(PodSeen(pod), Source("all", pod.uid, pod.hint or "2"))
        await asyncio.sleep(0)
        assert runner.failed.is_set()
    runner = place.start()
    runner.show(PodSeen(second), Source("all", second.uid, "2"))
    await read(runner, *cluster("a: 1x8"))
    runner.show(PodSeen(good), Source("all", good.uid, "3"))
    assert len(runner.quarantine.left_out()) == 1
    await until(lambda: good.uid in runner.core.state.pods)
    assert runner.quarantine.left_out() == []
    woken = Wake(good.uid, good.namespace, good.name)
    await until(lambda: woken in place.written.asked)  # kube-scheduler has seen the change, and was refused since


async def test_a_takeover_leaves_the_same_out_as_a_restart(place: Place) -> None:
    place.fails = bad
    pods = [odd(single("bad")), single("good")]
    await read(place.start(), *cluster("a: 1x8"), *pods)
    runner = place.start()
    for _ in range(2):
        await read(runner, *cluster("a: 1x8"), *pods)
        assert not runner.failed.is_set()
        assert [str(source) for source in runner.quarantine.left_out()] == ["Pod default/bad"]
        runner.start_over(place.core(), place.written, "another leads")
        assert runner.quarantine.left_out() == []


async def test_kube_scheduler_is_told_that_a_pod_is_left_out(place: Place) -> None:
    place.fails = bad
    pod = odd(single("bad"))
    await read(place.start(), *cluster("a: 1x8"), pod)
    runner = place.start()
    await read(runner, *cluster("a: 1x8"), pod)
    answer = runner.filter(pod, ("a-0",))
    assert answer is not None
    assert (answer.passed, answer.reason) == ((), LEFT_OUT)
    victims = runner.preempt(pod, {"a-0": ()})
    assert victims is not None
    assert victims.victims == {}


async def test_a_bound_member_that_is_left_out_counts_as_bound(place: Place) -> None:
    place.fails, place.limits = bad, Limits(partial_s=0.05)
    pods = [replace(pod, node=f"a-{at}", stamp=stamp(at)) for at, pod in enumerate(gang("train", 2))]
    pods[1] = odd(pods[1])
    await read(place.start(), *cluster("a: 3x8"), *pods)
    runner = place.start()
    await read(runner, *cluster("a: 3x8"), *pods)
    workload = runner.core.state.workloads[key("train")]
    assert len(workload.members.bound) == 2
    assert workload.has_bound_quorum
    assert runner.core.state.claims.room("a-1")[GPU] == 0
    await asyncio.sleep(0.2)
    assert workload.release.partial_since is None


async def test_nothing_is_planned_on_a_node_that_is_left_out_and_what_is_there_stays(place: Place) -> None:
    place.fails = lambda event: (
        isinstance(event, NodeSeen) and event.node.name == "a-0" and bool(event.node.allocatable)
    )
    there = replace(single("there"), node="a-0")
    await read(place.start(), *cluster("a: 3x8"), there)
    runner = place.start()
    await read(runner, *cluster("a: 3x8"), there)
    claim = runner.core.state.claims.get(there.uid)
    assert claim is not None
    assert claim.node == "a-0"
    await plans(place, runner)
    planned = {member.node for member in runner.core.state.workloads[key("others")].members}
    assert planned <= {"a-1", "a-2"}


# Failures that no object has caused.


def cycles(event: Event) -> bool:
    return isinstance(event, Tick)


async def end_in_a_cycle(place: Place) -> Runner:
    """A process that ends by an error at its first deadline."""
    runner = place.start()
    for machine in cluster("a: 2x8"):
        runner.show(NodeSeen(machine), Source("nodes", machine.name, "1"))
    runner.act()
    await until(lambda: runner.core.state.process.recovered)
    place.fails = cycles
    runner.core._fails = cycles  # type: ignore[attr-defined]
    for pod in gang("first", 2):
        runner.show(PodSeen(pod), Source("pods", pod.uid, "1"))
    async with asyncio.timeout(10):
        await runner.failed.wait()
    place.fails = lambda _: False
    return runner


async def test_after_too_many_failures_in_cycles_nothing_new_is_planned_for_a_while(place: Place) -> None:
    for count in range(FAILURES):
        assert place.start().quarantine.pause_s == 0, count
        await end_in_a_cycle(place)
        place.now += 60
    assert place.record.entries == ()
    runner = place.start()
    assert runner.quarantine.pause_s == WITHIN_S - 60
    running = [replace(pod, node="a-0") for pod in gang("running", 2, gpus=4)]
    await read(runner, *cluster("a: 2x8"), *running, *gang("waits", 2, gpus=1))
    assert runner.core.state.process.recovered
    assert not any(member.placed for member in runner.core.state.workloads[key("waits")].members)
    answer = runner.filter(gang("waits", 2, gpus=1)[0], ("a-0", "a-1"))
    assert answer is not None
    assert answer.passed == ()
    assert "nothing new is planned" in runner.quarantine.pause_notice
    place.now += WITHIN_S
    after = place.start()
    assert after.quarantine.pause_s == 0
    await read(after, *cluster("a: 2x8"))
    await plans(place, after)


async def test_the_first_failure_after_a_pause_begins_the_next_one(place: Place) -> None:
    for _ in range(FAILURES):
        await end_in_a_cycle(place)
    place.now += WITHIN_S + 60
    assert place.start().quarantine.pause_s == 0
    await end_in_a_cycle(place)
    assert place.start().quarantine.pause_s == WITHIN_S


async def test_failures_that_are_far_apart_pause_nothing(place: Place) -> None:
    for _ in range(2 * FAILURES):
        await end_in_a_cycle(place)
        place.now += WITHIN_S / 2
    assert place.start().quarantine.pause_s == 0


# The file.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\x00",
        b"null",
        b"[" * 100_000,
        b'{"entries": 7}',
        b'{"entries": [{"uid": "u", "form": -1}]}',
        b'{"entries": [{"uid": ""}]}',
        b'{"failures": [1e999]}',
        b" " * (5 << 20),
        json.dumps({"entries": [{"uid": f"{number}"} for number in range(MOST_ENTRIES + 1)]}).encode(),
    ],
    ids=range(10),
)
def test_a_file_that_cannot_be_read_is_begun_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "failures.json"
    path.write_bytes(content)
    assert FailuresFile(path).read() == Record()
    (line,) = caplog.messages
    assert line.startswith(f"{path} cannot be read, and is started again empty")


def test_a_file_that_is_not_there_is_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert FailuresFile(tmp_path / "failures.json").read() == Record()
    assert caplog.messages == []


def test_a_pause_of_the_far_future_is_none(tmp_path: Path) -> None:
    assert Quarantine(Record(paused_until=1e300), lambda _: None, lambda: 1e9).pause_s == 0


async def test_nothing_is_left_out_until_an_instant_of_a_clock_that_was_put_back(place: Place) -> None:
    place.fails = bad
    first, second, good = (
        replace(single("bad"), labels=labels) for labels in ((("odd", ""),), (("odd", ""), ("a", "b")), ())
    )
    place.now += 1e9
    for version, pod in enumerate((first, second)):
        place.start().show(PodSeen(pod), Source("all", pod.uid, f"{version}"))
        await asyncio.sleep(0)
    place.now -= 1e9
    runner = place.start()
    runner.show(PodSeen(second), Source("all", second.uid, "1"))
    await read(runner, *cluster("a: 1x8"))
    assert len(runner.quarantine.left_out()) == 1
    place.now += 3600.0
    runner.show(PodSeen(good), Source("all", good.uid, "2"))
    await asyncio.sleep(0)
    assert good.uid in runner.core.state.pods


async def test_a_file_that_cannot_be_written_ends_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.path = place.path / "no" / "such" / "directory"
    place.fails = bad
    await read(place.start(), odd(single("bad")))
    assert "cannot be written" in caplog.text
    assert place.record == Record()


async def test_without_a_file_it_is_said_that_the_next_start_knows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    FailuresFile(None).write(Record())
    assert "failures_file is empty" in caplog.text
    assert FailuresFile(None).read() == Record()


async def fails_twice(place: Place, *versions: PodSeen | JobSeen) -> Runner:
    """The core has failed on two versions of it, so that a third one is not taken in at once."""
    place.fails = lambda event: event in versions
    for version, event in enumerate(versions):
        runner = place.start()
        runner.show(event, Source("all", "bad", f"{version}"))
        await asyncio.sleep(0)
        assert runner.failed.is_set()
    runner = place.start()
    runner.show(versions[-1], Source("all", "bad", "1"))
    await read(runner, *cluster("a: 1x8"))
    return runner


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_the_end_of_a_pod_that_is_left_out_frees_its_room(place: Place, phase: str) -> None:
    pod = odd(single("bad", node="a-0", gpus=8))
    runner = await fails_twice(place, PodSeen(pod), PodSeen(replace(pod, hint="changed")))
    assert runner.core.state.claims.room("a-0")[GPU] == 0
    runner.show(PodSeen(replace(pod, phase=phase)), Source("all", "bad", "2"))
    assert len(runner.quarantine.left_out()) == 1
    assert runner.core.state.claims.room("a-0")[GPU] == 8


async def test_the_end_of_a_job_that_is_left_out_frees_its_room(place: Place) -> None:
    started = replace(job(1), suspended=False, stopped=False, marked=True, plan={"": ("a-0",)})
    runner = await fails_twice(place, JobSeen(started), JobSeen(replace(started, held=True)))
    assert runner.core.state.claims.room("a-0")[GPU] == 0
    runner.show(JobSeen(replace(started, finished=True)), Source("all", "bad", "2"))
    assert len(runner.quarantine.left_out()) == 1
    assert runner.core.state.claims.room("a-0")[GPU] == 8
    assert not any(isinstance(effect, JobEffect) for effect in place.written.asked)
