"""Queue objects as people wrote them, of both versions, and the problems of self-contradicting ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
import yaml

from extender.kube.queues.read import (
    ClusterQueueObject,
    CohortObject,
    FlavorObject,
    KueueTopology,
    LocalQueueObject,
    Read,
    cluster_queue_from,
    cohort_from,
    flavor_from,
    local_queue_from,
    topology_from,
)
from extender.kube.reading.identity import UnreadableError
from policies.model.node import Requirement, Taint, Toleration
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    Fungibility,
    LocalQueue,
    Preemption,
    Preference,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Search,
    Stop,
    Strategy,
    TopologyObject,
)
from tests.manifests_of_queues import TUTORIAL

THREE_FLAVORS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: research
spec:
  cohortName: all
  queueingStrategy: StrictFIFO
  namespaceSelector:
    matchLabels: {team: research}
  resourceGroups:
    - coveredResources: [cpu, memory]
      flavors:
        - name: default
          resources:
            - {name: cpu, nominalQuota: "1.5"}
            - {name: memory, nominalQuota: 36Gi}
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: nvidia-a100
          resources: [{name: nvidia.com/gpu, nominalQuota: 16, borrowingLimit: 32}]
        - name: nvidia-h100
          resources: [{name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 0, lendingLimit: "4"}]
  flavorFungibility:
    whenCanBorrow: TryNextFlavor
    whenCanPreempt: MayStopSearch
    preference: PreemptionOverBorrowing
  fairSharing: {weight: "0.5"}
  stopPolicy: HoldAndDrain
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
"""
GPU = "nvidia.com/gpu"


def queue(text: str | dict[str, Any]) -> Read[ClusterQueue]:
    obj = yaml.safe_load(text) if isinstance(text, str) else {"metadata": {"name": "q"}, "spec": text}
    return cluster_queue_from(msgspec.convert(obj, ClusterQueueObject))


def with_quota(name: str = GPU, **said: object) -> dict[str, Any]:
    quota = {"name": name, "nominalQuota": 1, **said}
    group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [quota]}]}
    return {"namespaceSelector": {}, "cohortName": "c", "resourceGroups": [group]}


def test_the_tutorials_queue() -> None:
    _, tutorial, _ = TUTORIAL.split("---\n")
    parsed = queue(tutorial)
    group = ResourceGroup(("cpu", "memory", GPU), (("a100-gpu-80gb", {GPU: Quota(32)}),))
    assert parsed.value == ClusterQueue("heavy-ml-cluster-queue", (group,), "ml-cohort", namespaces=())
    assert parsed.problems == ()
    assert parsed.warnings == ("cpu, memory: covered, and no flavor says a quota: there is no limit",)


def test_every_field_that_counts() -> None:
    parsed = queue(THREE_FLAVORS)
    assert (parsed.problems, parsed.warnings) == ((), ())
    assert parsed.value == ClusterQueue(
        "research",
        (
            ResourceGroup(("cpu", "memory"), (("default", {"cpu": Quota(1500), "memory": Quota(36 << 30)}),)),
            ResourceGroup((GPU,), (("nvidia-a100", {GPU: Quota(16, 32)}), ("nvidia-h100", {GPU: Quota(8, 0, 4)}))),
        ),
        "all",
        Strategy.STRICT,
        Fungibility(Search.NEXT, Search.STOP, Preference.PREEMPTION),
        Fraction(1, 2),
        (Requirement("team", "In", ("research",)),),
        Stop.DRAIN,
        by_past_usage=True,
    )


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}, Fungibility(Search.STOP, Search.STOP)),
        ({"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}, Fungibility(Search.NEXT, Search.NEXT)),
        ({}, Fungibility()),
    ],
)
def test_the_words_of_the_older_version_mean_the_same(said: dict[str, str], read: Fungibility) -> None:
    parsed = queue({**with_quota(), "flavorFungibility": said})
    assert (parsed.value.fungibility, parsed.problems) == (read, ())


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"cohort": "a", "cohortName": "b"}, "spec.cohort is 'a' and spec.cohortName 'b'"),
        ({"admissionChecks": ["multikueue"]}, "spec.admissionChecks is not implemented"),
        ({"admissionChecksStrategy": {}}, None),
        ({"admissionChecksStrategy": {"admissionChecks": []}}, "spec.admissionChecksStrategy is not implemented"),
        (
            {"queueingStrategy": "Lottery"},
            "spec.queueingStrategy is 'Lottery'; it must be one of StrictFIFO, BestEffortFIFO",
        ),
        (
            {"preemption": {"withinClusterQueue": "Any"}},
            "spec.preemption.withinClusterQueue is 'Any'; "
            "it must be one of Never, LowerPriority, LowerOrNewerEqualPriority",
        ),
        (
            {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
            "spec.preemption.borrowWithinCohort.policy is LowerPriority, and reclaimWithinCohort is Never",
        ),
        ({"stopPolicy": "Now"}, "spec.stopPolicy is 'Now'; it must be one of None, Hold, HoldAndDrain"),
        ({"fairSharing": {"weight": "much"}}, "spec.fairSharing.weight is 'much', which is no quantity"),
        ({"fairSharing": {"weight": -1}}, "spec.fairSharing.weight is '-1', and must not be negative"),
        (
            with_quota(nominalQuota="-4"),
            "the nominalQuota for nvidia.com/gpu of flavor f is '-4', and must not be negative",
        ),
        (
            with_quota(lendingLimit="-500m"),
            "the lendingLimit for nvidia.com/gpu of flavor f is '-500m', and must not be negative",
        ),
        (
            with_quota(borrowingLimit="x"),
            "the borrowingLimit for nvidia.com/gpu of flavor f is 'x', which is no quantity",
        ),
        (with_quota("cpu"), "flavor f has a quota for 'cpu', which is not in coveredResources"),
        (
            {"resourceGroups": [{"coveredResources": [GPU]}, {"coveredResources": [GPU]}]},
            "resource 'nvidia.com/gpu' is in two resource groups",
        ),
        (
            {"resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "f"}]}, {"flavors": [{"name": "f"}]}]},
            "flavor 'f' is in two resource groups",
        ),
        (
            {"resourceGroups": [{"coveredResources": [GPU], "flavors": [{"name": "f"}, {"name": "f"}]}]},
            "flavor 'f' is twice in a resource group",
        ),
        (
            {
                "resourceGroups": [
                    {
                        "coveredResources": [GPU],
                        "flavors": [{"name": "f", "resources": [{"name": GPU, "nominalQuota": 1}] * 2}],
                    }
                ]
            },
            "flavor f has two quotas for 'nvidia.com/gpu'",
        ),
    ],
)
def test_a_contradiction_is_a_sentence_and_no_guess(spec: dict[str, Any], problem: str | None) -> None:
    parsed = queue({"namespaceSelector": {}, **spec})
    assert parsed.problems == ((problem,) if problem else ("spec.admissionChecksStrategy is not implemented",))
    assert parsed.unclear is (not spec.keys().isdisjoint(("cohort", "resourceGroups"))), "what it has"


def test_whom_its_workloads_may_evict() -> None:
    preemption = {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
    }
    parsed = queue({"namespaceSelector": {}, "preemption": preemption})
    assert parsed.problems == ()
    assert parsed.value.preemption == Preemption(Evicts.LOWER, Evicts.ANY, Evicts.LOWER, 100)


def test_one_that_is_being_deleted_admits_nobody() -> None:
    """A queue stays until its finalizer is removed."""
    meta = {"name": "q", "deletionTimestamp": "2026-11-26T02:30:00Z"}
    parsed = cluster_queue_from(msgspec.convert({"metadata": meta, "spec": with_quota()}, ClusterQueueObject))
    assert parsed.problems == ("it is being deleted",)


def test_what_may_not_be_meant_is_a_warning() -> None:
    alone = with_quota(borrowingLimit=4)
    del alone["cohortName"], alone["namespaceSelector"]
    assert queue(alone).warnings == (
        "it has no spec.namespaceSelector, so no namespace may use it; {} lets all use it",
        "its borrowing and lending limits mean nothing, because it is in no cohort",
    )
    assert queue(with_quota(nominalQuota=None)).warnings == (
        f"there is no nominalQuota for {GPU} of flavor f: it is 0",
    )
    assert queue(with_quota(nominalQuota=4, lendingLimit=4)).warnings == ()
    (warning,) = queue(with_quota(nominalQuota=4, lendingLimit=5)).warnings
    assert warning.startswith(f"the lendingLimit for {GPU} of flavor ")
    assert warning.endswith(" is more than its nominalQuota")


def test_cohorts_flavors_and_local_queues() -> None:
    group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [{"name": GPU, "nominalQuota": 8}]}]}
    spec = {"parentName": "org", "resourceGroups": [group], "fairSharing": {"weight": 2}}
    cohort = cohort_from(msgspec.convert({"metadata": {"name": "dept"}, "spec": spec}, CohortObject))
    assert cohort.value == Cohort("dept", "org", (ResourceGroup((GPU,), (("f", {GPU: Quota(8)}),)),), Fraction(2))
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    spec = {"nodeLabels": {"gpu": "a100"}, "nodeTaints": [taint], "tolerations": [{"key": "spot"}], "topologyName": "t"}
    flavor = flavor_from(msgspec.convert({"metadata": {"name": "f"}, "spec": spec}, FlavorObject))
    tolerations = (Toleration("spot", "Equal", "", ""),)
    taints = (Taint("spot", "true", "NoSchedule"),)
    assert flavor.value == ResourceFlavor("f", {"gpu": "a100"}, taints, tolerations, "t")
    meta = {"name": "kueue-gang-queue", "namespace": "team"}
    local = {"metadata": meta, "spec": {"clusterQueue": "heavy", "stopPolicy": "Hold", "fairSharing": {"weight": 3}}}
    read = local_queue_from(msgspec.convert(local, LocalQueueObject))
    assert read.value == LocalQueue("team", "kueue-gang-queue", "heavy", Fraction(3), Stop.HOLD)
    nowhere = local_queue_from(msgspec.convert({"metadata": meta}, LocalQueueObject))
    assert nowhere.problems == ("it names no spec.clusterQueue",)


def test_the_levels_of_a_topology() -> None:
    levels = [{"nodeLabel": "example.com/block"}, {"nodeLabel": "example.com/rack"}]
    read = topology_from(msgspec.convert({"metadata": {"name": "t"}, "spec": {"levels": levels}}, KueueTopology))
    assert (read.value, read.problems) == (TopologyObject("t", ("example.com/block", "example.com/rack")), ())
    odd: list[dict[str, Any]] = [{}, {"levels": []}, {"levels": [{}]}]
    for spec in odd:
        (problem,) = topology_from(msgspec.convert({"metadata": {"name": "t"}, "spec": spec}, KueueTopology)).problems
        assert "nodeLabel" in problem
    many = {"metadata": {"name": "t"}, "spec": {"levels": levels * 9}}
    assert topology_from(msgspec.convert(many, KueueTopology)).problems == (
        "spec.levels: there are 18, and 16 are allowed",
    )


def test_objects_that_nobody_can_name_are_unreadable() -> None:
    with pytest.raises(UnreadableError, match="the ClusterQueue has no name"):
        cluster_queue_from(ClusterQueueObject())
    with pytest.raises(UnreadableError, match="the Cohort has no name"):
        cohort_from(CohortObject())
    with pytest.raises(UnreadableError, match="the ResourceFlavor has no name"):
        flavor_from(FlavorObject())
    with pytest.raises(UnreadableError, match="has no namespace"):
        local_queue_from(msgspec.convert({"metadata": {"name": "q"}}, LocalQueueObject))


def test_an_object_of_nothing_but_null_is_read() -> None:
    names = {"metadata": {"name": "q"}, "spec": dict.fromkeys(("resourceGroups", "cohort", "flavorFungibility"))}
    assert cluster_queue_from(msgspec.convert(names, ClusterQueueObject)).value == ClusterQueue("q")


def test_no_object_makes_more_groups_than_the_crd_allows_and_what_is_beyond_is_a_fault() -> None:
    many = [{"coveredResources": [f"r{at}"], "flavors": [{"name": f"f{at}"}]} for at in range(1000)]
    parsed = queue({"resourceGroups": many})
    assert len(parsed.value.groups) == 16
    assert "spec.resourceGroups: there are 1000, and 16 are allowed" in parsed.problems
    names = [f"r{at}" for at in range(17)]
    quotas = [{"name": name, "nominalQuota": 1} for name in names]
    flavors = [{"name": f"f{at}", "resources": quotas if at == 0 else []} for at in range(17)]
    parsed = queue({"resourceGroups": [{"coveredResources": names, "flavors": flavors}]})
    for what in ("coveredResources of a group", "flavors of a group", "resources of flavor f0"):
        assert f"{what}: there are 17, and 16 are allowed" in parsed.problems
