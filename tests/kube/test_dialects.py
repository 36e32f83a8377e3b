"""The gang that a pod names, in each dialect, and the message if the pod contradicts itself."""

from __future__ import annotations

import pytest

from extender.kube.dialects.naming import BAD_SIZE, TWO_DIALECTS, TWO_NAMES, TWO_SIZES, group_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from policies.model import Dialect, GroupRef

OURS, SIZE, THEIRS = "muster.dev/pod-group", "muster.dev/min-member", "scheduling.x-k8s.io/pod-group"


def group(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> GroupRef | None:
    return group_of(Meta(annotations=annotations, labels=labels))


def test_a_pod_that_names_no_group_is_single() -> None:
    assert group({"other": "x"}, {SIZE: "3"}) is None


def test_annotation_or_label_names_the_group_and_its_size() -> None:
    expected = GroupRef("train", Dialect.ANNOTATION, min_member=4)
    assert group({OURS: "train", SIZE: "4"}) == expected
    assert group({}, {OURS: "train", SIZE: "4"}) == expected
    assert group({OURS: "train"}, {SIZE: "4"}) == expected
    assert group({OURS: "train", SIZE: "4"}, {OURS: "train", SIZE: "4"}) == expected


def test_a_missing_size_is_left_open() -> None:
    assert group({OURS: "train"}) == GroupRef("train", Dialect.ANNOTATION)


@pytest.mark.parametrize("size", ["0", "-1", "four", "", "4.0", " 4", "1_0", "٤", "9999999999"])
def test_a_size_that_is_no_positive_number_is_a_problem(size: str) -> None:
    assert group({OURS: "train", SIZE: size}) == GroupRef(
        "train", Dialect.ANNOTATION, problem=BAD_SIZE.format(SIZE, quoted(size))
    )


def test_a_size_beyond_the_limit_is_quoted_with_the_limit() -> None:
    gang = group({OURS: "train", SIZE: "1000000000"})
    assert gang is not None
    assert gang.problem == f"{SIZE} is '1000000000', which is not a whole number from 1 to 999999999"


def test_coscheduling_takes_the_size_from_its_object() -> None:
    expected = GroupRef("train", Dialect.COSCHEDULING)
    assert group(labels={THEIRS: "train"}) == expected
    assert group({THEIRS: "train", SIZE: "4"}) == expected


def test_the_same_name_in_both_dialects_is_coscheduling() -> None:
    assert group({OURS: "train", SIZE: "4"}, {THEIRS: "train"}) == GroupRef("train", Dialect.COSCHEDULING)


def test_on_pods_of_a_job_that_muster_admits_its_own_words_count() -> None:
    """The job's operator makes a PodGroup beside them, which counts a launcher that comes last. mpi-operator#608"""
    keys = {OURS: "mpijob-train", SIZE: "3", "muster.dev/workload": "uid"}
    assert group(keys, {THEIRS: "train"}) == GroupRef("mpijob-train", Dialect.ANNOTATION, min_member=3)


@pytest.mark.parametrize(
    ("annotations", "labels", "problem"),
    [
        ({OURS: "a"}, {THEIRS: "b"}, TWO_DIALECTS.format(OURS, THEIRS)),
        ({OURS: "a"}, {OURS: "b"}, TWO_NAMES.format(OURS)),
        ({THEIRS: "a"}, {THEIRS: "b"}, TWO_NAMES.format(THEIRS)),
        ({OURS: "a", SIZE: "2"}, {SIZE: "3"}, TWO_SIZES.format(SIZE)),
    ],
)
def test_contradictions_are_problems_with_a_constant_text(
    annotations: dict[str, str], labels: dict[str, str], problem: str
) -> None:
    gang = group(annotations, labels)
    assert gang is not None
    assert gang.problem == problem


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Train", "'Train'"),
        ("", "''"),
        ("a/b", "'a/b'"),
        ("zug\n", r"'zug\n'"),
        ("bücher", r"'b\xfccher'"),
        ("x" * 300, "'" + "x" * 61 + "...'"),
    ],
)
def test_a_name_that_no_object_can_have_is_shown_harmlessly(name: str, shown: str) -> None:
    problem = (
        f"muster.dev/pod-group is {shown}, which no Kubernetes object can be named (write a lower-case DNS subdomain)"
    )
    assert group({OURS: name, SIZE: "2"}) == GroupRef(shown, Dialect.ANNOTATION, problem=problem)
