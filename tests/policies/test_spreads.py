"""Gangs whose members are spread over domains: which domains count, and how many each takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.api import Choice
from policies.model import (
    CLIQUE,
    Pod,
    Selection,
    Spread,
    Taint,
)
from policies.placement.filling import fill
from policies.placement.one_by_one import rounds
from policies.placement.place import Placed, place
from policies.steps import Steps
from tests.builders import cluster, single, snapshot
from tests.policies.relating import HOST, TRAIN, ZONE, members, placed, refused, term, zones


def test_a_spread_of_two_for_each_node_comes_in_rounds() -> None:
    nodes = placed(members(8, spread=(Spread(HOST, 1, TRAIN),)), snapshot(cluster("a: 4x8")))
    assert sorted(nodes[:4]) == sorted(nodes[4:]) == ["a-0", "a-1", "a-2", "a-3"]


def test_a_gang_is_asked_about_in_as_few_rounds_as_its_spread_allows() -> None:
    view = snapshot(cluster("a: 4x8"))

    def in_rounds(pods: list[Pod]) -> list[int]:
        plan = place(pods, len(pods), view)
        assert isinstance(plan, Placed)
        return [len(batch) for batch in rounds([(pod, plan.nodes[pod.uid]) for pod in pods], view) or ()]

    assert in_rounds(members(8, spread=(Spread(HOST, 1, TRAIN),))) == [4, 4]
    assert in_rounds(members(8, spread=(Spread(HOST, 2, TRAIN),))) == [8]
    assert in_rounds(members(4, anti_affinity=(term(HOST),))) == [4]
    assert in_rounds(members(4, affinity=(term(CLIQUE),))) == [1, 3]
    assert in_rounds(members(4)) == [4]
    # Of pods that are there none counts for an empty selector, and all do that are nominated for the node.
    assert in_rounds(members(4, spread=(Spread(HOST, 1, ()),))) == [1, 1, 1, 1]
    assert in_rounds(members(4, spread=(Spread(HOST, 2, ()),))) == [2, 2]


def test_a_spread_counts_domains_that_are_full() -> None:
    busy = [single("busy", gpus=8, node="n2")]
    pods = members(3, spread=(Spread(ZONE, 1, TRAIN),))
    why = refused(pods, snapshot(zones("aab"), *busy))
    assert "2 nodes left for 3 members with maxSkew 1 by topology.kubernetes.io/zone (1 of 2 domains with room)" in why
    assert len(placed(pods, snapshot(zones("aab")))) == 3


def test_a_spread_over_fewer_domains_than_it_asks_for_says_so() -> None:
    pods = members(3, spread=(Spread(ZONE, 1, TRAIN, min_domains=3),))
    assert f"maxSkew 1 by {ZONE} (2 of 2 domains with room, and minDomains is 3)" in refused(
        pods, snapshot(zones("ab"))
    )
    assert "minDomains" not in refused(members(3, gpus=8, spread=(Spread(ZONE, 1, TRAIN),)), snapshot(zones("ab")))


def test_a_gang_that_a_spread_keeps_out_of_every_block_is_seated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seating members one by one takes long: a domain that cannot hold all of them is not tried."""
    tried: list[int] = []

    def counted(roles: Any, choice: Choice, *others: Any) -> Steps[dict[str, str]]:
        tried.append(len(choice))
        return fill(roles, choice, *others)

    monkeypatch.setattr("policies.placement.place.fill", counted)
    nodes = [node for zone in "abc" for node in cluster(*(f"{zone}{clique}: 4x8" for clique in range(4)))]
    nodes = [replace(node, labels={**node.labels, ZONE: node.name[0]}) for node in nodes]
    spread, apart = (Spread(ZONE, 1, TRAIN),), (term(HOST),)
    assert len(placed(members(12, spread=spread, anti_affinity=apart), snapshot(nodes))) == 12
    assert len(tried) == 1


def test_fewer_domains_than_min_domains_count_as_empty() -> None:
    pods = members(3, spread=(Spread(ZONE, 1, TRAIN, min_domains=3),))
    assert refused(pods, snapshot(zones("aabb")))
    assert len(placed(pods, snapshot(zones("aabbc")))) == 3


def test_a_tainted_domain_counts_unless_taints_are_honoured() -> None:
    nodes = zones("ab")
    nodes[1] = replace(nodes[1], taints=(Taint("dedicated", "x", "NoSchedule"),))
    assert refused(members(2, spread=(Spread(ZONE, 1, TRAIN),)), snapshot(nodes))
    assert placed(members(2, spread=(Spread(ZONE, 1, TRAIN, honors_taints=True),)), snapshot(nodes)) == ["n0", "n0"]


def test_a_domain_that_the_selector_leaves_out_counts_only_if_affinity_is_ignored() -> None:
    picky = Selection(node_selector=((ZONE, "a"),))

    def pods(*, honors: bool) -> list[Pod]:
        spread_pods = members(2, spread=(Spread(ZONE, 1, TRAIN, honors_affinity=honors),))
        return [replace(pod, selection=picky) for pod in spread_pods]

    assert placed(pods(honors=True), snapshot(zones("ab"))) == ["n0", "n0"]
    assert refused(pods(honors=False), snapshot(zones("ab")))


def test_pods_that_are_being_deleted_count_for_no_spread() -> None:
    leaving = single("old", node="n0", labels=(("app", "train"),), deleting=True)
    pods = members(1, spread=(Spread(ZONE, 1, TRAIN),))
    there = replace(leaving, deleting=False)
    assert placed(pods, snapshot(zones("a-"), leaving)) == ["n0"]
    assert placed(pods, snapshot(zones("ab"), there)) == ["n1"]
