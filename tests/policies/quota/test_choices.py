"""The assignments of flavors come one after another: each once, and none when all were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Quota, ResourceFlavor, ResourceGroup
from policies.quota.flavors import Choices, Fit
from policies.quota.parts import PodSetRequest
from policies.quota.tree import QuotaTree

GPU, CPU = "nvidia.com/gpu", "cpu"
NAMES = ("a", "b", "c")


def offered(*names: str, resource: str = GPU) -> ResourceGroup:
    return ResourceGroup((resource,), tuple((name, {resource: Quota(100)}) for name in names))


@pytest.mark.parametrize(
    ("podsets", "groups", "expected"),
    [
        (1, (offered(*NAMES),), 3),
        (2, (offered(*NAMES),), 9),
        (3, (offered("a", "b"),), 8),
        (2, (offered("a", "b"), offered("x", "y", resource=CPU)), 16),
    ],
    ids=["one podset", "two", "three", "two groups of resources"],
)
def test_every_assignment_is_tried_once_and_none_after_the_last(
    podsets: int, groups: tuple[ResourceGroup, ...], expected: int
) -> None:
    queue = ClusterQueue("q", groups)
    flavors = {name: ResourceFlavor(name) for group in groups for name, _ in group.flavors}
    choices: Choices[str] = Choices(QuotaTree([queue]), flavors, queue)
    covered = [resource for group in groups for resource in group.covered]
    requests = [PodSetRequest(f"role{number}", 1, dict.fromkeys(covered, 1)) for number in range(podsets)]
    tried, assignment = [], choices.first(requests)
    while assignment.fit is Fit.FITS:
        tried.append(str(assignment.flavors))
        assignment = choices.after(assignment, requests, "no room")
        assert len(tried) <= expected
    assert len(set(tried)) == len(tried) == expected
    assert choices.first(requests).fit is not Fit.FITS, "it would be the same once more"


def test_where_quota_is_scarce_every_assignment_that_there_is_quota_for_is_tried_once() -> None:
    """This includes assignments in which the first podset must leave its best flavor to another one."""
    for seed in range(300):
        chance = Random(seed)
        left = {name: chance.randrange(9) for name in NAMES}
        queue = ClusterQueue("q", (ResourceGroup((GPU,), tuple((name, {GPU: Quota(left[name])}) for name in NAMES)),))
        choices: Choices[str] = Choices(QuotaTree([queue]), {name: ResourceFlavor(name) for name in NAMES}, queue)
        requests = [PodSetRequest(str(at), 1, {GPU: chance.randint(1, 4)}) for at in range(chance.randint(1, 3))]
        tried, assignment = [], choices.first(requests)
        while assignment.fit is Fit.FITS:
            tried.append(tuple(assignment.flavors[request.name][GPU] for request in requests))
            assignment = choices.after(assignment, requests, "no room")
            assert len(tried) <= len(NAMES) ** len(requests), seed
        expected = {flavors for flavors in product(NAMES, repeat=len(requests)) if fits(flavors, requests, left)}
        assert len(tried) == len(expected), (seed, tried)
        assert set(tried) == expected, seed


def fits(some: Sequence[str], asked: Sequence[PodSetRequest], left: Mapping[str, int]) -> bool:
    used = Counter[str]()
    for name, podset in zip(some, asked, strict=True):
        used[name] += podset.requests[GPU]
    return all(used[name] <= left[name] for name in used)


def test_a_flavor_of_which_there_is_quota_for_fewer_pods_is_tried_for_these_after_the_others() -> None:
    quotas = (("a", {GPU: Quota(2)}), ("b", {GPU: Quota(1)}))
    queue = ClusterQueue("q", (ResourceGroup((GPU,), quotas),))
    choices: Choices[str] = Choices(QuotaTree([queue]), {name: ResourceFlavor(name) for name in NAMES}, queue)
    two, alone = ([PodSetRequest("", count, {GPU: 1})] for count in (2, 1))
    assignment = choices.first(two)
    assert assignment.flavors == {"": {GPU: "a"}}
    assert choices.after(assignment, two, "no room").fit is not Fit.FITS
    assert choices.first(two).fit is not Fit.FITS
    assert choices.first(alone).flavors == {"": {GPU: "b"}}
