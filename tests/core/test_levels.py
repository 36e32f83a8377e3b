"""Levels of a live table: found by the labels of the nodes, nested, and torn apart where labels contradict that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.ledger.claims import Claims
from extender.observe.topology import levels_line, topology
from policies.model import CLIQUE, Node
from policies.model.levels import levels_from
from tests.builders import cluster, node

BLOCK = "cloud.google.com/gce-topology-block"
ZONE = "topology.kubernetes.io/zone"


def claims(nodes: list[Node], *entries: str) -> Claims:
    claims_made = Claims(levels_from(entries))
    for machine in nodes:
        claims_made.set_node(machine)
    return claims_made


def labelled(name: str, **labels: str) -> Node:
    return node(name, labels=labels)


def domains(claims_given: Claims, name: str) -> dict[str, str]:
    return dict(claims_given.domains(name))


def test_levels_follow_the_labels_that_nodes_have() -> None:
    claims_made = claims(cluster("a: 2x8"))
    assert [level.key for level in claims_made.snapshot().levels] == [CLIQUE]
    claims_made.set_node(node("z", labels={ZONE: "z1", BLOCK: "b1"}))
    assert [level.key for level in claims_made.snapshot().levels] == [CLIQUE, BLOCK, ZONE]
    claims_made.drop_node("z")
    assert [level.key for level in claims_made.snapshot().levels] == [CLIQUE]


def test_domains_nest_by_the_labels_of_their_nodes() -> None:
    here = [labelled("x", rack="r1", row="w1"), labelled("y", rack="r1"), labelled("z", rack="r2", row="w1")]
    rack, row = claims(here, "rack", "row").snapshot().levels
    assert {rack.names[code]: row.names[up] for code, up in enumerate(rack.above[0])} == {"r1": "w1", "r2": "w1"}
    assert rack.torn == row.torn == ()


@pytest.mark.parametrize("entries", [("rack", "row"), ("rack", "row", "hall")])
def test_a_value_in_two_farther_domains_is_two_domains_and_said_to_be_a_contradiction(entries: tuple[str, ...]) -> None:
    here = [
        labelled("p", rack="r1", row="w1", hall="h"),
        labelled("q", rack="r1", row="w2", hall="h"),
        labelled("r", rack="r1", hall="h"),
        labelled("s", rack="r2", row="w2", hall="h"),
    ]
    claims_made = claims(here, *entries)
    assert [domains(claims_made, name)["rack"] for name in "pqrs"] == ["r1 in w1", "r1 in w2", "r1", "r2"]
    view = topology(claims_made.snapshot(), configured=True)
    assert view.levels[0].contradictions == ["r1"]
    assert "CONTRADICTION: r1" in levels_line(view)
    claims_made.set_node(replace(claims_made.nodes["p"], labels={"rack": "r1", "row": "w2"}))
    assert [domains(claims_made, name)["rack"] for name in "pqrs"] == ["r1", "r1", "r1", "r2"]


def test_an_empty_value_names_no_domain() -> None:
    claims_made = claims([labelled("x", rack=""), labelled("y", rack=""), labelled("z", rack="r1")], "rack")
    assert [domains(claims_made, name) for name in "xyz"] == [{}, {}, {"rack": "r1"}]
    assert topology(claims_made.snapshot(), configured=True).levels[0].outside == 2


def test_the_page_shows_levels_domains_and_nodes() -> None:
    here = [labelled("x", rack="r1", row="w1"), labelled("y", rack="r1", row="w1"), labelled("z", row="w2")]
    view = topology(claims(here, "rack", "row").snapshot(), configured=True)
    rack, row = view.levels
    assert [(domain.name, domain.nodes, domain.inside) for domain in rack.domains] == [("r1", 2, "w1")]
    assert rack.outside == 1
    assert [(domain.name, domain.nodes, domain.inside) for domain in row.domains] == [("w1", 2, None), ("w2", 1, None)]
    assert levels_line(view) == (
        "topology levels, configured, nearest first: rack (rack): 1 domains of 2 nodes, 1 nodes in none; "
        "row (row): 2 domains of 1 to 2 nodes"
    )
