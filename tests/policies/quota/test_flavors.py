"""The flavor of a workload: by labels and taints, by quota, by the queue's rules, and only where it has nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.model.node import Requirement, Selection, Taint, Toleration
from policies.model.queues import (
    ClusterQueue,
    Fungibility,
    Preference,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Search,
)
from policies.quota.flavors import Assignment, Fit, Flavors, Lack, suits
from policies.quota.parts import PodSetRequest
from policies.quota.tree import QuotaTree
from policies.steps import quickly

GPU = "nvidia.com/gpu"
A100 = ResourceFlavor("a100", {"gpu": "a100"})
H100 = ResourceFlavor("h100", {"gpu": "h100"})
SPOT = ResourceFlavor("spot", {"gpu": "a100", "life": "spot"}, (Taint("spot", "", "NoSchedule"),))
EXISTING = {flavor.name: flavor for flavor in (A100, H100, SPOT)}
TOLERANT = Selection(tolerations=(Toleration("spot", "Exists", "", ""),))


def gpus(*quotas: tuple[str, Quota]) -> tuple[ResourceGroup, ...]:
    return (ResourceGroup((GPU,), tuple((name, {GPU: quota}) for name, quota in quotas)),)


def wants(count: int, selection: Selection | None = None) -> list[PodSetRequest]:
    return [PodSetRequest("main", count, {GPU: 1}, selection or Selection())]


def assigned(queue: ClusterQueue, podsets: Sequence[PodSetRequest], *others: ClusterQueue, **used: int) -> Assignment:
    """``used``: GPUs of a flavor by others than this queue, or by it, as ``QUEUE__FLAVOR``."""
    tree = QuotaTree([queue, *others])
    for what, amount in used.items():
        name, _, flavor = what.partition("__")
        tree.use(name, {(flavor, GPU): amount})
    return Flavors(tree, EXISTING).assign(queue, podsets)


def test_the_first_flavor_with_quota_is_taken() -> None:
    queue = ClusterQueue("q", gpus(("a100", Quota(4)), ("h100", Quota(8))))
    assert assigned(queue, wants(4)).flavors == {"main": {GPU: "a100"}}
    assignment = assigned(queue, wants(8))
    assert (assignment.fit, assignment.flavors, assignment.usage) == (
        Fit.FITS,
        {"main": {GPU: "h100"}},
        {("h100", GPU): 8},
    )


@pytest.mark.parametrize(
    ("flavor", "selection", "fits"),
    [
        (A100, Selection(), True),
        (A100, Selection((("gpu", "a100"),)), True),
        (A100, Selection((("gpu", "h100"),)), False),
        (A100, Selection((("zone", "far"),)), True),
        (A100, Selection(affinity=((Requirement("gpu", "In", ("h100", "b200")),),)), False),
        (A100, Selection(affinity=((Requirement("gpu", "NotIn", ("h100",)),),)), True),
        (
            A100,
            Selection(affinity=((Requirement("gpu", "In", ("h100",)),), (Requirement("zone", "In", ("x",)),))),
            True,
        ),
        (SPOT, Selection(), False),
        (SPOT, TOLERANT, True),
        (SPOT, Selection((("life", "spot"),)), False),
        (ResourceFlavor("own", taints=SPOT.taints, tolerations=TOLERANT.tolerations), Selection(), True),
        (ResourceFlavor("soft", taints=(Taint("a", "", "PreferNoSchedule"),)), Selection(), True),
    ],
)
def test_pods_go_to_a_flavor_by_its_own_labels_and_taints(
    flavor: ResourceFlavor, selection: Selection, *, fits: bool
) -> None:
    assert suits(flavor, selection) is fits


@pytest.mark.parametrize(
    ("flavor", "selection", "why"),
    [
        (SPOT, Selection(), "they do not tolerate its taint spot:NoSchedule"),
        (
            ResourceFlavor("own", taints=(Taint("own", "me", "NoExecute"),)),
            TOLERANT,
            "they do not tolerate its taint own=me:NoExecute",
        ),
        (A100, Selection((("zone", "far"), ("gpu", "h100"))), "they select gpu=h100, and its label is a100"),
        (
            A100,
            Selection(affinity=((Requirement("gpu", "In", ("h100",)),),)),
            "their required node affinity rules out its labels",
        ),
    ],
)
def test_why_pods_do_not_go_to_a_flavor_is_said(flavor: ResourceFlavor, selection: Selection, why: str) -> None:
    queue = ClusterQueue("q", gpus((flavor.name, Quota(8))))
    assignment = Flavors(QuotaTree([queue]), {flavor.name: flavor}).assign(
        queue, [PodSetRequest("main", 1, {GPU: 1}, selection=selection)]
    )
    assert (assignment.fit, assignment.text) == (
        Fit.NONE,
        f"its pods do not go to nodes of flavor {flavor.name}: {why}",
    )


def test_the_flavor_at_which_the_search_ends_is_taken_though_one_before_it_is_better() -> None:
    rules = Fungibility(when_can_borrow=Search.NEXT, when_can_preempt=Search.STOP)
    queue = ClusterQueue("q", gpus(("a100", Quota(8)), ("h100", Quota(8))), "c", fungibility=rules)
    offers = {"a100": (Fit.RECLAIM, 1), "h100": (Fit.PREEMPT, 0)}
    used = QuotaTree([queue])
    used.use("q", {("a100", GPU): 8, ("h100", GPU): 8})
    assignment = Flavors(used, EXISTING, preempts=lambda _, what, __: quickly(offers[what[0]])).assign(queue, wants(4))
    assert (assignment.flavors, assignment.fit, assignment.level) == ({"main": {GPU: "h100"}}, Fit.PREEMPT, 0)


def test_podsets_of_one_workload_use_quota_one_after_another() -> None:
    queue = ClusterQueue("q", gpus(("a100", Quota(6)), ("h100", Quota(6))))
    assignment = assigned(queue, [PodSetRequest("launcher", 1, {GPU: 4}), PodSetRequest("worker", 2, {GPU: 2})])
    assert assignment.flavors == {"launcher": {GPU: "a100"}, "worker": {GPU: "h100"}}
    assert assignment.usage == {("a100", GPU): 4, ("h100", GPU): 4}


def test_resources_of_a_group_come_from_one_flavor() -> None:
    both = ResourceGroup(
        ("cpu", GPU), (("a100", {"cpu": Quota(10), GPU: Quota(8)}), ("h100", {"cpu": Quota(99), GPU: Quota(8)}))
    )
    assignment = assigned(ClusterQueue("q", (both,)), [PodSetRequest("main", 4, {"cpu": 5, GPU: 1})])
    assert assignment.flavors == {"main": {"cpu": "h100", GPU: "h100"}}


def test_a_covered_resource_without_any_quota_is_not_limited() -> None:
    """The tutorials cover cpu and memory, and say a quota for GPUs alone."""
    group = ResourceGroup(("cpu", "memory", GPU), (("a100", {GPU: Quota(32)}),))
    assignment = assigned(ClusterQueue("q", (group,)), [PodSetRequest("main", 4, {"cpu": 10**9, GPU: 8})])
    assert (assignment.fit, assignment.usage) == (Fit.FITS, {("a100", GPU): 32})


@pytest.mark.parametrize(
    ("used", "lack", "text"),
    [
        ({}, Lack.EXCEEDS, "queue q can have 8 nvidia.com/gpu of flavor a100, and it asks for 9"),
        ({"q__a100": 5}, Lack.QUOTA, "queue q has 3 nvidia.com/gpu of flavor a100 left, and it asks for 4"),
    ],
)
def test_what_is_lacking_is_said_with_its_numbers(used: dict[str, int], lack: Lack, text: str) -> None:
    assignment = assigned(ClusterQueue("q", gpus(("a100", Quota(8)))), wants(4 if used else 9), **used)
    assert (assignment.lack, assignment.text) == (lack, text)
    assert assignment.fit < Fit.FITS


def test_a_flavor_that_does_not_exist_is_passed_over_and_said_if_it_is_the_only_one() -> None:
    assert assigned(ClusterQueue("q", gpus(("gone", Quota(8)), ("h100", Quota(8)))), wants(4)).fit is Fit.FITS
    assignment = assigned(ClusterQueue("q", gpus(("gone", Quota(8)))), wants(4))
    assert (assignment.fit, assignment.text) == (Fit.NONE, "flavor gone does not exist")


@pytest.mark.parametrize(
    ("rules", "flavor", "level"),
    [(Fungibility(), "a100", 1), (Fungibility(when_can_borrow=Search.NEXT), "h100", 0)],
)
def test_whether_the_next_flavor_is_tried_before_borrowing(rules: Fungibility, flavor: str, level: int) -> None:
    queue = ClusterQueue("q", gpus(("a100", Quota(2)), ("h100", Quota(4))), "c", fungibility=rules)
    other = ClusterQueue("other", gpus(("a100", Quota(8))), "c")
    assignment = assigned(queue, wants(4), other)
    assert (assignment.flavors, assignment.level) == ({"main": {GPU: flavor}}, level)


@pytest.mark.parametrize(
    ("preference", "flavor", "fit"),
    [(Preference.BORROWING, "a100", Fit.FITS), (Preference.PREEMPTION, "h100", Fit.RECLAIM)],
)
def test_borrowing_or_preempting_is_preferred(preference: Preference, flavor: str, fit: Fit) -> None:
    rules = Fungibility(Search.NEXT, Search.NEXT, preference)
    queue = ClusterQueue("q", gpus(("a100", Quota(2)), ("h100", Quota(4))), "c", fungibility=rules)
    other = ClusterQueue("other", gpus(("a100", Quota(8))), "c")
    tree = QuotaTree([queue, other])
    tree.use("other", {("h100", GPU): 4})
    assignment = Flavors(tree, EXISTING, preempts=lambda *_: quickly((Fit.RECLAIM, 0))).assign(queue, wants(4))
    assert (assignment.flavors, assignment.fit) == ({"main": {GPU: flavor}}, fit)


def test_quota_without_nodes_is_not_enough_and_the_next_flavor_is_tried() -> None:
    """Kueue admits such a workload, and its pods never start."""
    queue = ClusterQueue("q", gpus(("a100", Quota(8)), ("h100", Quota(8))))

    def places(_podset: PodSetRequest, flavor: ResourceFlavor) -> str:
        return "0 of 4 members fit at once" if flavor is A100 else ""

    assignment = Flavors(QuotaTree([queue]), EXISTING, places).assign(queue, wants(4))
    assert assignment.flavors == {"main": {GPU: "h100"}}
    only = ClusterQueue("q", gpus(("a100", Quota(8))))
    assignment = Flavors(QuotaTree([only]), EXISTING, places).assign(only, wants(4))
    assert (assignment.fit, assignment.lack, assignment.text) == (
        Fit.NO_CANDIDATES,
        Lack.NODES,
        "0 of 4 members fit at once",
    )


def in_group(name: str, count: int, selection: Selection | None = None, **requests: int) -> PodSetRequest:
    named = {GPU if resource == "gpu" else resource: amount for resource, amount in requests.items()}
    return PodSetRequest(name, count, named, selection or Selection(), group="one")


def cpus_and_gpus(*quotas: tuple[str, int, int]) -> tuple[ResourceGroup, ...]:
    flavors = tuple((name, {"cpu": Quota(cpu), GPU: Quota(gpu)}) for name, cpu, gpu in quotas)
    return (ResourceGroup(("cpu", GPU), flavors),)


def test_podsets_of_a_group_get_the_flavor_that_has_enough_for_all_of_them() -> None:
    """Kueue's leader and workers that ask for the same: 9 cpus, and the first flavor has 4."""
    queue = ClusterQueue("q", cpus_and_gpus(("a100", 8, 0), ("h100", 9, 0)))
    podsets = [in_group("worker", 4, cpu=2), in_group("leader", 1, cpu=1)]
    assignment = assigned(queue, podsets)
    assert assignment.flavors == {"worker": {"cpu": "h100"}, "leader": {"cpu": "h100"}}
    assert assignment.usage == {("h100", "cpu"): 9}
    alone = assigned(queue, [replace(podset, group="") for podset in podsets])
    assert alone.flavors == {"worker": {"cpu": "a100"}, "leader": {"cpu": "h100"}}


def test_a_podset_of_a_group_gets_flavors_of_what_it_asks_for_itself() -> None:
    queue = ClusterQueue("q", cpus_and_gpus(("a100", 10, 0), ("h100", 5, 4)))
    assignment = assigned(queue, [in_group("leader", 1, cpu=1), in_group("worker", 4, cpu=1, gpu=1)])
    assert assignment.flavors == {"leader": {"cpu": "h100"}, "worker": {"cpu": "h100", GPU: "h100"}}


def test_a_group_that_no_flavor_holds_is_refused_though_each_podset_alone_would_be_held() -> None:
    queue = ClusterQueue("q", cpus_and_gpus(("a100", 4, 4), ("h100", 5, 0)))
    podsets = [in_group("worker", 4, cpu=1, gpu=1), in_group("leader", 1, cpu=1)]
    assert assigned(queue, podsets).fit is Fit.NONE
    assert assigned(queue, [replace(podset, group="") for podset in podsets]).fit is Fit.FITS


def test_a_flavor_has_to_suit_and_to_have_nodes_for_all_of_a_group() -> None:
    queue = ClusterQueue("q", cpus_and_gpus(("spot", 9, 9), ("h100", 9, 9)))
    podsets = [in_group("worker", 1, TOLERANT, gpu=1), in_group("leader", 1, gpu=1)]
    assert assigned(queue, podsets).flavors == {"worker": {GPU: "h100"}, "leader": {GPU: "h100"}}

    def places(podset: PodSetRequest, flavor: ResourceFlavor) -> str:
        return "no room" if (podset.name, flavor.name) == ("leader", "spot") else ""

    tolerant = [replace(podset, selection=TOLERANT) for podset in podsets]
    assignment = Flavors(QuotaTree([queue]), EXISTING, places).assign(queue, tolerant)
    assert assignment.flavors == {"worker": {GPU: "h100"}, "leader": {GPU: "h100"}}


def test_what_is_asked_for_as_nothing_gets_the_flavor_of_its_group_and_decides_nothing() -> None:
    """Kueue's: the launcher's own resources have it. Of a group of which it asks for nothing it has none here."""
    both = ResourceGroup((GPU, "cpu"), tuple((name, {GPU: Quota(0), "cpu": Quota(4)}) for name in ("a100", "h100")))
    memory = ResourceGroup(("memory",), (("spot", {"memory": Quota(4)}),))
    queue = ClusterQueue("q", (both, memory))
    launcher = PodSetRequest("launcher", 1, {GPU: 0, "cpu": 4, "memory": 0, "disk": 0})
    assignment = Flavors(QuotaTree([queue]), EXISTING).assign(queue, [launcher])
    assert (assignment.fit, assignment.flavors) == (Fit.FITS, {"launcher": {GPU: "a100", "cpu": "a100"}})
    assert assignment.usage == {("a100", "cpu"): 4}


def test_podsets_that_find_no_flavors_together_are_told_so_after_few_looks() -> None:
    """Each alone has room in every flavor, and 16 of them have 15 flavors."""
    names = [f"f{at}" for at in range(15)]
    queue = ClusterQueue("q", gpus(*((name, Quota(4)) for name in names)))
    looked_at: list[str] = []

    def places(_podset: PodSetRequest, flavor: ResourceFlavor) -> str:
        looked_at.append(flavor.name)
        return ""

    flavors = Flavors(QuotaTree([queue]), {name: ResourceFlavor(name) for name in names}, places)
    podsets = [PodSetRequest(str(at), 1, {GPU: 3}) for at in range(16)]
    assert flavors.assign(queue, podsets).fit is Fit.NONE
    assert len(looked_at) < 1500
    assert flavors.assign(queue, podsets[1:]).fit is Fit.FITS
