"""Texts in a namespace count the workloads of other namespaces, and name them for an operator alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import AnswerBind, Evict, Report, SuspendJob
from extender.core.events import BudgetSeen, NamespaceSeen, QueueSeen
from extender.core.explain.reasons import text_of, turn_text
from extender.core.limits import Limits, Preempts
from policies.model import CLIQUE, DisruptionBudget, GroupKey, HostPort, Pod, PodSets, Topology
from policies.model.constraints import Constraints
from policies.model.mentions import Mention, discreet, full, mentioned, mentions_of
from policies.model.queues import LocalQueue, Strategy
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import OFF, ON, Cluster
from tests.core.queues import cluster_queue, come, flavor, in_queue, show

OTHER = "secret"
LONG_S = 70.0
"""A time after which each reason has been reported, and reported again with the current numbers."""


def elsewhere(pods: list[Pod]) -> list[Pod]:
    """The same pods in the namespace whose names must not be shown."""
    return [replace(pod, namespace=OTHER) for pod in pods]


def running(script: Cluster, pods: list[Pod]) -> list[Pod]:
    script.see(pods)
    script.run(pods)
    return pods


def held(script: Cluster) -> str:
    script.see(*cluster("a: 3x8"))
    running(script, elsewhere(gang("theirs", 2)))
    script.see(gang("mine", 2, topology=Topology(required=CLIQUE)))
    return f"held there by {OTHER}/theirs (ends unknown)"


def held_by_several(script: Cluster) -> str:
    script.see(*cluster("a: 3x8"))
    running(script, elsewhere(gang("theirs", 1)))
    running(script, gang("ours", 1))
    script.see(gang("mine", 2, topology=Topology(required=CLIQUE)))
    return f"held there by ours (ends unknown), {OTHER}/theirs (ends unknown)"


def used(script: Cluster) -> str:
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    script.feed(QueueSeen(LocalQueue(OTHER, "team", "team")))
    come(script, elsewhere(in_queue("theirs", 2)))
    come(script, in_queue("mine", 1))
    return f"it is used by {OTHER}/theirs (16)"


def before(script: Cluster) -> str:
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}, strategy=Strategy.STRICT))
    script.feed(QueueSeen(LocalQueue(OTHER, "team", "team")))
    come(script, elsewhere(in_queue("theirs", 2, created=1.0)))
    come(script, in_queue("mine", 1, created=2.0))
    return f"{OTHER}/theirs is before it in ClusterQueue team"


def preempting(script: Cluster) -> str:
    running(script, elsewhere(gang("theirs", 2)))
    script.see(gang("mine", 1, priority=10))
    return f"{OTHER}/theirs is being evicted for it; it starts when that is gone"


def preempting_in_vain(script: Cluster) -> str:
    preempting(script)
    script.advance(ON.preemption_s + 1)
    return f"the eviction of {OTHER}/theirs for it has ended: after 60 s {OTHER}/theirs still had pods"


def preempting_a_pod(script: Cluster) -> str:
    script.see(*elsewhere([replace(single(f"one-{at}", gpus=8), node=f"a-{at}", phase="Running") for at in (0, 1)]))
    script.see(gang("mine", 2, priority=10))
    return f"pod {OTHER}/one-0, pod {OTHER}/one-1 are being evicted for it"


def evicted(script: Cluster) -> str:
    running(script, gang("mine", 2))
    script.see(elsewhere(gang("theirs", 1, priority=10)))
    return f"preempted by {OTHER}/theirs, which has priority 10 and lacked room"


def suspended(script: Cluster) -> str:
    train = Controlled(script, job(2, name="mine"))
    train.run()
    script.see(elsewhere(gang("theirs", 1, priority=10)))
    train.settle()
    return f"preempted by {OTHER}/theirs, which has priority 10 and lacked room"


def kept(script: Cluster) -> str:
    script.see(*elsewhere([single("one", gpus=8, priority=5)]))
    script.see(gang("mine", 2))
    return f"room is kept for 1 pod in no gang ({OTHER}/one), ahead of it in line"


def port(script: Cluster) -> str:
    constraints = Constraints(ports=(HostPort(80),))
    taking = replace(single("web", gpus=0), node="a-0", phase="Running", constraints=constraints)
    script.see(*elsewhere([taking]))
    script.see([replace(pod, constraints=constraints) for pod in gang("mine", 2)])
    return f"port 80 in use by {OTHER}/web"


def unsuspended(script: Cluster) -> str:
    seen = job(2, name="theirs")
    script.feed(NamespaceSeen(OTHER, ()))
    podsets = PodSets(
        GroupKey(OTHER, "theirs"),
        tuple(replace(podset, template=replace(podset.template, namespace=OTHER)) for podset in seen.podsets.podsets),
    )
    theirs = Controlled(script, replace(seen, podsets=podsets))
    theirs.run()
    theirs.obeys = False
    script.see(gang("mine", 1, priority=10))
    script.feed(JobWritten(theirs.seen.key, theirs.seen.uid, Outcome.REFUSED, f"jobs {OTHER} may not be patched"))
    script.advance(ON.preemption_s + 1)
    return f"the suspension was refused: jobs {OTHER} may not be patched"


def budgeted(script: Cluster) -> str:
    script.feed(BudgetSeen(DisruptionBudget(OTHER, "all", (), 0)))
    running(script, elsewhere(gang("theirs", 2)))
    script.see(gang("mine", 1, priority=10))
    return f"PodDisruptionBudget {OTHER}/all does not let all of its pods go"


SCENES = [held, held_by_several, used, before, preempting, preempting_in_vain, preempting_a_pod, evicted, suspended]
SCENES += [kept, port, unsuspended, budgeted]


def written(script: Cluster) -> list[str]:
    """The texts that users of the default namespace may read."""
    texts: list[str] = []
    for effect in script.effects:
        match effect:
            case Report(key=there, message=text) if there.namespace == "default":
                texts.append(text)
            case Evict(namespace="default", reason=text):
                texts.append(text)
            case SuspendJob(job=there, reason=text) if there.key.namespace == "default":
                texts.append(text)
            case AnswerBind(error=text):
                texts.append(text)
    report = script.core.workload_report(key("mine"))
    return [*texts, *([report.reason.message] if report is not None else [])]


def told(script: Cluster) -> list[str]:
    """The texts that an operator reads: reasons, messages to jobs, and the log."""
    gang = script.core.state.workloads[key("mine")].reason_state
    texts = [text_of(gang.cause), *(turn_text(turn) for _, turn in gang.story)]
    reports = [effect.full for effect in script.effects if isinstance(effect, Report)]
    return [*(full(text, "default") for text in texts), *reports]


@pytest.mark.parametrize("scene", SCENES)
def test_those_of_other_namespaces_are_counted(scene: Callable[[Cluster], str]) -> None:
    script = Cluster(*cluster("a: 2x8"))
    named = scene(script)
    script.advance(LONG_S)
    texts = written(script)
    assert any("of another namespace" in text or "of other namespaces" in text for text in texts), texts
    assert not [text for text in texts if OTHER in text]
    assert all(text.isprintable() for text in texts)
    assert any(named in text for text in told(script)), told(script)


@pytest.mark.parametrize("scene", SCENES)
def test_a_setting_lets_them_be_named(scene: Callable[[Cluster], str]) -> None:
    script = Cluster(*cluster("a: 2x8"), limits=replace(ON, names_others=True))
    named = scene(script)
    script.advance(LONG_S)
    assert any(named in text for text in written(script)), written(script)


def test_a_dry_run_counts_them_too() -> None:
    script = Cluster(*cluster("a: 2x8"), limits=Limits(preemption=Preempts.DRY_RUN))
    running(script, elsewhere(gang("theirs", 2)))
    script.see(gang("mine", 1, priority=10))
    script.advance(LONG_S)
    assert any("it evicts 1 victim: a workload of another namespace" in text for text in written(script))
    assert not [text for text in written(script) if OTHER in text]
    assert f"it evicts 1 victim: {OTHER}/theirs" in script.message("mine")


def test_a_gang_that_gives_way_to_a_pod_of_no_gang_is_not_told_its_name() -> None:
    script = Cluster(*cluster("a: 2x8"), limits=OFF)
    running(script, gang("mine", 2))
    [pod] = elsewhere([single("one", gpus=8, priority=10)])
    script.see(pod)
    script.preempt(pod, {node: (f"uid-mine-{at}",) for at, node in enumerate(("a-0", "a-1"))})
    script.advance(LONG_S)
    assert "preempted by a workload of another namespace, which has priority 10 and lacked room" in written(script)
    assert not [text for text in written(script) if OTHER in text]


def test_a_job_that_may_start_with_fewer_is_told_the_same() -> None:
    script, seen = Cluster(*cluster("a: 2x8")), job(2, name="mine")
    fewer = PodSets(seen.key, (replace(seen.podsets.podsets[0], minimum=1),))
    running(script, elsewhere(gang("theirs", 1)))
    train = Controlled(script, replace(seen, podsets=fewer))
    train.run()
    script.advance(LONG_S)
    assert not [text for text in written(script) if OTHER in text]


def test_a_text_is_rendered_for_its_readers() -> None:
    mentions = [Mention("a", "a/x (8)", "x (8)"), Mention("b", "b/y (4)"), Mention("c", "pod c/z")]
    text = f"used by {mentioned(mentions, 2)}; before {mentioned(mentions[2:])}"
    assert full(text) == "used by a/x (8), b/y (4) and 1 more; before pod c/z"
    assert full(text, "a") == "used by x (8), b/y (4) and 1 more; before pod c/z"
    assert discreet(text, "a") == (
        "used by x (8), a workload of another namespace and 1 more; before a workload of another namespace"
    )
    assert discreet(text, "d").startswith("used by 2 workloads of other namespaces and 1 more")
    assert discreet("nobody", "a") == full("nobody") == "nobody"
    assert mentioned([]) == ""


def test_a_name_with_marks_in_it_is_a_name() -> None:
    odd = mentioned([Mention("b", "b/\ue001\ue000a\ue003x")])
    assert full(odd) == "b/ax"
    assert discreet(odd, "a") == "a workload of another namespace"


MARKED = [
    "\ue000",
    "\ue000b",
    "b\ue001",
    "\ue000b\ue002\ue001",
    "\ue000b\ue003c\ue001",
    "\ue000b\ue003c\ue003d\ue003\ue003\ue001",
]


@pytest.mark.parametrize("text", MARKED, ids=ascii)
def test_a_text_of_a_tenant_with_marks_in_it_is_a_text(text: str) -> None:
    """The text is quoted in a reason, and the rendering happens at a moment for which no object is to blame."""
    script = Cluster(*cluster("a: 2x8"))
    script.see(gang("mine", 2, topology=Topology(required=text)))
    script.advance(LONG_S)
    plain = "".join(letter for letter in text if letter in "bcd")
    assert any(f'unknown topology level "{plain}"' in text for text in written(script)), written(script)
    assert all(text.isprintable() for text in written(script))
    assert full(f"{text}; {mentioned([Mention('a', 'a/x')])}") == f"{plain}; a/x"
    assert [mention.text for mention in mentions_of(f"{text}; {mentioned([Mention('a', 'a/x')])}")] == ["a/x"]
