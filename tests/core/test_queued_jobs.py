"""Jobs in queues: started by Muster with their flavors, or started by another client."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import JobSeen, QueueSeen
from extender.core.explain.reasons import reason_of
from policies.model import Dialect, GroupRef, Pod, PodSet, PodSets, Taint, Toleration
from policies.model.queues import VOLCANO, ResourceFlavor, Stop, VolcanoQueue
from policies.model.workload import Job
from tests.builders import GPU, cluster, gang, key, node, requests
from tests.core.jobs import Controlled, job, template
from tests.core.queues import FLAVOR, cluster_queue, come, flavor, in_queue, leave, show, sort, used
from tests.core.script import Script


def started_by_others(minimum: int = 1, **facts: object) -> tuple[Job, list[Pod]]:
    """A job of two pods in queue ``team`` that runs, as seen after a restart, and its pods, without a node."""
    whole = replace(job(2), queue="team", suspended=False, stopped=False, running=True)
    podset = replace(whole.podsets.podsets[0], minimum=minimum)
    ref = GroupRef("job", Dialect.ANNOTATION, minimum)
    pods = [replace(pod, uid=f"pod-{pod.index}", name=f"pod-{pod.index}", group=ref) for pod in podset.pods()]
    return replace(whole, podsets=replace(whole.podsets, podsets=(podset,)), **facts), pods  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [0, 1])
@pytest.mark.parametrize("flavors", [None, {"": {"nvidia.com/gpu": "gpus"}}])
def test_pods_of_a_job_that_somebody_else_started_use_the_quota_that_is_counted_for_them(
    flavors: dict[str, dict[str, str]] | None, bound: int
) -> None:
    script = Script(*cluster("a: 4x8"), synced=False)
    started, pods = started_by_others(flavors=flavors)
    script.feed(JobSeen(started))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    script.see(*(replace(pod, node=f"a-{at}", phase="Running") for at, pod in enumerate(pods[:bound])), *pods[bound:])
    script.feed_synced()
    script.advance(0.5)
    assert all(script.planned(pod) for pod in pods[bound:])
    assert used(script, "team") == 16


def test_pods_of_a_job_that_somebody_else_started_wait_where_others_use_the_quota() -> None:
    script = Script(*cluster("a: 4x8"), synced=False)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    others = [replace(pod, queue="team", node=f"a-{at}") for at, pod in enumerate(gang("others", 2))]
    started, (runs, waits) = started_by_others()
    script.feed(JobSeen(started))
    script.see(*(replace(pod, phase="Running") for pod in others), replace(runs, node="a-2", phase="Running"), waits)
    script.feed_synced()
    script.advance(0.5)
    assert not script.planned(waits)
    assert used(script, "team") == 32
    for pod in others:
        script.gone(script.pods[pod.uid])
    script.advance(0.5)
    assert script.planned(waits)
    assert used(script, "team") == 16


def test_the_pods_to_come_of_a_job_that_somebody_else_started_keep_their_quota_when_others_are_planned() -> None:
    script = Script(*cluster("a: 4x8"), synced=False)
    started, (comes, _) = started_by_others()
    script.feed(JobSeen(started))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    (other,) = (replace(pod, queue="team", created=1.0) for pod in gang("other", 1))
    script.see(comes, other)
    script.feed_synced()
    script.advance(0.5)
    assert script.planned(comes)
    assert not script.planned(other), "the quota that is left is that of the job's second pod"
    assert used(script, "team") == 16


def test_a_job_starts_with_its_flavors_and_what_its_pods_tolerate() -> None:
    taint, tolerates = Taint("gpu", "", "NoSchedule"), Toleration("gpu", "Exists", "", "")
    nodes = [replace(node, labels={**node.labels, FLAVOR: "h100"}, taints=(taint,)) for node in cluster("a: 2x8")]
    script = Script(*nodes)
    tainted = ResourceFlavor("h100", {FLAVOR: "h100"}, (taint,), (tolerates,))
    show(script, tainted, cluster_queue("team", {"h100": 16}))
    controlled = Controlled(script, replace(job(2), queue="team"))
    (start,) = controlled.starts
    assert start.flavors == {"": {"nvidia.com/gpu": "h100"}}
    assert start.tolerations == {"": (tolerates,)}
    assert used(script, "team", "h100") == 16
    script.see(replace(nodes[0], labels={**nodes[0].labels, "note": "x"}))
    controlled.settle()
    assert not controlled.stops, "its pods tolerate the taint of its flavor"


@pytest.mark.parametrize(
    ("group", "flavors"),
    [("", ("first", "second")), ("all", ("second", "second"))],
)
def test_podsets_of_a_group_start_with_the_same_flavor(group: str, flavors: tuple[str, str]) -> None:
    rows = {"first": "a: 2x8", "second": "b: 3x8"}
    nodes = [replace(node, labels={**node.labels, FLAVOR: name}) for name, row in rows.items() for node in cluster(row)]
    script = Script(*nodes)
    show(script, sort("first"), sort("second"), cluster_queue("team", {"first": 16, "second": 24}))
    podsets = [PodSet(template(series=name, podset_group=group), size, size) for name, size in (("a", 2), ("b", 1))]
    whole = job(0)
    controlled = Controlled(script, replace(whole, podsets=PodSets(whole.podsets.key, tuple(podsets)), queue="team"))
    (start,) = controlled.starts
    assert [start.flavors[name][GPU] for name in ("a", "b")] == [*flavors]


def test_a_gang_whose_pods_name_a_group_is_on_nodes_of_one_flavor() -> None:
    rows = {"first": "a: 2x8", "second": "b: 3x8"}
    nodes = [replace(node, labels={**node.labels, FLAVOR: name}) for name, row in rows.items() for node in cluster(row)]
    script = Script(*nodes)
    show(script, sort("first"), sort("second"), cluster_queue("team", {"first": 16, "second": 24}))
    for name, group in (("alone", ""), ("grouped", "one")):
        pods = in_queue(name, 3, podset_group=group)
        pods[2] = replace(pods[2], requests=requests(7))
        come(script, pods)
        assert {node[0] for node in script.core.state.workloads[key(name)].placement.values()} == (
            {"a", "b"} if not group else {"b"}
        )
        leave(script, pods)


def test_a_job_that_somebody_else_started_uses_quota_at_once() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    script.advance(0.5)
    started = replace(job(2, name="theirs"), queue="team", suspended=False, stopped=False, running=True)
    script.feed(JobSeen(started))
    assert used(script, "team") == 16
    script.feed(JobSeen(replace(started, finished=True)))
    assert used(script, "team") == 0


def test_a_restart_takes_the_flavors_of_a_job_from_its_object() -> None:
    script = Script(*cluster("a: 4x8"), synced=False)
    flavors = {"": {"nvidia.com/gpu": "second"}}
    started = replace(job(2), queue="team", suspended=False, stopped=False, marked=True, plan={"": ("a-0", "a-1")})
    script.feed(JobSeen(replace(started, flavors=flavors)))
    show(script, flavor("first"), flavor("second"), cluster_queue("team", {"first": 16, "second": 16}))
    script.feed_synced()
    script.advance(0.5)
    assert (used(script, "team", "first"), used(script, "team", "second")) == (0, 16)


def test_a_job_whose_plan_was_removed_keeps_the_flavor_of_its_start_through_a_restart() -> None:
    rows = {"first": "a: 1x8", "second": "b: 2x8"}
    nodes = [replace(node, labels={**node.labels, FLAVOR: name}) for name, row in rows.items() for node in cluster(row)]
    script = Script(*nodes, synced=False)
    started, (runs, waits) = started_by_others(marked=True, flavors={"": {"nvidia.com/gpu": "first"}})
    script.feed(JobSeen(started))
    show(script, sort("first"), sort("second"), cluster_queue("team", {"first": 24, "second": 24}))
    script.see(replace(runs, node="a-0", phase="Running"), waits)
    script.feed_synced()
    script.advance(0.5)
    assert not script.planned(waits), "b-0 and b-1 have room, and are of another flavor"
    script.see(node("a-1", labels={FLAVOR: "first"}))
    script.advance(0.5)
    assert script.planned(waits) == "a-1"


def test_a_queue_that_is_drained_stops_its_jobs_and_leaves_gangs_of_pods_alone() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    pods = [replace(pod, queue="team") for pod in gang("gang", 2)]
    script.see(*pods)
    script.advance(0.5)
    script.run(pods)
    controlled = Controlled(script, replace(job(2), queue="team"))
    controlled.run()
    script.feed(QueueSeen(cluster_queue("team", {"gpus": 32}, stop=Stop.DRAIN)))
    controlled.settle()
    assert controlled.stops == ["ClusterQueue team is stopped (HoldAndDrain)"]
    controlled.delete()
    controlled.show(stopped=True)
    assert used(script, "team") == 16
    assert reason_of(script.core.state.workloads[key("job")].reason_state.cause).code == "QueueStopped"


def test_a_job_of_two_podsets_each_of_which_has_a_flavor_says_what_room_they_lack_together() -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    more = PodSet(template(series="more"), 2, 2, indexed=True)
    Controlled(script, replace(job(1, more), queue="team"))
    script.advance(1)
    assert script.reason("job") == "NoRoom"
    assert script.message("job").startswith("ClusterQueue team: 2 of 3 members fit at once")


def test_a_job_uses_the_quota_of_the_queue_that_it_names() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, VolcanoQueue("team", capability={GPU: 16}))
    first, second = (
        Controlled(script, replace(job(2, name=name), queue=f"{VOLCANO}team")) for name in ("first", "second")
    )
    assert (len(first.starts), len(second.starts)) == (1, 0)
    assert script.message("second").startswith("Queue team: it asks for 16 nvidia.com/gpu, and 0 of 16")
    first.run()
    first.delete()
    first.show(finished=True)
    second.settle()
    assert len(second.starts) == 1
    assert used(script, f"{VOLCANO}team", f"{VOLCANO}nodes") == 16


def test_pods_of_a_job_that_was_deleted_use_its_quota_until_they_have_gone() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    train = Controlled(script, replace(job(2), queue="team"))
    pods = train.run()
    train.gone()
    assert used(script, "team") == 16
    other = Controlled(script, replace(job(2, name="other"), queue="team"))
    for pod in pods:
        script.change(script.pods[pod.uid], deleting=True)
    script.gone(script.pods[pods[0].uid])
    other.wait(1)
    assert used(script, "team") == 8
    assert not other.starts
    script.gone(script.pods[pods[1].uid])
    other.wait(1)
    assert len(other.starts) == 1
