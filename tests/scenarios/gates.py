"""Gangs that are gated at admission: planned while kube-scheduler does not know them, and ungated when placed."""

from __future__ import annotations

from policies.model import GANG_GATE
from tests.scenarios.pods import FOREIGN_GATE, bound, gated, interleaved, member, whole
from tests.scenarios.scenario import scenario, until_bound, until_reason
from tests.scenarios.stage import Stage


@scenario("job x 2: 4 of 4 bound", "job: 0 of 4 bound, 4 gated, NoRoom")
def gated_gangs_in_the_worst_order(stage: Stage) -> None:
    """4 gangs of 4 on 8 nodes, members created in turn; one that runs is deleted. Waiting gangs stay gated."""
    names = ["job.a", "job.b", "job.c", "job.d"]
    stage.add_nodes(8)
    stage.create(*interleaved([gated(name, 4) for name in names]))
    pods = stage.until(lambda pods: len(whole(pods, names, 4)) == 2)
    first, _ = whole(pods, names, 4)
    for name in names:
        if name not in whole(pods, names, 4):
            until_reason(stage, name, "NoRoom")
    stage.delete(*[f"{first}-{i}" for i in range(4)])


@scenario("big: 3 of 3 bound")
def filter_is_never_called_for_a_gang_without_a_placement(stage: Stage) -> None:
    """A gated gang of 3 on 2 nodes costs no call; when a node is added, one for each member."""
    stage.add_nodes(2)
    before = stage.filter_calls()
    stage.create(*gated("big", 3))
    until_reason(stage, "big", "NoRoom", "2 of 3 members fit at once")
    assert stage.filter_calls() == before
    stage.add_nodes(1)
    until_bound(stage, "big", 3)
    assert stage.filter_calls() == before + 3


@scenario("pair: 2 of 2 bound")
def a_gate_of_somebody_else(stage: Stage) -> None:
    """While one of 2 members has another gate too, no member starts, with that reason."""
    stage.add_nodes(2)
    first, second = gated("pair", 2)
    first["spec"]["schedulingGates"].append({"name": FOREIGN_GATE})
    stage.create(first, second)
    until_reason(stage, "pair", "Gated", "1 of 2 members are gated by example.com/quota")
    assert bound(stage.pods(), "pair") == []
    stage.open_gate("pair-0", FOREIGN_GATE)


@scenario("train: 48 of 48 bound")
def the_extender_killed_while_it_ungates(stage: Stage) -> None:
    """kill -9 at the first gate of 48 that is seen to come off, and a new start."""
    stage.add_nodes(6)
    stage.create_until(gated("train", 48, gpus=1), lambda pod: not pod.gates)
    stage.kill_extender()
    stage.start_extender()


@scenario("pair: 2 of 2 bound")
def a_gated_replacement(stage: Stage) -> None:
    """A member of a running gang is lost; its replacement is gated at admission, and ungated."""
    stage.add_nodes(2)
    stage.create(*gated("pair", 2))
    until_bound(stage, "pair", 2)
    stage.delete("pair-1")
    stage.create(member("pair-1b", "pair", 2, gates=(GANG_GATE,)))
