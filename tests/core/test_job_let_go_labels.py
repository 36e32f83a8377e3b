"""Jobs that are let go and say nothing of nodes: the labels of their flavors are written for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import PodSet, Selection, Taint, Toleration, Topology
from tests.core.jobs import template
from tests.core.let_go import GATED, come, naming_only_its_queue, stop, ungate
from tests.core.queues import FLAVOR, show, sort, used
from tests.core.test_elastic import SPOT, of, scene


def test_one_that_names_only_its_queue_asks_for_the_nodes_of_its_flavor() -> None:
    script = scene(served=False)
    first = come(script, naming_only_its_queue())
    (start,) = first.starts
    assert (start.let_go is not None, start.labels) == (True, {"": ((FLAVOR, "spot"),)})
    pods = first.create(gates=GATED, selection=Selection(((FLAVOR, "spot"),), tolerations=(SPOT,)))
    ungate(script)
    script.see(*of("owned", 2, first=1), *of("spot", 1))
    first.wait(0.5)
    assert (len(first.starts), script.reason("first")) == (1, "AwaitingNodes"), "no nodes of another flavor"
    script.see(*of("spot", 1, first=1))
    first.wait(0.5)
    start = first.starts[-1]
    assert (start.let_go, start.labels, set(start.plan[""])) == (None, {}, {"spot-0", "spot-1"})
    script.run(pods)
    first.wait(0.5)
    assert sorted(script.bound(pods)) == ["spot-0", "spot-1"]


def test_a_flavor_without_labels_asks_for_nothing() -> None:
    script = scene(served=False)
    show(script, replace(sort("spot"), node_labels={}, tolerations=(SPOT,)))
    first = come(script, naming_only_its_queue())
    (start,) = first.starts
    assert (start.let_go is not None, start.labels) == (True, {})


def test_one_whose_pods_come_without_them_is_taken_back_and_rests() -> None:
    script = scene(served=False)
    first = come(script, naming_only_its_queue())
    first.create(gates=GATED, selection=Selection(tolerations=(SPOT,)), created=script.now)
    first.settle()
    (why,) = first.stops
    assert "for nodes of spot its pods need the nodeSelector nvidia.com/flavor=spot" in why
    assert "is the component job-admission installed as this version of Muster has it?" in why
    assert ungate(script) == []
    stop(first)
    first.wait(35)
    assert (len(first.starts), used(script, "team", "spot")) == (1, 0)
    first.wait(20)
    assert (len(first.starts), used(script, "team", "spot")) == (2, 16)


def test_a_pod_of_an_earlier_start_that_is_seen_late_does_not_end_it() -> None:
    script = scene(served=False)
    script.advance(60)
    first = come(script, naming_only_its_queue())
    first.create(selection=Selection(tolerations=(SPOT,)))
    assert (first.stops, script.reason("first")) == ([], "AwaitingNodes")


@pytest.mark.parametrize("tolerations", [(), (SPOT,)])
def test_pods_that_cannot_be_in_one_clique_with_the_nodes_that_come_are_part_of_the_reason(
    tolerations: tuple[Toleration, ...],
) -> None:
    """They need no quota, and so they get no flavor."""
    script = scene(served=False)
    show(script, replace(sort("spot"), taints=(Taint("spot", "", "NoSchedule"),), tolerations=(SPOT,)))
    asked = naming_only_its_queue()
    (workers,) = asked.podsets.podsets
    clique = Topology("clique")
    launcher = replace(template("first", 0, "launcher"), topology=clique, selection=Selection(tolerations=tolerations))
    workers = replace(workers, template=replace(workers.template, topology=clique))
    first = come(script, replace(asked, podsets=replace(asked.podsets, podsets=(workers, PodSet(launcher, 1, 1)))))
    first.create()
    script.advance(901)
    first.settle()
    (why,) = first.stops
    assert "not enough came within 900 s" in why
    said = "the pods of launcher have to share one clique with those on nodes of spot, and need tolerations"
    assert (said in why) is not bool(tolerations)


def test_each_podset_asks_for_the_nodes_of_its_own_flavor() -> None:
    script = scene(served=False)
    asked = naming_only_its_queue()
    other = replace(template("first", series="1-small"), selection=Selection(((FLAVOR, "owned"),)))
    podsets = (*asked.podsets.podsets, PodSet(other, 1, 1))
    first = come(script, replace(asked, podsets=replace(asked.podsets, podsets=podsets)))
    (start,) = first.starts
    assert start.labels == {"": ((FLAVOR, "spot"),), "1-small": ((FLAVOR, "owned"),)}
