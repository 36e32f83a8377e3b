"""A self-check of a core: its findings, its exceptions, and that the second core leaves nothing behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.core.engine import Engine
from extender.core.events import Event, JobSeen, NamespaceSeen, NodeSeen, PodSeen, QueueSeen
from extender.core.ledger.claims import ClaimState
from extender.core.ledger.pending import RoomFor
from extender.core.limits import Limits
from extender.core.workload.workload import Workload
from extender.runtime.compare import Difference, Kind
from extender.runtime.verification import SLICE_UNITS, Check, confirmed
from policies.model import Job, Pod
from policies.model.devices import DeviceKey
from policies.model.pod import Stamp
from policies.model.queues import LocalQueue
from tests.builders import cluster, gang, key, requests, single
from tests.core.compute_domains import CLASSES, domain, fabric, in_domain
from tests.core.compute_domains import template as domain_template
from tests.core.devices import CLASS, LARGE, claim, devices, gpus, request, template, with_template
from tests.core.queues import cluster_queue, come, flavor, in_queue, show
from tests.core.script import Script
from tests.core.test_job_completions import Completions
from tests.effort import calls
from tests.policies.devices.vendors import NVIDIA

NODES = cluster("a: 4x8")
STAMP = Stamp("train", "uid-train-0", complete=True, quorum=2, size=2, at=1.0, name="train")
RUNS = [replace(pod, node=f"a-{at}", phase="Running", stamp=STAMP) for at, pod in enumerate(gang("train", 2))]
WAITS = gang("large", 4)
ALONE = single("alone", node="a-2", phase="Running")


def checked_by(script: Script, *objects: Event) -> Check:
    check = Check(script.core, Engine(), objects, script.now)
    for _ in check.steps():
        pass
    return check


def checked(script: Script, *pods: Pod, job: Job | None = None) -> Check:
    return checked_by(script, *map(NodeSeen, NODES), *([] if job is None else [JobSeen(job)]), *map(PodSeen, pods))


def found(script: Script, *pods: Pod) -> list[Difference]:
    return checked(script, *pods).comparison.differences


def settled(*pods: Pod) -> Script:
    script = Script(*NODES, *pods)
    script.advance(3.0)
    return script


def test_a_core_that_is_right_differs_in_nothing() -> None:
    check = checked(settled(*RUNS, *WAITS, ALONE), *RUNS, *WAITS, ALONE)
    assert check.comparison.differences == []
    assert {kind for kind, count in check.comparison.compared.items() if count} == {*Kind} - {Kind.QUOTA, Kind.DEVICES}


def test_room_that_was_not_given_back_is_named_with_its_owner_and_node() -> None:
    script = settled(*RUNS, ALONE)
    (difference,) = found(script, *RUNS)
    assert difference.kind is Kind.CLAIMS
    assert str(difference) == ("pod default/alone: bound on a-2 with 1 cpu, 1 nvidia.com/gpu; after a restart: no room")


def test_room_that_is_counted_otherwise_than_it_is_claimed_is_found() -> None:
    script = settled(*RUNS)
    table = script.core.state.claims._table
    table.take("a-3", requests(8), 1)
    assert [(difference.kind, difference.object) for difference in found(script, *RUNS)] == [(Kind.ROOM, "node a-3")]


def test_a_workload_that_nobody_looks_at_again_is_found() -> None:
    script = settled(*RUNS, *WAITS)
    script.core.state.claims.release(RUNS[0].uid)
    script.core.state.claims.release(RUNS[1].uid)
    kinds = {(difference.kind, difference.object) for difference in found(script, *WAITS)}
    assert (Kind.PENDING, str(key("large"))) in kinds


@pytest.mark.parametrize("lost", ["causes", "index"])
def test_a_workload_that_no_cause_wakes_is_found(lost: str) -> None:
    script = settled(*RUNS, *WAITS)
    pending = script.core.state.pending
    if lost == "causes":
        del pending._wake_on[key("large")]
    else:
        pending._parked[RoomFor].clear()
    (difference,) = found(script, *RUNS, *WAITS)
    assert difference.kind is Kind.PENDING
    assert str(difference) == "default/large: waits, and no cause wakes it; after a restart: waits"


def test_what_waits_is_compared_after_a_job_whose_pods_did_not_come() -> None:
    script = settled(*RUNS, *WAITS)
    script.core.state.failed_creation.fail(key("large"), 0, script.now, in_full=True)
    check = checked(script, *RUNS, *WAITS)
    assert check.comparison.differences == []
    assert not check.comparison.left_out


def test_what_a_workload_lacks_is_compared_once_the_taking_of_room_is_considered() -> None:
    """A gang that lacks room keeps that reason while others take the quota as well, until the next refresh."""
    queue = cluster_queue("team", {"gpus": 32})
    script = Script(*NODES[:3])
    show(script, flavor("gpus"), queue)
    come(script, large := in_queue("large", 4))
    come(script, train := in_queue("train", 2))
    script.run(train)
    assert script.reason("large") == "NoRoom"

    def compared() -> Check:
        shown = [QueueSeen(flavor("gpus")), QueueSeen(queue), QueueSeen(LocalQueue("default", "team", "team"))]
        namespace = NamespaceSeen("default", (("kubernetes.io/metadata.name", "default"),))
        pods = [script.pods[pod.uid] for pod in (*large, *train)]
        return checked_by(script, namespace, *shown, *map(NodeSeen, NODES[:3]), *map(PodSeen, pods))

    check = compared()
    assert check.comparison.differences == []
    assert (
        check.comparison.left_out[
            "room or quota was taken since they had their turn, and they may lack something else by now"
        ]
        == 1
    )
    script.advance(2 * script.core.state.limits.refresh_s)  # of room, and then of quota
    assert script.reason("large") == "NoQuota"
    check = compared()
    assert check.comparison.differences == []
    assert not check.comparison.left_out


def test_what_is_under_way_is_left_out() -> None:
    script = settled(*gang("train", 2))
    assert script.core.state.claims.all(), "its nodes are promised"
    check = checked(script, *gang("train", 2))
    assert check.comparison.differences == []
    assert check.comparison.left_out["its members are promised nodes"] == 1


def test_a_binding_that_the_watch_has_yet_to_show_is_left_out() -> None:
    check = checked(settled(*RUNS, ALONE), *gang("train", 2), replace(ALONE, node=None, phase="Pending"))
    assert check.comparison.differences == []
    assert check.comparison.left_out["the watch has yet to show that pods of it are bound"] == 1


def test_pods_that_have_ended_and_are_gone_are_left_out_where_no_object_counts_them() -> None:
    script = Script(*NODES)
    train = Completions(script, numbered=False, completions=4)
    script.run(pods := train.come(0, 1, 2))
    train.finish(pods[:2])
    script.run(train.come(3))
    assert checked(script, *script.pods.values(), job=train.seen).comparison.compared[Kind.MEMBERS]
    script.gone(*(script.pods[pod.uid] for pod in pods[:2]))
    check = checked(script, *script.pods.values(), job=train.seen)
    assert check.comparison.differences == []
    assert check.comparison.left_out["pods of it have ended and are gone, and its job does not count them"] == 1


def test_a_promise_of_a_workload_that_is_unknown_is_found() -> None:
    script = settled(*RUNS)
    script.core.state.claims.assume(single("gone"), "a-3")
    (difference,) = found(script, *RUNS)
    assert (difference.object, difference.rebuilt) == ("pod uid-gone", "no room")
    assert ClaimState.ASSUMED.value in difference.running


def test_a_difference_counts_when_two_checks_find_the_same() -> None:
    first = [Difference(Kind.CLAIMS, "pod a", "no room", "room"), Difference(Kind.ROOM, "node n", "1", "2")]
    second = [Difference(Kind.CLAIMS, "pod a", "no room", "room"), Difference(Kind.ROOM, "node n", "1", "3")]
    assert confirmed(first, second) == first[:1]


def test_the_second_core_is_freed_without_a_search_for_garbage() -> None:
    script = settled(*RUNS, *WAITS)
    ours = {id(workload) for workload in script.core.state.workloads.values()}
    gc.collect()
    gc.disable()
    try:
        before = {id(workload) for workload in _workloads()}
        check = checked(script, *RUNS, *WAITS)
        del check
        assert {id(workload) for workload in _workloads()} - before - ours == set()
    finally:
        gc.enable()


def test_no_step_of_a_check_is_long() -> None:
    waits = [pod for number in range(2500) for pod in gang(f"waits-{number}", 2, gpus=9)]
    script = Script(*NODES, checked=20_000)
    for pod in waits:
        script.feed(PodSeen(pod))
    script.advance(3.0)
    events: list[Event] = [*map(NodeSeen, NODES), *map(PodSeen, waits)]
    steps = Check(script.core, Engine(limits=Limits(slice_units=SLICE_UNITS)), events, script.now).steps()
    under_way = True

    def advance() -> None:
        nonlocal under_way
        under_way = next(steps, steps) is not steps

    longest = 0
    while under_way:
        longest = max(longest, calls(advance))
    assert longest < 16_500


def _workloads() -> Iterator[Workload]:
    return (obj for obj in gc.get_objects() if type(obj) is Workload)


PUBLISHED: list[Event] = [
    CLASS,
    *gpus("a-0", "a-1", count=2),
    devices("a-2", "a100"),
    template(request()),
    template(request(1, LARGE), name="large"),
]
USES = [replace(pod, node=f"a-{at}", phase="Running", stamp=STAMP) for at, pod in enumerate(with_template("train", 2))]
ALLOCATED: list[Event] = [
    claim(f"{pod.name}-gpu", request(), pod=pod, node=f"a-{at}", devices=("h100-1",)) for at, pod in enumerate(USES)
]


def with_devices(script: Script, *events: Event) -> Check:
    return checked_by(script, *map(NodeSeen, cluster("a: 4x0")), *events, *map(PodSeen, [*script.pods.values()]))


def claiming() -> Script:
    """Two pods run with a device each, and one asks for more than there are; one that asked for others is gone."""
    script = Script(*cluster("a: 4x0"))
    for event in (*PUBLISHED, *ALLOCATED):
        script.feed(event)
    script.see(USES)
    script.see(large := with_template("gone", 3, "large"))
    script.gone(*large)
    script.see(with_template("waits", 4))
    script.advance(3.0)
    return script


def test_a_core_that_counts_devices_right_differs_in_nothing() -> None:
    """Another core, which has not seen the pods that are gone, counts devices in other amounts."""
    script = claiming()
    assert script.reason("waits") == "NoRoom"
    check = with_devices(script, *PUBLISHED, *ALLOCATED)
    assert check.comparison.differences == []
    assert check.comparison.compared[Kind.DEVICES] == 5 + 2
    assert check.comparison.compared[Kind.PENDING]
    amounts = [core.state.devices.lines for core in (script.core, check.comparison.rebuilt)]
    assert len(amounts[0]) > len(amounts[1])


def test_a_claim_whose_end_was_missed_is_found() -> None:
    script = claiming()
    check = with_devices(script, *PUBLISHED, ALLOCATED[0])
    differences = [difference for difference in check.comparison.differences if difference.kind is Kind.DEVICES]
    assert [str(difference) for difference in differences] == [
        "ResourceClaim default/train-1-gpu: has h100-1; after a restart: not known",
    ]


def test_a_slice_that_was_missed_is_found() -> None:
    script = claiming()
    script.core.state.devices.inventory.drop("a-1")
    check = with_devices(script, *PUBLISHED, *ALLOCATED)
    missed = [difference.object for difference in check.comparison.differences if difference.rebuilt == "published"]
    assert missed == [f"device {NVIDIA}/a-1/h100-{at}" for at in (0, 1)]


def test_devices_that_are_counted_otherwise_than_they_are_used_are_found() -> None:
    script = claiming()
    inventory = script.core.state.devices.inventory
    inventory.hold([DeviceKey(NVIDIA, "a-0", "h100-0")])
    inventory.take_dirty()
    (drift,) = with_devices(script, *PUBLISHED, *ALLOCATED).comparison.differences
    assert (drift.kind, drift.object) == (Kind.ROOM, "node a-0")


def test_room_that_is_left_for_the_daemon_of_a_domain_is_no_drift() -> None:
    nodes = cluster("a: 2x8")
    script = Script(*nodes)
    events: list[Event] = [*CLASSES, *(fabric(node.name) for node in nodes), domain("train"), domain_template("train")]
    for event in events:
        script.feed(event)
    script.see(train := in_domain("train", 2))
    script.advance(3.0)
    assert script.planned(train[0])
    free = script.core.state.claims.room("a-0")
    check = Check(script.core, Engine(), [*map(NodeSeen, nodes), *events, *map(PodSeen, train)], script.now)
    for _ in check.steps():
        pass
    assert check.comparison.differences == []
    assert free["pods"] < dict(nodes[0].allocatable)["pods"] - 1, "a member and a daemon"
