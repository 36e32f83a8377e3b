"""Workloads in queues: admitted with quota and nodes in one decision, and waiting with a true reason else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from extender.config import catalogue
from extender.core.answers import Outcome
from extender.core.events import NamespaceSeen, QueueGone, QueueSeen
from extender.core.limits import Limits
from extender.core.phase import Phase
from extender.core.reasons import Reason
from policies.model import Node, Pod, Requirement, Selection
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Quota,
    Stop,
    Strategy,
    TopologyObject,
)
from tests.builders import GPU, cluster, gang, key, node
from tests.core.jobs import Controlled, job
from tests.core.queues import FLAVOR, cluster_queue, flavor, show, sort, used
from tests.core.script import Script


def in_queue(name: str, size: int, queue: str = "team", **facts: Any) -> list[Pod]:
    return [replace(pod, queue=queue) for pod in gang(name, size, **facts)]


def come(script: Script, pods: list[Pod]) -> None:
    script.see(*pods)
    script.advance(0.5)


def reason(script: Script, name: str) -> Reason:
    return script.core.state.workloads[key(name)].telling.reason


def planned(script: Script, name: str) -> int:
    return len(script.core.state.workloads[key(name)].placement)


def leave(script: Script, pods: list[Pod]) -> None:
    for pod in pods:
        script.gone(script.pods[pod.uid])
    script.advance(0.5)


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
    one, other = gang("first", 2)
    come(script, [replace(one, queue="team"), replace(other, queue="others")])
    assert reason(script, "first") == Reason("Contradiction", "its members have different queues: others, team")


def test_what_the_queue_does_not_cover_is_not_to_be_had() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    pods = [replace(pod, requests=(*pod.requests, ("rdma/hca", 1))) for pod in in_queue("first", 2)]
    come(script, pods)
    text = "ClusterQueue team does not cover rdma/hca, which it asks for"
    assert reason(script, "first") == Reason("NoQuota", text)


def test_the_next_flavor_is_tried_where_there_is_quota_and_no_room() -> None:
    h100 = [replace(one, labels={**one.labels, FLAVOR: "h100"}) for one in cluster("a: 4x4")]
    a100 = [replace(one, labels={**one.labels, FLAVOR: "a100"}) for one in cluster("b: 4x8")]
    script = Script(*h100, *a100)
    show(script, sort("h100"), sort("a100"), cluster_queue("team", {"h100": 64, "a100": 64}))
    come(script, in_queue("big", 2, gpus=8))
    assert {name.partition("-")[0] for name in script.core.state.workloads[key("big")].placement.values()} == {"b"}
    assert (used(script, "team", "h100"), used(script, "team", "a100")) == (0, 16)


def test_quota_alone_does_not_admit_what_cannot_be_placed_and_the_next_one_starts() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    come(script, in_queue("fills", 4, gpus=6))
    come(script, in_queue("large", 1, gpus=8))
    come(script, in_queue("small", 2, gpus=2))
    assert (planned(script, "large"), planned(script, "small")) == (0, 2)
    assert reason(script, "large").code == "NoRoom"
    assert used(script, "team") == 28


def test_a_flavor_holds_a_gang_to_its_nodes() -> None:
    labelled = [replace(one, labels={**one.labels, FLAVOR: "h100"}) for one in cluster("a: 2x8")]
    script = Script(*labelled, *cluster("b: 8x8"))
    show(script, sort("h100"), cluster_queue("team", {"h100": 64}))
    come(script, in_queue("first", 2))
    come(script, in_queue("second", 2))
    assert set(script.core.state.workloads[key("first")].placement.values()) == {"a-0", "a-1"}
    assert reason(script, "second").code == "NoRoom"


def sorted_nodes(slow: str, fast: str) -> list[Node]:
    """Nodes of the flavors slow and fast."""
    return [
        replace(one, labels={**one.labels, FLAVOR: name})
        for name, outline in (("slow", slow), ("fast", fast))
        for one in cluster(outline)
    ]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_whose_start_broke_off_is_completed_on_nodes_of_its_flavor(*, restarts: bool) -> None:
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 2x8")
    queues = sort("fast"), sort("slow"), cluster_queue("team", {"fast": 0, "slow": 64})
    script = Script(*nodes)
    show(script, *queues)
    come(script, pods := in_queue("train", 2))
    script.bind_all(pods)
    script.post(bound := script.pods[next(iter(script.bindings))])
    lost = next(pod for pod in pods if pod.uid != bound.uid)
    nodes = [replace(one, unschedulable=one.name == script.planned(lost)) for one in nodes]
    script.see(*nodes)
    script.post(lost, Outcome.REFUSED)
    if restarts:
        script = Script(*nodes, *script.pods.values(), now=script.now, synced=False)
        show(script, *queues)
        script.feed_synced()
    script.advance(5)
    assert script.gang("train").phase is Phase.PARTIAL
    assert (script.planned(lost), script.reason("train")) == ("", "NoRoom")
    script.see(*sorted_nodes(slow="a: 3x8", fast="b: 2x8")[2:])
    assert script.planned(lost) == "a-2"


def broken_off(script: Script, pods: list[Pod], nodes: list[Node]) -> tuple[Pod, Pod]:
    """A gang of which one of two pods is bound, and the node of the one that was told first is closed since. Returns
    the other two: this one, and the one whose Binding comes last."""
    come(script, pods)
    script.bind_all(pods)
    bound, first = (script.pods[uid] for uid in script.bindings)
    last = next(pod for pod in pods if pod.uid not in (bound.uid, first.uid))
    script.post(bound)
    script.see(*(replace(one, unschedulable=one.name == script.planned(first)) for one in nodes))
    script.post(first, Outcome.REFUSED)
    script.post(last, Outcome.REFUSED)
    script.advance(5)
    assert script.gang("train").phase is Phase.PARTIAL
    return first, last


def test_a_member_more_of_a_gang_whose_start_broke_off_gets_the_flavor_of_the_others_until_that_is_whole() -> None:
    nodes = sorted_nodes(slow="a: 3x8", fast="b: 3x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    two = broken_off(script, in_queue("train", 3, min_member=2), nodes)
    completes, more = sorted(two, key=script.planned, reverse=True)
    assert script.planned(completes).startswith("a-")
    assert script.planned(more) == ""
    script.bind(script.pods[completes.uid])
    script.post(completes)
    script.advance(5)
    assert script.planned(more).startswith("b-")


def test_a_member_more_that_was_promised_another_flavor_does_not_complete_a_gang_whose_start_broke_off() -> None:
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 1x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    come(script, pods := in_queue("train", 3, min_member=2))
    script.advance(1)
    more = next(pod for pod in pods if script.planned(pod) == "b-0")
    two = [pod for pod in pods if pod is not more]
    script.bind_all(two)
    script.post(bound := script.pods[next(iter(script.bindings))])
    lost = next(pod for pod in two if pod.uid != bound.uid)
    script.see(*(replace(one, unschedulable=one.name == script.planned(lost)) for one in nodes))
    script.post(lost, Outcome.REFUSED)
    script.advance(5)
    assert script.gang("train").phase is Phase.PARTIAL
    assert (script.planned(lost), script.planned(more)) == ("", "")
    script.see(*nodes)
    script.advance(5)
    assert sorted((script.planned(lost), script.planned(more))) == ["", "a-1"]


def test_a_gang_whose_start_broke_off_is_completed_by_the_members_that_find_room() -> None:
    """It lacks one, and two wait. The node of the first one has been closed."""
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 2x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    bound, large, small = pods = in_queue("train", 3, min_member=2)
    pods[2] = small = replace(small, requests=(("cpu", 1000),))
    come(script, pods)
    script.bind_all(pods)
    assert small.uid in script.bindings
    script.post(bound)
    script.see(*(replace(one, unschedulable=one.name == script.planned(large)) for one in nodes))
    script.post(small, Outcome.REFUSED)
    script.post(large, Outcome.REFUSED)
    script.advance(5)
    assert (script.planned(large), script.planned(small)) == ("", "a-0")


def test_a_gang_whose_start_broke_off_holds_no_role_to_a_flavor_that_the_role_does_not_ask_for() -> None:
    script = Script(*sorted_nodes(slow="a: 2x8", fast="b: 2x8"))
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    pods = in_queue("train", 2)
    pods = [
        replace(pod, selection=Selection(((FLAVOR, name),))) for pod, name in zip(pods, ("slow", "fast"), strict=True)
    ]
    come(script, pods)
    script.bind_all(pods)
    script.post(pods[0])
    script.post(pods[1], Outcome.REFUSED)
    script.advance(5)
    assert script.gang("train").phase is Phase.PARTIAL
    assert script.planned(pods[1]).startswith("b-")


def test_what_is_lent_may_be_borrowed_up_to_the_limit() -> None:
    script = Script(*cluster("a: 16x8"))
    lender = cluster_queue("lender", {"gpus": 32}, cohort="all")
    show(script, flavor("gpus"), lender, cluster_queue("team", {"gpus": Quota(16, borrowing=16)}, cohort="all"))
    come(script, in_queue("first", 4))
    come(script, in_queue("second", 1))
    assert (planned(script, "first"), planned(script, "second")) == (4, 0)
    assert reason(script, "second").code == "NoQuota"
    come(script, in_queue("third", 2, "lender"))
    assert planned(script, "third") == 2


def test_strict_order_lets_nobody_pass() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}, strategy=Strategy.STRICT))
    first = in_queue("first", 3)
    come(script, first)
    come(script, in_queue("second", 2, created=1.0))
    come(script, in_queue("third", 1, created=2.0))
    assert planned(script, "third") == 0
    assert reason(script, "second").code == "NoQuota"
    assert reason(script, "third").message.startswith("default/second is before it in ClusterQueue team")
    leave(script, first)
    assert (planned(script, "second"), planned(script, "third")) == (2, 1)


def test_who_waits_first_in_a_strict_queue_and_is_gone_lets_the_others_go_on() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}, strategy=Strategy.STRICT))
    large = in_queue("large", 4, created=1.0)
    come(script, large)
    come(script, in_queue("small", 1, created=2.0))
    assert planned(script, "small") == 0
    leave(script, large)
    assert planned(script, "small") == 1


def test_who_need_not_borrow_comes_before_who_is_older() -> None:
    script = Script(*cluster("a: 2x8"), synced=False)
    show(
        script,
        flavor("gpus"),
        cluster_queue("owner", {"gpus": 16}, cohort="all"),
        cluster_queue("team", {"gpus": 0}, cohort="all"),
    )
    script.see(*in_queue("older", 2, created=1.0), *in_queue("younger", 2, "owner", created=2.0))
    script.feed_synced()
    script.advance(0.5)
    assert (planned(script, "older"), planned(script, "younger")) == (0, 2)


def test_an_elastic_gang_starts_with_as_many_as_there_is_quota_for() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 40}))
    come(script, in_queue("other", 2))
    come(script, in_queue("elastic", 6, min_member=2))
    assert planned(script, "elastic") == 3
    assert used(script, "team") == 40


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
    script = Script(*cluster("a: 8x8"), *before.pods.values(), now=before.now)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    if not there:
        script.feed(QueueGone(script.core.state.quotas.queues.seen["LocalQueue", "default", "team"].object))
    extra = [replace(pod, uid=f"new-{at}", name=f"new-{at}", index=5 + at) for at, pod in enumerate((first, first))]
    come(script, extra)
    assert script.gang("elastic").release.partial_since is not None
    assert planned(script, "elastic") == 1, "no more than it needs to be whole"
    assert used(script, "team") == (16 if there else 0)


def test_a_gang_that_comes_with_the_news_that_its_queue_is_gone_waits_for_that_reason() -> None:
    """Before a pass has drawn the picture anew."""
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 40}))
    script.advance(0.5)
    script.feed(QueueGone(script.core.state.quotas.queues.picture.locals["default", "team"]))
    script.see(*in_queue("late", 2))
    assert planned(script, "late") == 0
    script.advance(0.5)
    assert reason(script, "late").code == "QueueMissing"


def test_an_event_about_a_namespace_or_queue_that_nobody_knows_does_no_harm() -> None:
    script = Script(*cluster("a: 2x8"))
    script.feed(QueueGone(flavor("gone")))
    script.feed(QueueSeen(LocalQueue("default", "team", "team")))
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    come(script, in_queue("first", 2))
    assert planned(script, "first") == 2


def test_usage_moves_with_the_label_of_a_node_that_was_not_known() -> None:
    """The flavor of a gang's pod is told from its node."""
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
    found = script.core.queue_reports(script.now)
    team = found["ClusterQueue", "", "team"]
    assert (team.pending, team.reserving, team.admitted) == ((key("older"), key("younger")), 1, 0)
    assert (team.used, team.borrowed) == ({("gpus", GPU): 32}, {("gpus", GPU): 8})
    assert found["LocalQueue", "default", "team"].pending == team.pending
    assert found["Cohort", "", "all"].used == team.used
    assert found["ClusterQueue", "", "lender"].used == {}


def test_reports_say_what_is_wrong() -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, cluster_queue("team", {"none": 8}, stop=Stop.HOLD), LocalQueue("default", "lost", "x"))
    script.advance(0.5)
    found = script.core.queue_reports(script.now)
    team = found["ClusterQueue", "", "team"].problems
    assert team == ("there is no ResourceFlavor none", "it is stopped (stopPolicy Hold)")
    assert found["LocalQueue", "default", "lost"].problems == (
        "LocalQueue lost points to ClusterQueue x, which does not exist",
    )


def test_a_flavor_whose_nodes_all_count_as_those_of_another_is_not_for_gangs() -> None:
    """After a restart nobody could tell that they have it."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("first"), flavor("second"), cluster_queue("team", {"first": 8, "second": 16}))
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "NoQuota"
    assert "flavor second: its nodes count as those of flavor first" in reason(script, "first").message
    controlled = Controlled(script, replace(job(2), queue="team"))
    assert controlled.starts[0].flavors == {"": {"nvidia.com/gpu": "second"}}, "a job carries its flavors"


def test_a_gang_that_runs_goes_on_when_its_queue_is_deleted_and_counts_again_when_that_is_back() -> None:
    """Nothing says meanwhile where it belongs: after a restart nobody could tell."""
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


def test_with_fair_sharing_the_queue_that_borrows_least_of_its_cohort_comes_first() -> None:
    script = Script(*cluster("a: 3x8"), synced=False, limits=Limits(fair_sharing=True))
    queues = [cluster_queue(name, {"gpus": 0}, cohort="all") for name in ("one", "two")]
    show(script, flavor("gpus"), cluster_queue("pool", {"gpus": 24}, cohort="all"), *queues)
    script.see(*in_queue("a", 1, "one", created=1.0), *in_queue("b", 1, "one", created=2.0))
    script.see(*in_queue("c", 1, "two", created=3.0), *in_queue("d", 1, "two", created=4.0))
    script.feed_synced()
    script.advance(0.5)
    assert [planned(script, name) for name in "abcd"] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("priority-then-age", "abc"), ("proportion", "abd"), ("drf", "abd")],
)
def test_with_shares_by_weight_a_queue_of_twice_the_weight_gets_twice_as_much(policy: str, expected: str) -> None:
    script = Script(*cluster("a: 3x8"), synced=False, policies=catalogue.policies(policy, "best-fit", {"packing": 1}))
    heavy = cluster_queue("one", {"gpus": 0}, cohort="all", weight=Fraction(2))
    others = [cluster_queue(name, {"gpus": much}, cohort="all") for name, much in (("two", 0), ("pool", 24))]
    show(script, flavor("gpus"), heavy, *others)
    for at, name in enumerate("abcdef"):
        script.see(*in_queue(name, 1, "one" if at < 3 else "two", created=float(at)))
    script.feed_synced()
    script.advance(0.5)
    assert "".join(name for name in "abcdef" if planned(script, name)) == expected


def test_by_drf_what_a_queue_uses_of_its_own_counts() -> None:
    script = Script(*cluster("a: 3x8"), synced=False, policies=catalogue.policies("drf", "best-fit", {"packing": 1}))
    queues = [cluster_queue(name, {"gpus": much}, cohort="all") for name, much in (("owner", 24), ("guest", 0))]
    show(script, flavor("gpus"), *queues)
    for at, name in enumerate("abcd"):
        script.see(*in_queue(name, 1, "guest" if name == "d" else "owner", created=float(at)))
    script.feed_synced()
    script.advance(0.5)
    assert [planned(script, name) for name in "abcd"] == [1, 1, 0, 1]


def test_a_member_more_takes_room_of_another_flavor_that_comes_free() -> None:
    """The gang runs with one flavor; what comes free is of the other one, and nothing else has changed."""
    nodes = [node("fast-0", labels={FLAVOR: "fast"}), node("slow-0", labels={FLAVOR: "slow"})]
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 16, "fast": 16}))
    other = gang("other", 1, priority=5)
    come(script, [replace(other[0], selection=Selection((("kubernetes.io/hostname", "slow-0"),)))])
    script.run([script.pods[other[0].uid]])
    pods = in_queue("train", 2, min_member=1)
    come(script, pods)
    script.run([one for one in pods if script.planned(one)])
    script.advance(30)
    assert len(script.bound(pods)) == 1
    leave(script, other)
    script.advance(5)
    assert sorted(map(script.planned, pods)) != ["", ""]
    assert {script.planned(pod) or script.pods[pod.uid].node for pod in pods} == {"fast-0", "slow-0"}
