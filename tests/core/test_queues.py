"""Workloads in queues: admitted with quota and nodes in one decision, and waiting with a true reason else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import NamespaceSeen, QueueGone, QueueSeen
from extender.core.explain.reasons import Reason
from extender.core.limits import Limits
from policies.model import Requirement
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Stop,
    TopologyObject,
)
from tests.builders import GPU, cluster, gang, key, node
from tests.core.queues import FLAVOR, cluster_queue, come, flavor, in_queue, leave, planned, reason, show, sort, used
from tests.core.script import Script


def test_a_gang_waits_for_quota_and_starts_when_it_comes_free() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    first, second = in_queue("first", 4), in_queue("second", 4)
    come(script, first)
    come(script, second)
    assert (planned(script, "first"), planned(script, "second")) == (4, 0)
    assert reason(script, "second") == Reason(
        "NoQuota",
        "ClusterQueue team: it asks for 32 nvidia.com/gpu of flavor gpus, and 0 of 32 nvidia.com/gpu are left; "
        "it is used by default/first (32)",
    )
    assert used(script, "team") == 32
    leave(script, first)
    assert planned(script, "second") == 4
    assert used(script, "team") == 32


def test_quota_is_used_until_the_last_pod_has_gone() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    first = in_queue("first", 2)
    come(script, first)
    script.run(first)
    come(script, in_queue("second", 2))
    for pod in first:
        script.change(script.pods[pod.uid], deleting=True)
    script.advance(0.5)
    assert used(script, "team") == 16, "a pod that is being deleted uses quota"
    assert planned(script, "second") == 0
    leave(script, first)
    assert planned(script, "second") == 2


def test_without_queue_objects_a_queue_label_says_nothing_of_quota() -> None:
    script = Script(*cluster("a: 4x8"))
    come(script, in_queue("first", 2))
    assert planned(script, "first") == 2


def test_quota_that_a_cohort_gets_lets_those_start_who_wait_in_queues_below_it() -> None:
    script = Script(*cluster("a: 4x8"))
    own, given = cluster_queue("team", {"gpus": 8}, cohort="near"), cluster_queue("", {"gpus": 8}).groups
    show(script, flavor("gpus"), own, Cohort("near", parent="far"), Cohort("far"))
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "NoQuota"
    show(script, Cohort("far", groups=given))
    script.advance(0.5)
    assert planned(script, "first") == 2


def test_what_ran_before_the_queues_were_made_is_counted() -> None:
    script = Script(*cluster("a: 4x8"))
    first = in_queue("first", 2)
    come(script, first)
    script.run(first)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    script.advance(0.5)
    assert used(script, "team") == 16
    come(script, in_queue("second", 2))
    assert reason(script, "second").code == "NoQuota"


def test_a_gang_without_a_queue_needs_no_quota_unless_one_is_required() -> None:
    for limits, count in ((Limits(), 2), (Limits(require_queue=True), 0)):
        script = Script(*cluster("a: 4x8"), limits=limits)
        show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
        come(script, gang("free", 2))
        assert planned(script, "free") == count
    assert reason(script, "free").code == "QueueMissing"


def test_the_default_queue_counts_for_a_gang_that_names_none() -> None:
    script = Script(*cluster("a: 4x8"), limits=Limits(default_queue="team"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    come(script, gang("free", 2))
    assert reason(script, "free").code == "NoQuota"


@pytest.mark.parametrize(
    ("things", "code", "words"),
    [
        ((LocalQueue("default", "other", "x"),), "QueueMissing", "there is no LocalQueue team in namespace default"),
        ((LocalQueue("default", "team", "x"),), "QueueMissing", "ClusterQueue x, which does not exist"),
        ((cluster_queue("team", {"none": 32}),), "QueueInactive", "there is no ResourceFlavor none"),
        (
            (cluster_queue("team", {}, stop=Stop.HOLD),),
            "QueueStopped",
            "ClusterQueue team is stopped (stopPolicy Hold)",
        ),
        ((cluster_queue("team", {}, namespaces=None),), "QueueInactive", "does not select namespace default"),
        (
            (cluster_queue("team", {}, cohort="a"), Cohort("a", "b"), Cohort("b", "a")),
            "QueueInactive",
            "its cohorts are each other's parents: a, b",
        ),
    ],
)
def test_a_queue_that_admits_nothing_is_the_reason(
    things: tuple[ClusterQueue | LocalQueue | Cohort, ...], code: str, words: str
) -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, *things)
    come(script, in_queue("first", 2))
    assert planned(script, "first") == 0
    assert reason(script, "first").code == code
    assert words in reason(script, "first").message


def test_a_queue_that_is_corrected_admits_those_who_wait() -> None:
    script = Script(*cluster("a: 4x8"))
    queue = cluster_queue("team", {"gpus": 32})
    show(script, queue)
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "QueueInactive"
    show(script, flavor("gpus"))
    script.advance(0.5)
    assert planned(script, "first") == 2


def test_a_queue_with_a_problem_says_it() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    script.feed(QueueSeen(cluster_queue("team", {"gpus": 32}), problems=("spec.admissionChecks is not implemented",)))
    come(script, in_queue("first", 2))
    assert "spec.admissionChecks is not implemented" in reason(script, "first").message


def test_a_flavor_whose_topology_is_missing_or_unusable_admits_nothing_until_it_is_there() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, replace(flavor("gpus"), topology="racks"), cluster_queue("team", {"gpus": 32}))
    come(script, in_queue("first", 2))
    assert "there is no Topology racks, which ResourceFlavor gpus names" in reason(script, "first").message
    racks = TopologyObject("racks", ("example.com/rack",))
    script.feed(QueueSeen(racks, problems=("it is odd",)))
    script.advance(0.5)
    assert "Topology racks: it is odd" in reason(script, "first").message
    script.feed(QueueSeen(racks))
    script.advance(0.5)
    assert planned(script, "first") == 2
    script.feed(QueueGone(racks))
    come(script, in_queue("second", 2))
    assert reason(script, "second").code == "QueueInactive"


def test_the_labels_of_a_namespace_decide_who_may_use_a_queue() -> None:
    script = Script(*cluster("a: 4x8"))
    chosen = (Requirement("team", "In", ("ml",)),)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}, namespaces=chosen))
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "QueueInactive"
    script.feed(NamespaceSeen("default", (("team", "ml"),)))
    script.advance(0.5)
    assert planned(script, "first") == 2


def test_members_that_name_different_queues_contradict_each_other() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    first, other = gang("first", 2)
    come(script, [replace(first, queue="team"), replace(other, queue="others")])
    assert reason(script, "first") == Reason("Contradiction", "its members have different queues: others, team")


@pytest.mark.parametrize("first", [False, True])
def test_a_gang_that_runs_without_a_queue_uses_no_quota_of_that_of_a_later_member(*, first: bool) -> None:
    """Seed 6007678: after a restart it did where the other member came first."""
    script = Script(*cluster("a: 2x8"))
    there = gang("train", 2)
    script.see(*there)
    script.run(there)
    moved = replace(there[0], uid="moved", name="moved", index=None, queue="team")
    later = Script(*cluster("a: 2x8"), synced=False, now=script.now)
    show(later, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    bound = [script.pods[pod.uid] for pod in there]
    later.see(*([moved, *bound] if first else [*bound, moved]))
    later.feed_synced()
    assert used(later, "team") == 0


def test_what_the_queue_does_not_cover_is_not_to_be_had() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    pods = [replace(pod, requests=(*pod.requests, ("rdma/hca", 1))) for pod in in_queue("first", 2)]
    come(script, pods)
    text = "ClusterQueue team does not cover rdma/hca, which it asks for"
    assert reason(script, "first") == Reason("NoQuota", text)


def test_quota_alone_does_not_admit_what_cannot_be_placed_and_the_next_one_starts() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    come(script, in_queue("fills", 4, gpus=6))
    come(script, in_queue("large", 1, gpus=8))
    come(script, in_queue("small", 2, gpus=2))
    assert (planned(script, "large"), planned(script, "small")) == (0, 2)
    assert reason(script, "large").code == "NoRoom"
    assert used(script, "team") == 28


@pytest.mark.parametrize("there", [True, False])
def test_a_start_that_broke_off_is_completed_and_takes_no_quota_beyond_that(*, there: bool) -> None:
    """Although its queue has no quota left, or is gone."""
    pods = in_queue("elastic", 3, min_member=2)
    before = Script(*cluster("a: 8x8"))
    show(before, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    come(before, pods)
    assert planned(before, "elastic") == 2
    first, second = (pod for pod in pods if pod.uid in before.core.state.workloads[key("elastic")].placement)
    before.bind_all([first, second])
    before.post(before.pods[next(iter(before.bindings))])
    before.gone(before.pods[next(iter(before.bindings))])
    script = Script(*cluster("a: 8x8"), *before.pods.values(), synced=False, now=before.now)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    if not there:
        script.feed(QueueGone(script.core.state.quotas.queues.seen["LocalQueue", "default", "team"].object))
    script.feed_synced()
    extra = [replace(pod, uid=f"new-{at}", name=f"new-{at}", index=5 + at) for at, pod in enumerate((first, first))]
    come(script, extra)
    assert script.gang("elastic").release.partial_since is not None
    assert planned(script, "elastic") == 1, "no more than it needs to be whole"
    assert used(script, "team") == (16 if there else 0)


def test_an_event_about_a_namespace_or_queue_that_nobody_knows_does_no_harm() -> None:
    script = Script(*cluster("a: 2x8"))
    script.feed(QueueGone(flavor("gone")))
    script.feed(QueueSeen(LocalQueue("default", "team", "team")))
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    come(script, in_queue("first", 2))
    assert planned(script, "first") == 2


def test_usage_moves_with_the_label_of_a_node_that_was_not_known() -> None:
    """The node of a gang's pod tells its flavor."""
    first = [replace(pod, node="a-0") for pod in in_queue("first", 1)]
    script = Script(*first)
    show(script, sort("h100"), cluster_queue("team", {"h100": 8}))
    script.advance(0.5)
    script.see(node("a-0", labels={FLAVOR: "h100"}))
    script.advance(0.5)
    assert used(script, "team", "h100") == 8


def test_reports_say_who_waits_in_order_and_what_is_used() -> None:
    script = Script(*cluster("a: 8x8"))
    lender = cluster_queue("lender", {"gpus": 8}, cohort="all")
    show(script, flavor("gpus"), lender, cluster_queue("team", {"gpus": 24}, cohort="all"), Cohort("all"))
    come(script, in_queue("first", 4))
    come(script, in_queue("younger", 2, created=2.0))
    before = script.core.queue_version
    come(script, in_queue("older", 2, created=1.0))
    assert script.core.queue_version != before
    reports = script.core.queue_reports(script.now)
    team = reports["ClusterQueue", "", "team"]
    assert (team.pending, team.reserving, team.admitted) == ((key("older"), key("younger")), 1, 0)
    assert (team.used, team.borrowed) == ({("gpus", GPU): 32}, {("gpus", GPU): 8})
    assert reports["LocalQueue", "default", "team"].pending == team.pending
    assert reports["Cohort", "", "all"].used == team.used
    assert reports["ClusterQueue", "", "lender"].used == {}


def test_a_queue_that_is_deleted_and_made_anew_at_once_is_reported_again() -> None:
    script, team = Script(*cluster("a: 2x8")), cluster_queue("team", {"gpus": 8})
    show(script, flavor("gpus"), team)
    script.advance(0.5)
    before = script.core.queue_version
    script.feed(QueueGone(team))
    script.feed(QueueSeen(team))
    script.advance(0.5)
    assert script.core.queue_version != before, "the new object has no status yet"


def test_reports_say_what_is_wrong() -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, cluster_queue("team", {"none": 8}, stop=Stop.HOLD), LocalQueue("default", "lost", "x"))
    script.advance(0.5)
    reports = script.core.queue_reports(script.now)
    team = reports["ClusterQueue", "", "team"].problems
    assert team == ("there is no ResourceFlavor none", "it is stopped (stopPolicy Hold)")
    assert reports["LocalQueue", "default", "lost"].problems == (
        "LocalQueue lost points to ClusterQueue x, which does not exist",
    )


def test_who_names_a_queue_where_there_is_none_waits_for_it_only_while_there_are_others() -> None:
    script, other = Script(*cluster("a: 2x8")), cluster_queue("other", {"gpus": 8})
    script.feed(QueueSeen(other))
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "QueueMissing"
    script.feed(QueueGone(other))
    script.advance(0.5)
    assert planned(script, "first") == 2


def test_a_gang_that_runs_grows_while_its_queue_is_stopped_and_not_while_there_is_none() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    first, second, third, last = in_queue("first", 4, min_member=2)
    come(script, [first, second])
    script.run([first, second])
    show(script, cluster_queue("team", {"gpus": 64}, stop=Stop.HOLD))
    come(script, [third])
    assert script.planned(third)
    come(script, in_queue("second", 2))
    assert reason(script, "second").code == "QueueStopped"
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    come(script, [last])
    assert not script.planned(last)
    assert "there is no LocalQueue team" in script.message("first")


def test_a_gang_that_comes_with_the_news_that_its_queue_is_gone_waits_for_that_reason() -> None:
    """The queue is deleted before a pass has rebuilt the queue snapshot."""
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 40}))
    script.advance(0.5)
    script.feed(QueueGone(script.core.state.quotas.queues.snapshot.locals["default", "team"]))
    script.see(*in_queue("late", 2))
    assert planned(script, "late") == 0
    script.advance(0.5)
    assert reason(script, "late").code == "QueueMissing"


def test_a_gang_that_runs_goes_on_when_its_queue_is_deleted_and_counts_again_when_that_is_back() -> None:
    """Nothing tells its queue meanwhile, and nothing would after a restart."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    pods = in_queue("first", 2)
    come(script, pods)
    script.run(pods)
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    script.advance(0.5)
    assert used(script, "team") == 0
    assert reason(script, "first").code == "Running"
    script.feed(QueueSeen(LocalQueue("default", "team", "team")))
    script.advance(0.5)
    assert used(script, "team") == 16
