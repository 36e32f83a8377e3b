"""Pods of a template are completed by PriorityClasses and LimitRanges, and refused by them, before any pod fails."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.kube.kinds.completion import Completion, LimitItem, LimitRange, PriorityClass, TemplateSpec, limits_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.requests import requests_of


def test_a_pod_that_names_no_priority_class_has_all_of_the_least_default() -> None:
    never = PriorityClass(Meta(name="polite"), 7, global_default=True, preemption_policy="Never")
    higher = PriorityClass(Meta(name="rude"), 8, global_default=True, preemption_policy="PreemptLowerPriority")
    named = PriorityClass(Meta(name="low"), 1, preemption_policy="PreemptLowerPriority")
    spec = TemplateSpec()
    assert not Completion(priorities={"rude": higher, "polite": never, "low": named}).complete("team", spec)
    assert (spec.priority, spec.preemption_policy) == (7, "Never")


def test_without_a_default_it_has_no_priority_and_may_preempt() -> None:
    spec = TemplateSpec()
    assert not Completion(priorities={}).complete("team", spec)
    assert (spec.priority, spec.preemption_policy) == (0, None)


def completed(*items: LimitItem, limits: Any = None, **requests: str) -> tuple[dict[str, Any], str]:
    """The requests of the container after completion, and why there will be no pod."""
    container = {"resources": {"requests": requests, "limits": limits}}
    spec = msgspec.convert({"containers": [container]}, TemplateSpec)
    why = Completion({"team": items}).complete("team", spec)
    assert spec.containers is not None
    resources = spec.containers[0].resources
    return dict((resources and resources.requests) or {}), why


def test_what_is_said_first_counts() -> None:
    """The first default by the LimitRanges' names counts, as in Kueue."""
    ranges = [
        {"metadata": {"name": name, "namespace": "team"}, "spec": {"limits": [limit]}}
        for name, limit in (
            ("b", {"type": "Container", "defaultRequest": {"cpu": "2", "memory": "2Gi"}}),
            ("a", {"type": "Container", "defaultRequest": {"cpu": "1"}}),
            ("c", {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
        )
    ]
    items = limits_of(msgspec.convert(ranges, list[LimitRange]))["team"]
    assert completed(*items) == ({"cpu": "1", "memory": "2Gi"}, "")
    assert completed(*items, limits={"cpu": "4"})[0]["cpu"] == "4", (
        "as the API server takes it, before it looks at them"
    )


@pytest.mark.parametrize(
    ("item", "requests", "why"),
    [
        (LimitItem("Container", max={"cpu": "2"}), {"cpu": "2"}, ""),
        (
            LimitItem("Container", max={"cpu": "2"}),
            {"cpu": "2500m"},
            "a container is to have 2.5 cpu, and a LimitRange lets it have 2 cpu at most",
        ),
        (LimitItem("Container", min={"cpu": "1"}), {"memory": "1Gi"}, ""),
        (
            LimitItem("Container", min={"cpu": "1"}),
            {"cpu": "500m"},
            "a container asks for 0.5 cpu, and a LimitRange has it ask for 1 cpu at least",
        ),
        (
            LimitItem("Pod", min={"memory": "1Gi"}),
            {"cpu": "1"},
            "a pod asks for no memory, and a LimitRange has it ask for 1 GiB memory at least",
        ),
        (
            LimitItem("Pod", max={"cpu": "2"}),
            {"cpu": "1"},
            "a pod has no limit of cpu, and a LimitRange lets it have 2 cpu at most",
        ),
        (
            LimitItem("Container", max_limit_request_ratio={"cpu": "2"}),
            {"cpu": "1"},
            "a container needs a request and a limit of cpu, of which a LimitRange limits the ratio to 2",
        ),
        (LimitItem("Pod", default_request={"cpu": "9"}), {"cpu": "1"}, ""),
    ],
)
def test_what_a_limit_range_forbids_is_the_reason(item: LimitItem, requests: dict[str, str], why: str) -> None:
    assert completed(item, **requests) == (requests, why)


def test_a_limit_counts_where_it_is_more_than_the_request() -> None:
    _, why = completed(LimitItem("Container", max={"cpu": "2"}), limits={"cpu": "3"}, cpu="1")
    assert why == "a container is to have 3 cpu, and a LimitRange lets it have 2 cpu at most"


@pytest.mark.parametrize(
    ("item", "limits", "requests", "why"),
    [
        (LimitItem("Container", max_limit_request_ratio={"cpu": "2"}), {"cpu": "2"}, {"cpu": "1"}, ""),
        (
            LimitItem("Container", max_limit_request_ratio={"cpu": "1.5"}),
            {"cpu": "2"},
            {"cpu": "1"},
            "a container asks for 1 cpu and its limit is 2 cpu, and a LimitRange lets it be 1.5 times as much at most",
        ),
        (
            LimitItem("Pod", max_limit_request_ratio={"memory": "2"}),
            {"memory": "3Gi"},
            {"memory": "1Gi"},
            "a pod asks for 1 GiB memory and its limit is 3 GiB memory, and a LimitRange lets it be 2 times as "
            "much at most",
        ),
        (
            LimitItem("Pod", max={"nvidia.com/gpu": "4"}),
            {"nvidia.com/gpu": "8"},
            {},
            "a pod is to have 8 nvidia.com/gpu, and a LimitRange lets it have 4 nvidia.com/gpu at most",
        ),
        (
            LimitItem("Pod", max={"cpu": "2"}),
            {"cpu": "3"},
            {"cpu": "1"},
            "a pod is to have 3 cpu, and a LimitRange lets it have 2 cpu at most",
        ),
        (LimitItem("Pod", max={"cpu": "2"}), {"cpu": "0"}, {"cpu": "0"}, ""),
    ],
)
def test_the_limit_counts_beside_the_request(
    item: LimitItem, limits: dict[str, str], requests: dict[str, str], why: str
) -> None:
    assert completed(item, limits=limits, **requests)[1] == why


def test_more_than_its_own_limit_is_never_made() -> None:
    assert completed(limits={"cpu": "1"}, cpu="2")[1] == "a container asks for 2 cpu, and its limit is 1 cpu"


def test_what_cannot_be_read_is_told_by_others() -> None:
    assert completed(LimitItem("Container", max={"cpu": "much"}), cpu="2")[1] == ""


@pytest.mark.parametrize(("containers", "asked"), [([None], 6000), (["1", None], 2000), (["2", None, None], 4000)])
def test_pod_level_requests_suffice_whether_a_limit_range_comes_before_or_after(
    containers: list[str | None], asked: int
) -> None:
    """Kubernetes 1.36 completes them when it decodes the pod: 6, 1 and 2 CPU. 1.37 does so after admission: 1, 2, 4."""
    item = LimitItem("Container", default_request={"cpu": "1"})
    resources = [{"resources": {"requests": {"cpu": cpu}}} if cpu else {} for cpu in containers]
    spec = msgspec.convert({"containers": resources, "resources": {"limits": {"cpu": "6"}}}, TemplateSpec)
    assert not Completion({"team": (item,)}).complete("team", spec)
    assert dict(requests_of(spec)) == {"cpu": asked, "pods": 1}
