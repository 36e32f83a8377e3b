"""Elastic flavors for gangs of pods: gates come off without a plan, so that an autoscaler sees what the pods lack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import Ungated
from extender.core.effects import Nominate, Ungate
from extender.core.events import CapacityServed, PodSeen, QueueSeen
from extender.core.limits import Limits
from policies.model import GANG_GATE, Pod, Selection, Taint
from policies.model.queues import Stop
from tests.core.queues import FLAVOR, cluster_queue, in_queue, leave, show, sort, used
from tests.core.queues import come as come_pods
from tests.core.script import Script
from tests.core.test_elastic import LIMITS, SPOT, come, of, scene

ON_SPOT = Selection(((FLAVOR, "spot"),), tolerations=(SPOT,))


def gated(name: str, size: int = 2, **facts: Any) -> list[Pod]:
    return in_queue(name, size, **{"gates": (GANG_GATE,), "selection": ON_SPOT, **facts})


def ungated(script: Script) -> list[str]:
    """The gates that were to come off without a plan, and do."""
    ungated_uids = [effect.uid for effect in script.effects if isinstance(effect, Ungate)]
    script.effects.clear()
    for uid in ungated_uids:
        script.feed(Ungated(uid))
        script.pods[uid] = replace(script.pods[uid], gates=())
        script.feed(PodSeen(script.pods[uid]))
    return ungated_uids


def test_a_gang_with_quota_and_no_nodes_is_started_without_nodes_as_a_whole_and_starts_on_the_nodes_that_come() -> None:
    script = scene(served=False)
    pods = gated("gang")
    come_pods(script, pods)
    assert ungated(script) == [pod.uid for pod in pods]
    assert script.reason("gang") == "AwaitingNodes"
    assert "its 2 pods are pending without a plan" in script.message("gang")
    assert used(script, "team", "spot") == 16
    assert [script.filter(pod) for pod in pods] == [(), ()]
    assert not script.core.capacity_asks()
    script.see(*of("spot", 1))
    script.advance(0.5)
    assert [script.filter(pod) for pod in pods] == [(), ()], "all or none"
    script.see(*of("spot", 1, first=1))
    script.advance(0.5)
    nominated = {effect.node for effect in script.effects if isinstance(effect, Nominate)}
    assert nominated == {"spot-0", "spot-1"}, "which wakes them, as they were refused"
    script.bind_all(pods)
    script.post_all()
    assert len(script.bound(pods)) == 2
    assert used(script, "team", "spot") == 16


def test_a_replacement_of_a_pod_that_was_ungated_without_a_plan_is_ungated_too() -> None:
    script = scene(served=False)
    pods = gated("gang")
    come_pods(script, pods)
    ungated(script)
    script.gone(script.pods[pods[0].uid])
    again = replace(pods[0], uid="again", name="again")
    come_pods(script, [again])
    assert ungated(script) == ["again"]
    script.advance(5)
    assert not ungated(script), "once"


def test_nobody_else_gets_its_quota_until_its_nodes_are_too_late() -> None:
    script = scene()
    come_pods(script, gated("gang"))
    ungated(script)
    other = come(script, "job")
    assert "it is used by default/gang (16)" in script.message("job")
    script.advance(901)
    other.wait(0.5)
    assert [ask.key.name for ask in script.core.capacity_asks()] == ["job"]
    other.gone()
    script.advance(0.5)
    assert script.reason("gang") == "NoRoom"
    assert (
        "nodes of spot were requested and did not come: not enough joined within 900 s; it asks again 60 s"
        in script.message("gang")
    )
    assert used(script, "team", "spot") == 0
    script.advance(70)
    assert script.reason("gang") == "AwaitingNodes"
    assert used(script, "team", "spot") == 16
    assert not ungated(script), "a gate that is off stays off"


def test_members_that_come_later_are_started_without_nodes_with_the_others() -> None:
    script = scene(spot=24)
    pods = gated("gang", 3, min_member=2)
    come_pods(script, pods[:2])
    assert len(ungated(script)) == 2
    come_pods(script, pods[2:])
    assert ungated(script) == [pods[2].uid]
    assert used(script, "team", "spot") == 24


@pytest.mark.parametrize(
    ("selection", "needs"),
    [
        (Selection(tolerations=(SPOT,)), "its pods need the nodeSelector nvidia.com/flavor=spot"),
        (Selection(((FLAVOR, "spot"),)), "its pods need the nodeSelector nvidia.com/flavor=spot"),
    ],
)
def test_pods_that_an_autoscaler_would_make_other_nodes_for_await_none(selection: Selection, needs: str) -> None:
    script = scene()
    flavor = replace(sort("spot"), taints=(Taint("spot", "", "NoSchedule"),), tolerations=(SPOT,))
    script.feed(QueueSeen(flavor))
    come_pods(script, gated("gang", selection=selection))
    assert not ungated(script)
    assert script.reason("gang") == "NoRoom"
    assert needs in script.message("gang")
    assert "tolerations of its taints" in script.message("gang")
    assert used(script, "team", "spot") == 0
    come_pods(script, gated("other"))
    assert len(ungated(script)) == 2


def test_without_quota_of_an_elastic_flavor_no_workload_awaits_nodes() -> None:
    for script in (scene(spot=8), scene(limits=Limits())):
        come_pods(script, gated("gang"))
        assert not ungated(script)
        assert used(script, "team", "spot") == 0
    script = Script(*of("owned", 1), limits=LIMITS)
    come_pods(script, [replace(pod, queue="") for pod in gated("gang")])
    assert not ungated(script)


def test_a_gang_whose_pods_go_or_whose_queue_stops_keeps_no_quota() -> None:
    script = scene()
    pods = gated("gang")
    come_pods(script, pods)
    stopped = replace(cluster_queue("team", {"owned": 8, "spot": 16}), stop=Stop.HOLD)
    show(script, stopped)
    script.advance(0.5)
    assert used(script, "team", "spot") == 0
    show(script, replace(stopped, stop=Stop.NONE))
    script.advance(0.5)
    assert used(script, "team", "spot") == 16
    script.feed(CapacityServed(served=False))
    script.advance(0.5)
    assert used(script, "team", "spot") == 16, "it has not asked by a ProvisioningRequest"
    leave(script, pods)
    assert used(script, "team", "spot") == 0


def test_nodes_that_are_there_are_enough_for_a_gang_and_its_gates_come_off_by_its_plan() -> None:
    script = scene(*of("spot", 2))
    pods = gated("gang")
    come_pods(script, pods)
    assert {script.planned(pod) for pod in pods} == {"spot-0", "spot-1"}
    assert script.reason("gang") != "AwaitingNodes"
