"""Hostile words, numbers and sizes that the API server accepts from a pod's author, and how Muster reads them."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from extender.kube.convert import MOST_NAMES, TOO_MANY_NAMES, pod_from
from extender.kube.reading import constraints
from extender.kube.reading.constraints import MOST_CHARACTERS, MOST_CONDITIONS, MOST_VALUES, TOO_CHOOSY
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import PodObject
from extender.kube.reading.requests import MOST
from policies.model import Pod, Selection

FORGED = "team-b/train\n2026-01-01 00:00:00,000 INFO gang team-b/train: Running\x1b[31m"
GANG = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": "team", "uid": "u", "annotations": annotations or {}}
    return pod_from(msgspec.convert({"metadata": metadata, "spec": spec}, PodObject))


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [expression]} for expression in expressions]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_free_text_of_a_pod_becomes_printable_and_short() -> None:
    """The API server takes any text for these: neither field is checked there."""
    for text in (FORGED, "\u202e", "x" * 100_000, "é"):
        claims = [{"name": "v", "persistentVolumeClaim": {"claimName": text}}]
        converted = pod(GANG, schedulerName=text, volumes=claims, schedulingGates=[{"name": text}])
        for word in (converted.scheduler, *converted.claims, *converted.gates):
            assert word.isprintable()
            assert word.isascii()
            assert len(word) < 70
            assert word.startswith("'")


def test_names_stay_as_they_are() -> None:
    name = "a" * 253
    assert pod(GANG, schedulerName=name, nodeName=name).scheduler == name


@pytest.mark.parametrize("name", [FORGED, "../../secrets", "Train", "a" * 254, "", "tr ain", "٣"])
def test_a_group_that_cannot_be_a_name_is_a_problem_and_printable(name: str) -> None:
    group = pod(GANG | {"muster.dev/pod-group": name}).group
    assert group is not None
    assert group.problem is not None
    assert group.name.isprintable()
    assert len(group.name) < 70


def test_a_pod_cannot_name_a_group_of_another_namespace() -> None:
    converted = pod(GANG | {"muster.dev/pod-group": "team-b/train"})
    assert converted.group is not None
    assert converted.group.problem is not None
    assert converted.group_key is not None
    assert converted.group_key.namespace == "team"


def test_amounts_are_summed_up_within_bounds() -> None:
    """The API server checks each of them, not the sum, and 64 bits are all that there is."""
    huge = {"resources": {"requests": {"memory": "8Ei", "nvidia.com/gpu": "9223372036854775807", "cpu": "9E"}}}
    amounts = dict(pod(GANG, containers=[huge] * 3, overhead={"memory": "8Ei"}).requests)
    assert amounts == {"memory": MOST, "nvidia.com/gpu": MOST, "cpu": MOST, "pods": 1}


def test_an_amount_below_zero_is_refused() -> None:
    with pytest.raises(UnreadableError, match="negative"):
        pod(containers=[{"resources": {"requests": {"memory": "-8Ei"}}}])


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": affinity(*[{"key": f"k{n}", "operator": "Exists"} for n in range(MOST_CONDITIONS + 1)])},
        {"affinity": affinity({"key": "k", "operator": "NotIn", "values": ["v"] * (MOST_VALUES + 1)})},
        {"affinity": affinity({"key": "k", "operator": "In", "values": ["v" * (MOST_CHARACTERS + 1)]})},
        {"nodeSelector": {f"k{n}": "v" for n in range(MOST_CONDITIONS + 1)}},
        {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(MOST_CONDITIONS + 1)]},
    ],
    ids=["expressions", "values", "characters", "selectors", "tolerations"],
)
def test_conditions_without_end_keep_a_gang_waiting_and_nobody_else(spec: dict[str, Any]) -> None:
    choosy = pod(GANG, **spec)
    assert choosy.group is not None
    assert choosy.group.problem == TOO_CHOOSY
    assert choosy.selection == Selection()
    assert pod(**spec).group is None, "a pod of no gang is kube-scheduler's"


def test_many_conditions_are_fine() -> None:
    exists = [{"key": f"k{n}", "operator": "Exists"} for n in range(MOST_CONDITIONS)]
    converted = pod(GANG, affinity=affinity(*exists))
    assert converted.group is not None
    assert converted.group.problem is None
    assert converted.selection.affinity is not None
    assert len(converted.selection.affinity) == MOST_CONDITIONS


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"resources": {"requests": {f"example.com/{n}": "1" for n in range(MOST_NAMES)}}}]},
        {"volumes": [{"persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(MOST_NAMES + 1)]},
        {"schedulingGates": [{"name": f"g{n}"} for n in range(MOST_NAMES + 1)]},
    ],
    ids=["resources", "claims", "gates"],
)
def test_names_without_end_keep_a_gang_waiting(spec: dict[str, Any]) -> None:
    converted = pod(GANG, **spec)
    assert converted.group is not None
    assert converted.group.problem == TOO_MANY_NAMES
    assert max(map(len, (converted.requests, converted.claims, converted.gates))) == MOST_NAMES


def hostile(number: int) -> dict[str, Any]:
    """A pod as large as the API server and the limits allow, which shares no content with any other pod."""
    few = MOST_CHARACTERS // MOST_VALUES - 4
    values = [f"{number:05}-{n:04}".ljust(few, "v") for n in range(MOST_VALUES)]
    share = MOST_VALUES // MOST_CONDITIONS
    terms = [{"key": "k", "operator": "In", "values": values[at : at + share]} for at in range(0, MOST_VALUES, share)]

    def names(kind: str) -> list[str]:
        return [f"{kind}.com/{number:05}-{n:05}".ljust(253, "n") for n in range(2 * MOST_NAMES)]

    return {
        "affinity": affinity(*terms),
        "containers": [{"resources": {"requests": dict.fromkeys(names("resource"), "1")}}],
        "volumes": [{"persistentVolumeClaim": {"claimName": name}} for name in names("claim")],
        "schedulingGates": [{"name": name} for name in names("gate")],
    }


def bytes_each(pods: int, make: Callable[[int], Pod]) -> float:
    """The bytes that stay in memory for each pod once its object is gone."""
    make(0)
    gc.collect()
    tracemalloc.start()
    try:
        kept = [make(number) for number in range(pods)]
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()


def test_little_is_kept_of_a_pod_whatever_it_says() -> None:
    assert bytes_each(5, lambda number: pod(GANG, **hostile(number))) < 128 * 1024
    only_nodes = bytes_each(5, lambda number: pod(GANG, affinity=hostile(number)["affinity"]))
    assert only_nodes < 48 * 1024


def test_pods_of_one_template_share_what_they_ask_of_nodes() -> None:
    before, node_affinity = len(constraints._selections), hostile(7)["affinity"]
    assert bytes_each(20, lambda _: pod(GANG, affinity=node_affinity)) < 3 * 1024
    gc.collect()
    assert len(constraints._selections) == before, "nothing is kept for pods that are gone"


def test_a_forged_stamp_of_any_length_is_not_kept() -> None:
    stamps = {"muster.dev/gang-uid": "x" * 200_000, "muster.dev/release": "y"}
    assert pod(GANG | stamps).stamp is None


def test_a_pod_without_a_node_has_forged_its_stamp() -> None:
    stamps = {"muster.dev/gang-uid": "job-1", "muster.dev/release": "uid-1", "muster.dev/release-complete": "true"}
    assert pod(GANG | stamps).stamp is None
    assert pod(GANG | stamps, nodeName="n0").stamp is not None


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_an_object_whose_name_is_none_is_skipped(field: str) -> None:
    """The API server makes or checks these fields; a server that answers in its place may not."""
    metadata = {"name": "p", "namespace": "team", "uid": "u", field: FORGED}
    with pytest.raises(UnreadableError) as caught:
        pod_from(msgspec.convert({"metadata": metadata}, PodObject))
    assert str(caught.value).isprintable()
