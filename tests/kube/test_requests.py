"""The requests of a pod: quantities, containers, limits and overhead."""

from __future__ import annotations

import pytest

from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.quantity import milli, whole
from tests.kube.converting import FULL, container, pod


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        ("8", 8),
        ("100m", 1),
        ("1500m", 2),
        ("1.5", 2),
        (".5", 1),
        ("5.", 5),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("12k", 12_000),
        ("40Gi", 40 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("1n", 1),
        ("9Ei", 2**63 - 1),
        ("1e999", 2**63 - 1),
        (3, 3),
        (1.5, 2),
    ],
)
def test_quantities_are_rounded_up_in_their_base_unit(text: str | int | float, amount: int) -> None:
    assert whole(text) == amount


@pytest.mark.parametrize(("text", "amount"), [("100m", 100), ("0.1", 100), ("2", 2000), ("100u", 1), ("1500m", 1500)])
def test_cpu_is_in_millicores(text: str, amount: int) -> None:
    assert milli(text) == amount


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "one", "1ki", "1mi", "--1", "1e", "1e99999", "0x10", "NaN", "Inf", "1_0", "٣"]
)
def test_what_is_not_a_quantity_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        whole(text)


def test_containers_add_up_and_each_pod_takes_one_place() -> None:
    converted = pod(containers=[container(cpu="500m", memory="1Gi"), container(**FULL)])
    assert converted.requests == (("cpu", 1500), ("memory", 2**30), ("nvidia.com/gpu", 8), ("pods", 1))


def test_init_containers_run_one_after_another() -> None:
    converted = pod(initContainers=[container(cpu="3"), container(cpu="2")], containers=[container(cpu="1")])
    assert dict(converted.requests)["cpu"] == 3000


def test_sidecars_run_beside_everything_that_starts_after_them() -> None:
    converted = pod(
        initContainers=[container(cpu="1"), container("Always", cpu="2"), container(cpu="4")],
        containers=[container(cpu="3")],
    )
    assert dict(converted.requests)["cpu"] == 6000  # 4 + 2 while the last init container runs; 3 + 2 afterwards


def test_limits_stand_for_missing_requests() -> None:
    converted = pod(containers=[container(limits={"nvidia.com/gpu": "4", "cpu": "2"}, cpu="1")])
    assert converted.requests == (("cpu", 1000), ("nvidia.com/gpu", 4), ("pods", 1))


def test_overhead_is_added_and_pod_level_resources_replace_the_sum() -> None:
    converted = pod(
        containers=[container(memory="1", **FULL)],
        resources={"requests": {"cpu": "5", "nvidia.com/gpu": "9"}},
        overhead={"cpu": "250m"},
    )
    assert converted.requests == (("cpu", 5250), ("memory", 1), ("nvidia.com/gpu", 8), ("pods", 1))


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ({"limits": {"cpu": "20", "memory": "20"}}, {"cpu": 1000, "memory": 20, "hugepages-2Mi": 4}),
        ({"limits": {"cpu": "20"}, "requests": {"cpu": "3"}}, {"cpu": 3000, "hugepages-2Mi": 4}),
        ({"limits": {"hugepages-2Mi": "8"}}, {"cpu": 1000, "hugepages-2Mi": 8}),
        ({"limits": {"nvidia.com/gpu": "8"}}, {"cpu": 1000, "hugepages-2Mi": 4}),
        ({"requests": {"memory": "3"}}, {"cpu": 1000, "memory": 3, "hugepages-2Mi": 4}),
        ({"limits": {"cpu": "20"}, "requests": {"memory": "3"}}, {"cpu": 1000, "memory": 3, "hugepages-2Mi": 4}),
        ({}, {"cpu": 1000, "hugepages-2Mi": 4}),
    ],
)
def test_a_pod_level_limit_stands_only_for_what_no_container_asks_for(resources: object, asked: dict[str, int]) -> None:
    """The limit completes requests as ``defaultPodRequests`` does; huge pages are never overcommitted."""
    converted = pod(containers=[container(cpu="1"), container(limits={"hugepages-2Mi": "4"})], resources=resources)
    assert dict(converted.requests) == {**asked, "pods": 1}


def test_a_container_that_asks_for_nothing_in_so_many_words_counts_as_one_that_asks() -> None:
    converted = pod(containers=[container(cpu="0")], resources={"limits": {"cpu": "2", "memory": "3"}})
    assert dict(converted.requests) == {"memory": 3, "pods": 1}


def test_an_unreadable_amount_names_the_pod_and_the_resource() -> None:
    with pytest.raises(UnreadableError, match=r"cpu: 'lots' is not a quantity \(pod team/p\)"):
        pod(containers=[container(cpu="lots")])
