"""Topologies that flavors name: their levels are levels of Muster, or the queue says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import QueueGone, QueueSeen
from extender.core.explain.reports import QueueReports
from policies.chosen import OURS
from policies.model import Node, Topology
from policies.model.levels import levels_from
from policies.model.queues import TopologyObject
from tests.builders import key, node
from tests.core.levels import asking
from tests.core.queues import FLAVOR, cluster_queue, come, flavor, in_queue, planned, reason, show, sort
from tests.core.script import Script

RACK, ROW = "example.com/rack", "example.com/row"


def rows() -> list[Node]:
    """Two racks of two nodes each, in one row."""
    return [node(f"n{at}", 8, labels={RACK: f"r{at // 2}", ROW: "w"}) for at in range(4)]


def racked(script: Script, *levels: str) -> None:
    show(script, replace(flavor("gpus"), topology="racks"), cluster_queue("team", {"gpus": 64}))
    script.feed(QueueSeen(TopologyObject("racks", levels)))


@pytest.mark.parametrize("level", [RACK, "rack"])
def test_the_levels_of_a_topology_that_a_flavor_names_are_levels_of_muster(level: str) -> None:
    script = Script(*rows())
    come(script, asking(in_queue("before", 2), Topology(required=level)))
    assert reason(script, "before").code == "UnknownTopology"
    racked(script, ROW, RACK, "kubernetes.io/hostname")
    script.advance(0.5)
    assert [level.key for level in script.core.state.claims.snapshot().levels] == [RACK, ROW]
    assert planned(script, "before") == 2
    racks = {"01".count(name[1]) for name in script.core.state.workloads[key("before")].placement.values()}
    assert len(racks) == 1
    come(script, asking(in_queue("four", 3), Topology(required=level)))
    assert "best has 2 free nodes" in reason(script, "four").message
    script.feed(QueueGone(TopologyObject("racks", (ROW, RACK, "kubernetes.io/hostname"))))
    racked(script, ROW)
    script.advance(5.0)
    assert "unknown topology level" in reason(script, "four").message


def _in_two_flavors(script: Script, first: int = 64) -> None:
    show(script, sort("a"), sort("b"), cluster_queue("team", {"a": first, "b": 64}))


@pytest.mark.parametrize("first", [64, 0], ids=["both have quota", "one has none"])
@pytest.mark.parametrize("topology", [Topology(required="galaxy"), Topology(preferred="galaxy")])
def test_an_unknown_level_is_what_is_wrong_with_every_flavor(topology: Topology, first: int) -> None:
    nodes = [replace(node, labels={**node.labels, FLAVOR: name}) for node, name in zip(rows(), "aabb", strict=True)]
    script = Script(*nodes)
    _in_two_flavors(script, first)
    come(script, asking(in_queue("lost", 2), topology))
    assert reason(script, "lost").code == "UnknownTopology"
    assert 'unknown topology level "galaxy"' in reason(script, "lost").message


def test_an_unknown_level_is_what_is_wrong_with_a_gang_that_may_start_with_fewer() -> None:
    script = Script(*rows())
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    come(script, asking(in_queue("lost", 4, min_member=2), Topology(required="galaxy")))
    assert reason(script, "lost").code == "UnknownTopology"


def test_where_one_flavor_lacks_room_that_is_the_reason() -> None:
    script = Script(*(replace(node, labels={**node.labels, FLAVOR: "a"}) for node in rows()))
    _in_two_flavors(script)
    come(script, in_queue("large", 5))
    assert reason(script, "large").code == "NoRoom"


def warnings_of(script: Script) -> tuple[str, ...]:
    reports = script.core.state.make(QueueReports, policy=OURS.queue).all()
    return reports["ClusterQueue", "", "team"].warnings


def test_levels_of_a_topology_that_a_setting_does_not_have_are_a_warning() -> None:
    script = Script(*rows(), levels=levels_from([RACK]))
    racked(script, ROW, RACK, "kubernetes.io/hostname")
    come(script, asking(in_queue("first", 2), Topology(required=ROW)))
    assert "unknown topology level" in reason(script, "first").message
    (warning,) = warnings_of(script)
    assert f"Topology racks: {ROW}: not in the setting topology_levels" in warning


@pytest.mark.parametrize("settings", [(RACK, ROW), ()])
def test_a_topology_that_has_levels_the_other_way_round_is_a_warning(settings: tuple[str, ...]) -> None:
    script = Script(*rows(), levels=levels_from(settings))
    racked(script, RACK, ROW)
    if not settings:
        show(script, replace(flavor("others"), topology="others"))
        script.feed(QueueSeen(TopologyObject("others", (ROW, RACK))))
    come(script, in_queue("first", 2))
    (warning,) = warnings_of(script)
    assert warning.startswith(f"Topology racks: {RACK} is farther than {ROW}, and ")
    racked(script, ROW, RACK)
    script.advance(0.5)
    assert warnings_of(script) == ()
