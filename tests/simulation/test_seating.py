"""The referee's own placement: which pods find room at once, and where."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Topology
from tests.builders import cluster, gang, node, single
from tests.simulation.seating import agree, seats
from tests.simulation.sight import left_over

CLIQUE = Topology(required="clique")


def test_a_member_that_an_edited_annotation_has_brought_in_confines_nobody_and_frees_nobody() -> None:
    nodes = {node.name: node for node in [*cluster("a: 2x8"), node("m", 8)]}
    room = left_over(nodes, ())
    confined = gang("train", 3, topology=CLIQUE)
    free = replace(single("other", gpus=8), group=confined[0].group)
    for pods in ([*confined, free], [free, *confined]):
        assert seats(nodes, room, pods, ()) == 3, "two in the clique, and the one that may be anywhere beside it"


def test_members_that_require_a_clique_join_those_that_do_and_no_others() -> None:
    nodes = {node.name: node for node in cluster("a: 1x8", "b: 3x8")}
    pods = gang("train", 4, topology=CLIQUE)
    for elsewhere in (pods[:1], [replace(pods[0], topology=Topology())]):
        bound = [replace(pod, node="a-0") for pod in elsewhere]
        seated = seats(nodes, left_over(nodes, bound), pods[1:], bound)
        assert seated == (0 if elsewhere[0].topology == CLIQUE else 3)


def test_members_that_say_different_minimums_do_not_agree() -> None:
    pods, (other,) = gang("train", 2), gang("train", 1, min_member=1)
    assert agree(pods)
    assert not agree([*pods, other])
