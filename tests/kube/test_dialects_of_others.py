"""Gangs that are named in the words of other projects, as their own documents print them."""

from __future__ import annotations

import json

import pytest
import yaml

from extender.kube.dialects import NAMES, group_of
from extender.kube.dialects.koordinator import OTHER_GANGS
from extender.kube.dialects.naming import BAD_NAME, BAD_SIZE, NO_SIZE, TWO_DIALECTS, TWO_NAMES, TWO_SIZES
from extender.kube.dialects.yunikorn import BAD_TASK_GROUPS, NO_APPLICATION
from extender.kube.reading.numbering import index_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.topology import BAD_LEVEL, topology_of
from policies.model import Dialect, GroupRef, Topology
from tests import manifests_of_others

KUEUE, COUNT = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
KOORDINATOR, LEAST = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"
SIGS = "pod-group.scheduling.sigs.k8s.io"
OURS, THEIRS = "muster.dev/pod-group", "scheduling.x-k8s.io/pod-group"


def group(annotations: dict[str, str], labels: dict[str, str] | None = None) -> GroupRef | None:
    return group_of(Meta(namespace="team", name="pod", uid="u", annotations=annotations, labels=labels))


def test_a_group_of_plain_pods_in_kueues_words() -> None:
    gang = group({COUNT: "2"}, {"kueue.x-k8s.io/queue-name": "user-queue", KUEUE: "sample-group"})
    assert gang == GroupRef("sample-group", Dialect.KUEUE, 2)


@pytest.mark.parametrize(
    "said",
    [
        {KOORDINATOR: "train", LEAST: "2"},
        {KOORDINATOR: "train", LEAST: "2", "gang.scheduling.koordinator.sh/mode": "NonStrict"},
        {KOORDINATOR: "train", LEAST: "2", "gang.scheduling.koordinator.sh/groups": '["team/train"]'},
        {f"{SIGS}/name": "train", f"{SIGS}/min-available": "2"},
        {SIGS: "train", f"{SIGS}/min-available": "2"},
    ],
)
def test_a_gang_in_koordinators_words_and_in_those_of_the_first_coscheduling_plugin(said: dict[str, str]) -> None:
    for gang in (group(said), group({}, said)):
        assert gang == GroupRef("train", Dialect.KOORDINATOR, 2)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({KUEUE: "train"}, NO_SIZE.format(KUEUE, COUNT)),
        ({KUEUE: "train", COUNT: "all"}, BAD_SIZE.format(COUNT, quoted("all"))),
        ({KUEUE: "train", COUNT: ""}, BAD_SIZE.format(COUNT, quoted(""))),
        ({KOORDINATOR: "train", LEAST: "2", f"{SIGS}/min-available": "3"}, TWO_SIZES.format(LEAST)),
        ({KOORDINATOR: "a", LEAST: "2", f"{SIGS}/name": "b"}, TWO_DIALECTS.format(KOORDINATOR, f"{SIGS}/name")),
        ({KOORDINATOR: "a", LEAST: "2", KUEUE: "b", COUNT: "2"}, TWO_DIALECTS.format(KOORDINATOR, KUEUE)),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_told(said: dict[str, str], problem: str) -> None:
    gang = group(said)
    assert gang is not None
    assert gang.problem == problem
    assert gang.min_member is None


def test_in_koordinators_words_an_object_may_say_the_size() -> None:
    for labels in ({KOORDINATOR: "train"}, {SIGS: "train"}):
        assert group({}, labels) == GroupRef("train", Dialect.KOORDINATOR)


def test_the_annotation_and_the_label_of_one_key_have_to_agree() -> None:
    gang = group({KUEUE: "a", COUNT: "2"}, {KUEUE: "b"})
    assert gang is not None
    assert gang.problem == TWO_NAMES.format(KUEUE)


@pytest.mark.parametrize(
    "others", ['["team/train", "team/eval"]', '["elsewhere/train"]', '["train"]', "train", "[" * 3000, '["team/train",']
)
def test_gangs_that_are_to_start_together_are_told_not_to(others: str) -> None:
    for key in ("gang.scheduling.koordinator.sh/groups", f"{SIGS}/groups"):
        gang = group({KOORDINATOR: "train", LEAST: "2", key: others})
        assert gang is not None
        assert gang.problem == OTHER_GANGS.format(key, quoted(others))


@pytest.mark.parametrize("name", ["Train", "a/b", "z" * 300])
def test_a_name_that_no_object_can_have_is_quoted(name: str) -> None:
    assert group({KUEUE: name, COUNT: "2"}) == GroupRef(
        quoted(name), Dialect.KUEUE, problem=BAD_NAME.format(KUEUE, quoted(name))
    )


@pytest.mark.parametrize("key", [key for key in NAMES if key not in (OURS, THEIRS)])
def test_an_empty_name_names_no_gang(key: str) -> None:
    assert group({key: ""}) is None
    assert group({}, {key: ""}) is None


def test_musters_own_words_win_over_all_others_and_those_of_the_coscheduling_plugin_over_the_rest() -> None:
    others = {KUEUE: "b", COUNT: "3", KOORDINATOR: "c", LEAST: "4"}
    assert group({OURS: "a", "muster.dev/min-member": "2"} | others) == GroupRef("a", Dialect.ANNOTATION, 2)
    assert group(others, {THEIRS: "a"}) == GroupRef("a", Dialect.COSCHEDULING)


def test_of_two_projects_that_name_one_group_kueue_only_admits_it() -> None:
    gang = group({KUEUE: "train", COUNT: "2", KOORDINATOR: "train", LEAST: "1"})
    assert gang == GroupRef("train", Dialect.KOORDINATOR, 1)


_PODSET = "kueue.x-k8s.io/podset"


@pytest.mark.parametrize(
    ("said", "topology"),
    [
        ({f"{_PODSET}-required-topology": "cloud.google.com/block"}, Topology("cloud.google.com/block")),
        ({f"{_PODSET}-preferred-topology": "block"}, Topology(None, "block")),
        (
            {f"{_PODSET}-slice-size": "4", f"{_PODSET}-slice-required-topology": "clique"},
            Topology(None, None, 4, "clique"),
        ),
        ({"kai.scheduler/topology-required-placement": "rack"}, Topology("rack")),
        ({"kai.scheduler/topology-preferred-placement": "rack"}, Topology(None, "rack")),
        (
            {"kai.scheduler/segment-size": "4", "kai.scheduler/segment-topology-required-placement": "rack"},
            Topology(None, None, 4, "rack"),
        ),
        ({f"{_PODSET}-required-topology": "block", "muster.dev/preferred-topology": "rack"}, Topology(None, "rack")),
    ],
)
def test_the_topology_that_a_pod_asks_for_in_the_words_of_others(said: dict[str, str], topology: Topology) -> None:
    assert topology_of(Meta(annotations=said)) == topology


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        ({}, {"kueue.x-k8s.io/managed": "true"}),
        ({}, {"kueue.x-k8s.io/podset": "main"}),
        ({"kueue.x-k8s.io/workload": "w"}, {}),
    ],
)
def test_where_kueue_manages_the_pod_it_has_assigned_the_domain(
    annotations: dict[str, str], labels: dict[str, str]
) -> None:
    meta = Meta(annotations=annotations | {f"{_PODSET}-required-topology": "hall"}, labels=labels)
    assert topology_of(meta) == Topology()


def test_a_level_that_cannot_be_read_is_told_under_its_own_key() -> None:
    key = f"{_PODSET}-required-topology"
    gang = group({KUEUE: "train", COUNT: "2", key: "a b"})
    assert gang is not None
    assert gang.problem == BAD_LEVEL.format(key, quoted("a b"))


def test_kueue_numbers_the_pods_of_a_group() -> None:
    assert index_of(Meta(labels={"kueue.x-k8s.io/pod-group-pod-index": "3"})) == 3


YUNIKORN, TASK_GROUPS = "yunikorn.apache.org/task-group-name", "yunikorn.apache.org/task-groups"
EXAMPLE: str = yaml.safe_load(manifests_of_others.YUNIKORN)["spec"]["template"]["metadata"]["annotations"][TASK_GROUPS]


def test_an_application_of_yunikorn_is_a_gang_and_its_task_groups_are_its_roles() -> None:
    labels = {"app": "sleep", "applicationId": "gang-scheduling-job-example", "queue": "root.sandbox"}
    gang = group({YUNIKORN: "task-group-example", TASK_GROUPS: EXAMPLE}, labels)
    minima = (("task-group-example", 2),)
    expected = GroupRef("gang-scheduling-job-example", Dialect.YUNIKORN, role="task-group-example", minima=minima)
    assert gang == expected
    assert group({YUNIKORN: "task-group-example"}, labels) == expected._replace(minima=())
    assert group({}, labels) is None, "a pod of no task group is scheduled by itself"


@pytest.mark.parametrize("key", ["yunikorn.apache.org/app-id", "applicationId", "spark-app-selector"])
def test_where_the_application_may_be_named(key: str) -> None:
    for gang in (group({YUNIKORN: "a", key: "app"}), group({YUNIKORN: "a"}, {key: "app"})):
        assert gang == GroupRef("app", Dialect.YUNIKORN, role="a")


def test_a_task_group_of_no_application_is_told() -> None:
    for keys in ({YUNIKORN: "a"}, {TASK_GROUPS: EXAMPLE}, {YUNIKORN: "a", TASK_GROUPS: EXAMPLE}):
        gang = group(keys)
        assert gang is not None
        assert gang.problem == NO_APPLICATION


@pytest.mark.parametrize(
    "text",
    [
        "{}", "[]", "[", "[" * 5000, "null", '[{"name": "a"}]', '[{"name": "", "minMember": 1}]',
        '[{"name": "a", "minMember": 0}]', '[{"name": "a", "minMember": -1}]', '[{"name": "a", "minMember": "2"}]',
        '[{"name": "a", "minMember": 1}, {"name": "a", "minMember": 2}]', '[{"minMember": 1}]', "\u0000",
        json.dumps([{"name": f"g{at}", "minMember": 1} for at in range(65)]),
        json.dumps([{"name": "a" * 70_000, "minMember": 1}]),
    ],
)  # fmt: skip
def test_task_groups_that_cannot_be_read_are_told(text: str) -> None:
    gang = group({YUNIKORN: "a", TASK_GROUPS: text}, {"applicationId": "app"})
    assert gang is not None
    assert gang.problem == BAD_TASK_GROUPS.format(quoted(text))
    assert gang.minima == ()
