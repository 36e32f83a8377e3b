"""Nothing in a namespace that is being deleted is started, and its promised room is free."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import CapacityServed, NamespaceGone, NamespaceSeen, QueueSeen
from extender.core.explain.reasons import reason_of
from extender.core.limits import Elasticity, Limits
from policies.model import Dialect, GroupKey, GroupRef, Job, PodSets
from policies.model.queues import LocalQueue, Strategy
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job, template
from tests.core.preempting import Cluster
from tests.core.queues import cluster_queue, flavor, show, used
from tests.core.script import Script

ENDING = NamespaceSeen("doomed", (), terminating=True)
CODE = "NamespaceTerminating"


def doomed(name: str, count: int = 2, priority: int = 0) -> Job:
    """A job in the namespace that is deleted."""
    seen = job(count, name=name)
    made_of = template(name, namespace="doomed", priority=priority)
    podset = replace(seen.podsets.podsets[0], template=made_of)
    return replace(seen, podsets=PodSets(GroupKey("doomed", name), (podset,)))


def reason(script: Script, name: str) -> str:
    return reason_of(script.core.state.workloads[GroupKey("doomed", name)].reason_state.cause).code


def test_waiting_jobs_of_a_namespace_that_is_being_deleted_are_not_started() -> None:
    script = Script(*cluster("a: 2x8"))
    script.feed(NamespaceSeen("doomed", ()))
    first = Controlled(script, doomed("first"))
    first.run()
    waiting = [Controlled(script, doomed(f"w{at}")) for at in range(3)]
    script.feed(ENDING)
    other = Controlled(script, job(2, name="other"))
    assert [reason(script, f"w{at}") for at in range(3)] == [CODE] * 3
    assert (reason(script, "first"), script.reason("other")) == ("Running", "NoRoom"), "what runs keeps its room"
    first.delete()
    other.settle()
    first.settle()
    assert len(other.starts) == 1
    assert not any(controlled.starts for controlled in waiting)


def test_a_job_that_is_started_and_has_no_pods_gives_its_room_back_at_once() -> None:
    script = Script(*cluster("a: 2x8"))
    squat = Controlled(script, doomed("squat"))
    assert len(squat.starts) == 1
    other = Controlled(script, job(2, name="other"))
    script.feed(ENDING)
    other.settle()
    squat.settle()
    assert (len(other.starts), len(squat.stops)) == (1, 1)
    assert script.core.state.creation.awaited == 2, "those of the other one"
    squat.wait(60)
    assert len(squat.starts) == 1
    assert reason(script, "squat") == CODE


def test_a_job_that_runs_keeps_no_room_for_a_pod_that_cannot_be_made_again() -> None:
    script = Script(*cluster("a: 2x8"))
    first = Controlled(script, doomed("first"))
    lost, _ = first.run()
    other = gang("other", 1)
    script.feed(ENDING)
    script.see(other)
    script.change(lost, phase="Failed")
    script.gone(script.pods[lost.uid])
    assert script.planned(other[0])
    assert not first.stops


def test_a_gang_of_pods_is_planned_no_more_and_what_it_was_promised_is_free() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = gang("gang", 2, namespace="doomed")
    script.see(pods)
    assert script.planned(pods[0])
    other = gang("other", 2)
    script.see(other)
    assert not script.planned(other[0])
    script.feed(ENDING)
    script.advance(0.1)
    assert script.planned(other[0])
    assert not script.planned(pods[0])
    assert reason(script, "gang") == CODE


def test_a_preemption_for_it_ends_and_who_was_not_told_stays() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    low = gang("low", 1)
    script.see(low)
    script.run(low)
    script.see(gang("high", 1, priority=10, namespace="doomed"))
    assert script.core.state.preemptions.under_way
    script.feed(ENDING)
    script.write(script.written[0])
    assert not script.core.state.preemptions.under_way
    assert not script.evicted
    script.advance(120)
    assert not script.evicted, "nobody of it evicts anybody"


def test_nobody_is_evicted_for_a_job_of_it() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = gang("low", 1)
    script.see(low)
    script.run(low)
    script.feed(ENDING)
    Controlled(script, doomed("high", 1, priority=10)).wait(30)
    assert not script.evicted


def test_a_namespace_that_is_gone_or_made_anew() -> None:
    script = Script(*cluster("a: 2x8"))
    script.feed(ENDING)
    waiting = Controlled(script, doomed("waiting"))
    script.feed(NamespaceGone("doomed"))
    waiting.settle()
    assert not waiting.starts, "the watch of jobs lags"
    waiting.gone()
    anew = Controlled(script, doomed("anew"))
    assert not anew.starts, "and so does the watch of namespaces"
    script.feed(NamespaceSeen("doomed", ()))
    anew.settle()
    assert len(anew.starts) == 1


def test_who_waits_is_told_when_the_namespace_is_gone() -> None:
    script = Script(*cluster("a: 1x8"))
    script.see(gang("gang", 2, namespace="doomed"))
    script.feed(ENDING)
    script.advance(0.1)
    script.feed(NamespaceGone("doomed"))
    script.advance(0.1)
    text = reason_of(script.core.state.workloads[GroupKey("doomed", "gang")].reason_state.cause).message
    assert text.startswith("namespace doomed is deleted: ")


def test_of_namespaces_that_are_gone_only_so_many_are_remembered() -> None:
    script = Script()
    for at in range(1100):
        script.feed(NamespaceSeen(f"n{at}", ()))
        script.feed(NamespaceGone(f"n{at}"))
    namespaces = script.core.state.namespaces
    assert namespaces.ending("n1099")
    assert not namespaces.ending("n0")


def test_what_another_namespace_has_is_not_touched() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = gang("gang", 2)
    script.see(pods, single("dev", gpus=0, node="a-0"))
    script.feed(ENDING)
    assert script.planned(pods[0])


def test_its_quota_is_free_and_it_holds_up_no_strict_queue() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("shared", {"gpus": 16}, strategy=Strategy.STRICT))
    script.feed(QueueSeen(LocalQueue("doomed", "shared", "shared")))
    squat = Controlled(script, replace(doomed("squat"), queue="shared"))
    head = gang("head", 2, namespace="doomed", priority=5)
    script.see([replace(pod, queue="shared") for pod in head])
    other = Controlled(script, replace(job(2, name="other"), queue="shared"))
    assert (used(script, "shared"), script.reason("other")) == (16, "QueueOrder")
    script.feed(ENDING)
    other.settle()
    squat.settle()
    assert used(script, "shared") == 16
    assert (len(squat.stops), len(other.starts)) == (1, 1)


def test_no_nodes_are_asked_for_it_any_more() -> None:
    script = Script(*cluster("a: 1x8"), limits=Limits(elastic=Elasticity(frozenset({"spot"}), 600.0)))
    show(script, flavor("spot"), cluster_queue("team", {"spot": 64}))
    script.feed(QueueSeen(LocalQueue("doomed", "team", "team")))
    script.feed(CapacityServed(served=True))
    Controlled(script, replace(doomed("waits"), queue="team"))
    assert script.core.capacity_asks()
    assert used(script, "team", "spot") == 16
    script.feed(ENDING)
    script.advance(0.5)
    assert not script.core.capacity_asks()
    assert used(script, "team", "spot") == 0


def started_by_others() -> Job:
    """A job that runs by no plan, whose two pods say that they are a gang."""
    seen = doomed("gang")
    (podset,) = seen.podsets.podsets
    named = replace(podset, template=replace(podset.template, group=GroupRef("gang", Dialect.ANNOTATION, 2)))
    return replace(
        seen, podsets=PodSets(seen.podsets.key, (named,)), suspended=False, stopped=False, marked=False, running=True
    )


def test_pods_of_a_job_that_others_have_started_are_promised_nothing_any_more() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = Controlled(script, started_by_others()).create()
    other = gang("other", 2)
    script.see(other)
    assert script.planned(pods[0])
    script.feed(ENDING)
    script.advance(0.5)
    assert not script.planned(pods[0])
    assert script.planned(other[0])


def test_nor_is_room_kept_for_one_that_is_lost() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = Controlled(script, started_by_others()).run()
    script.change(pods[0], phase="Failed")
    other = gang("other", 1)
    script.see(other)
    assert not script.planned(other[0])
    script.feed(ENDING)
    script.advance(0.5)
    assert script.planned(other[0])
