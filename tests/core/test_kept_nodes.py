"""Nodes of elastic flavors stay while somebody is promised them who is not there yet."""

from __future__ import annotations

from extender.core.jobs.elastic import kept_nodes
from extender.core.limits import Limits
from tests.core.queues import come as come_pods
from tests.core.queues import in_queue
from tests.core.script import Script
from tests.core.test_elastic import come, of, scene


def kept(script: Script) -> list[str]:
    return sorted(kept_nodes(script.core.state))


def test_the_nodes_of_a_job_are_kept_from_its_plan_on_until_its_pods_are_there() -> None:
    script = scene(*of("owned", 1), *of("spot", 3))
    assert not kept(script)
    first = come(script, "first")
    planned = sorted(first.starts[0].plan[""])
    assert kept(script) == planned
    assert len(planned) == 2
    pods = first.create()
    script.bind_all(pods)
    script.post(pods[0])
    assert kept(script) == [script.planned(pods[1])]
    script.post(pods[1])
    assert not kept(script)


def test_so_are_those_of_a_gang_of_pods_and_those_of_a_plan_that_is_gone_are_not() -> None:
    script = scene(*of("owned", 1), *of("spot", 2))
    pods = in_queue("gang", 2)
    come_pods(script, pods)
    assert kept(script) == ["spot-0", "spot-1"]
    script.gone(pods[0])
    assert not kept(script)


def test_nodes_of_other_flavors_are_nobodys_to_take_away() -> None:
    script = scene(*of("owned", 2), *of("spot", 1), owned=16)
    assert len(come(script, "first").starts) == 1
    assert not kept(script)
    without = scene(*of("spot", 2), limits=Limits())
    assert len(come(without, "first").starts) == 1
    assert not kept(without)
