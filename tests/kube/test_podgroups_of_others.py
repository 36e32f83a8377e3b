"""PodGroups of Volcano and of KAI-Scheduler, as their own documents print them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml

from extender.kube.dialects import group_of
from extender.kube.dialects.koordinator import OTHER_GANGS
from extender.kube.podgroups.coscheduling import KoordinatorGroup, koordinator_group_from
from extender.kube.podgroups.kai import PARENT_LEVEL, PARENT_MEMBERS, SOME_SUBGROUPS, KaiGroup, kai_group_from
from extender.kube.podgroups.volcano import BAD_MODE, BAD_TIER, NO_TIER, SUBGROUPS, VolcanoGroup, volcano_group_from
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.roles import MOST_ROLES, TOO_MANY_ROLES
from policies.model import Controller, Dialect, GroupKey, GroupRef, PodGroup, Topology
from policies.model.topology import WHOLE_ROLE
from tests.manifests_of_others import KAI

META = {"name": "train", "namespace": "team", "uid": "u", "creationTimestamp": "2026-11-23T16:00:00Z"}


def volcano(**spec: Any) -> PodGroup:
    return volcano_group_from(msgspec.convert({"metadata": META, "spec": spec}, VolcanoGroup))


def kai(**spec: Any) -> PodGroup:
    return kai_group_from(msgspec.convert({"metadata": META, "spec": spec}, KaiGroup))


def test_a_podgroup_of_volcano() -> None:
    group = volcano(minMember=2, minResources={"cpu": "16", "nvidia.com/gpu": "8"}, queue="inference")
    known = PodGroup(GroupKey("team", "train"), "u", 2, group.created, dialect=Dialect.VOLCANO)
    assert group == replace(known, queue="volcano/inference")
    assert group.created > 0


@pytest.mark.parametrize(
    ("spec", "needed", "minima"),
    [
        ({"minTaskMember": {"prefill-0": 2, "decode-0": 2}}, 4, (("decode-0", 2), ("prefill-0", 2))),
        ({"minMember": 5, "minTaskMember": {"a": 1, "b": 0}}, 5, (("a", 1),)),
        ({"minMember": 2, "minTaskMember": {"a": 2}}, 2, (("a", 2),)),
        ({"minMember": 3, "minTaskMember": {"worker": 6}}, 3, ()),
        ({}, 1, ()),
        ({"minMember": 0}, 1, ()),
        ({"minMember": -1}, -1, ()),
    ],
)
def test_the_minima_of_its_tasks_count_where_that_of_the_gang_is_not_less_as_in_volcano(
    spec: dict[str, Any], needed: int, minima: tuple[tuple[str, int], ...]
) -> None:
    group = volcano(**spec)
    assert (group.min_member, group.minima, group.problem) == (needed, minima, None)


VOLCANO_JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "train",
    "uid": "j",
    "controller": True,
}


@pytest.mark.parametrize(
    ("status", "pending"), [({}, True), ({"phase": "Pending"}, True), ({"phase": "Inqueue"}, False)]
)
def test_a_podgroup_of_a_volcano_job_waits_until_its_phase_says_that_it_is_taken_up(
    status: dict[str, str], pending: bool
) -> None:
    meta = META | {"ownerReferences": [VOLCANO_JOB]}
    group = volcano_group_from(msgspec.convert({"metadata": meta, "status": status}, VolcanoGroup))
    assert (group.job, group.pending) == (Controller("batch.volcano.sh/v1alpha1", "Job", "train", "j"), pending)


@pytest.mark.parametrize(
    "other",
    [
        {"apiVersion": "batch/v1"},
        {"apiVersion": "batch.volcano.sh/v2/../../../api"},
        {"kind": "CronJob"},
        {"controller": False},
        {"name": "../secrets"},
        {"uid": None},
    ],
)
def test_nobody_waits_for_the_phase_of_another_podgroup(other: dict[str, Any]) -> None:
    meta = META | {"ownerReferences": [VOLCANO_JOB | other]}
    group = volcano_group_from(msgspec.convert({"metadata": meta}, VolcanoGroup))
    assert (group.job, group.pending) == (None, False)


@pytest.mark.parametrize(
    ("network", "required"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, "1"),
        ({"highestTierAllowed": 2}, "2"),
        ({"mode": "hard", "highestTierName": "spine"}, "spine"),
        ({"mode": "soft"}, None),
        ({"mode": "soft", "highestTierAllowed": 3}, None),
    ],
)
def test_a_tier_of_volcano_is_a_level_counted_from_the_nearest(network: dict[str, Any], required: str | None) -> None:
    group = volcano(minMember=2, networkTopology=network)
    assert (group.topology, group.problem) == (Topology(required), None)


def test_musters_own_annotations_on_a_podgroup_of_others_go_before_its_spec() -> None:
    meta = META | {"annotations": {"muster.dev/required-topology": "block"}}
    spec = {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    group = volcano_group_from(msgspec.convert({"metadata": meta, "spec": spec}, VolcanoGroup))
    assert group.topology == Topology("block")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"networkTopology": {"mode": "hard"}}, NO_TIER),
        ({"networkTopology": {"highestTierAllowed": 0}}, BAD_TIER.format(0)),
        ({"networkTopology": {"highestTierAllowed": 10**9}}, BAD_TIER.format(10**9)),
        ({"networkTopology": {"mode": "firm"}}, BAD_MODE.format(quoted("firm"))),
        ({"subGroupPolicy": [{"name": "task", "subGroupSize": 4}]}, SUBGROUPS),
        ({"minTaskMember": {f"t{at}": 1 for at in range(MOST_ROLES + 1)}}, TOO_MANY_ROLES),
    ],
)
def test_what_muster_would_not_do_of_a_podgroup_of_volcano_is_told(spec: dict[str, Any], problem: str) -> None:
    group = volcano(minMember=2, **spec)
    assert group.problem == problem
    assert len(group.minima) <= MOST_ROLES


def test_a_podgroup_of_kai_with_subgroups() -> None:
    group = kai(**yaml.safe_load(KAI)["spec"])
    rack = Topology(None, None, WHOLE_ROLE, "topology/rack")
    assert (group.min_member, group.minima) == (5, (("subgroup-a", 2), ("subgroup-b", 3)))
    assert (group.asked_of("subgroup-a"), group.asked_of("subgroup-b"), group.asked_of("")) == (rack, rack, Topology())
    assert (group.dialect, group.problem) == (Dialect.KAI, None)


def test_what_a_subgroup_asks_for_is_beside_what_the_gang_does() -> None:
    group = kai(
        topologyConstraint={"requiredTopologyLevel": "zone", "preferredTopologyLevel": "block"},
        subGroups=[
            {"name": "a", "minMember": 1, "topologyConstraint": {"requiredTopologyLevel": "rack"}},
            {"name": "b"},
        ],
    )
    assert group.asked_of("a") == Topology("zone", "block", WHOLE_ROLE, "rack")
    assert group.asked_of("b") == Topology("zone", "block")
    assert group.minima == (("a", 1), ("b", 1)), "a subgroup that says nothing needs one"


def test_of_nested_subgroups_the_innermost_count() -> None:
    group = kai(subGroups=[{"name": "p", "minMember": 2}, {"name": "a", "parent": "p"}, {"name": "b", "parent": "p"}])
    assert (group.min_member, group.minima, group.problem) == (2, (("a", 1), ("b", 1)), None)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"minSubGroup": 1, "subGroups": [{"name": "a"}, {"name": "b"}]}, SOME_SUBGROUPS.format(1, 2)),
        (
            {"subGroups": [{"name": "p", "minMember": 3}, {"name": "a", "parent": "p"}]},
            PARENT_MEMBERS.format("'p'", 3, 1),
        ),
        (
            {
                "subGroups": [
                    {"name": "p", "topologyConstraint": {"requiredTopologyLevel": "zone"}},
                    {"name": "a", "parent": "p"},
                ]
            },
            PARENT_LEVEL.format("'p'"),
        ),
        ({"subGroups": [{"name": f"s{at}"} for at in range(1000)]}, TOO_MANY_ROLES),
    ],
)
def test_what_muster_would_not_do_of_a_podgroup_of_kai_is_told(spec: dict[str, Any], problem: str) -> None:
    group = kai(**spec)
    assert group.problem == problem
    assert len(group.minima) <= MOST_ROLES


def test_how_pods_name_them() -> None:
    volcanos = Meta(annotations={"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": "worker"})
    assert group_of(volcanos) == GroupRef("train", Dialect.VOLCANO, role="worker")
    other = Meta(annotations={"scheduling.volcano.sh/group-name": "train"})
    assert group_of(other) == GroupRef("train", Dialect.VOLCANO)
    kais = Meta(annotations={"pod-group-name": "train"}, labels={"kai.scheduler/subgroup-name": "subgroup-a"})
    assert group_of(kais) == GroupRef("train", Dialect.KAI, role="subgroup-a")


def test_a_podgroup_of_koordinator() -> None:
    obj = {"metadata": META, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 100}}
    group = koordinator_group_from(msgspec.convert(obj, KoordinatorGroup))
    assert (group.min_member, group.timeout_s, group.dialect, group.problem) == (2, 100, Dialect.KOORDINATOR, None)
    key = "gang.scheduling.koordinator.sh/groups"
    for others, problem in (('["team/train"]', None), ('["team/a"]', OTHER_GANGS.format(key, quoted('["team/a"]')))):
        annotated = obj | {"metadata": META | {"annotations": {key: others}}}
        assert koordinator_group_from(msgspec.convert(annotated, KoordinatorGroup)).problem == problem
