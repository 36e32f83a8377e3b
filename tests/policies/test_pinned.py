"""Members that are pinned to one node each are seated first, and the others beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import CLIQUE, Constraints, HostPort, Requirement, Selection, Spread, Term, Topology
from policies.placement.pinned import placing_pinned
from policies.placement.place import Placed
from policies.steps import finish
from tests.builders import cluster, gang, single, snapshot

HOST = "kubernetes.io/hostname"
TRAIN = (Requirement("app", "In", ("train",)),)
APP = (("app", "train"),)


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(spread=(Spread(HOST, 1, TRAIN),)),
        Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),)),
        Constraints((HostPort(80),)),
        Constraints(affinity=(Term(CLIQUE, TRAIN, ("default",)),)),
    ],
    ids=["spread", "anti-affinity", "port", "affinity"],
)
def test_members_that_may_go_anywhere_are_placed_beside_those_that_may_not(constraints: Constraints) -> None:
    pods = gang("train", 4, gpus=1, labels=APP, constraints=constraints)
    for number in range(3):
        pin = Requirement("metadata.name", "In", (f"b-{number}",), is_field=True)
        pods[number] = replace(pods[number], selection=Selection(affinity=((pin,),)))
    other = single("other", gpus=4, node="a-0" if constraints.affinity else "b-0", labels=(("app", "other"),))
    view = snapshot(cluster("a: 1x8", "b: 4x8") if constraints.affinity else cluster("b: 4x8"), other)
    plan = finish(placing_pinned(pods, 4, view))
    assert isinstance(plan, Placed)
    assert plan.nodes[pods[3].uid].startswith("b-")
    assert constraints.affinity or plan.nodes[pods[3].uid] == "b-3"


@pytest.mark.parametrize("place", ["a", "b"])
def test_pinned_members_join_the_domain_that_their_gang_is_in_or_wait(place: str) -> None:
    bound, pod = gang("train", 2, topology=Topology(required="clique"))
    pin = Requirement("metadata.name", "In", (f"{place}-1",), is_field=True)
    pod = replace(pod, selection=Selection(affinity=((pin,),)))
    view = snapshot(cluster("a: 2x8", "b: 2x8"), replace(bound, node="a-0"))
    plan = finish(placing_pinned([pod], 1, view, beside=[(bound, "a-0"), (bound, "gone")]))
    assert isinstance(plan, Placed) is (place == "a")
