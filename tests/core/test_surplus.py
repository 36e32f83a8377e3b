"""Members beyond the minimum of a gang give way one by one."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Dialect, GroupRef
from tests.builders import cluster, gang, key
from tests.core.preempting import Cluster, running


def test_the_surplus_of_a_gang_gives_way_and_the_gang_runs_on() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 2, priority=10)
    script.see(urgent)
    script.advance(0.5)
    assert script.evicted == ["low-2", "low-3"]
    assert script.kept is not None
    assert [str(one) for one in script.kept.victims] == ["pod default/low-2", "pod default/low-3"]
    script.leave(*pods[2:])
    script.advance(0.5)
    assert sorted(script.planned(pod) for pod in urgent) == ["a-2", "a-3"]
    assert script.core.state.workloads[key("low")].whole


def test_a_gang_goes_with_its_surplus_where_that_alone_makes_too_little_room() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 3, priority=10)
    script.see(urgent)
    script.advance(0.5)
    assert sorted(script.evicted) == [pod.name for pod in pods]


def test_no_surplus_goes_of_which_the_gang_needs_a_member_by_then() -> None:
    """A member is lost between the decision and the moment when it is known to be written down."""
    script = Cluster(*cluster("a: 4x8"), writes=False)
    pods = running(script, "low", 4, least=3)
    urgent = gang("urgent", 1, priority=10)
    script.see(urgent)
    script.advance(0.5)
    script.gone(script.pods[pods[0].uid])
    script.write(script.written[-1])
    assert not script.evicted
    script.advance(0.5)
    assert script.planned(urgent[0]) == "a-0"


def test_the_surplus_of_a_gang_keeps_the_least_of_each_role() -> None:
    script = Cluster(*cluster("a: 4x8"))
    said = GroupRef("low", Dialect.ANNOTATION, 3, role="worker", minima=(("ps", 1), ("worker", 2)))
    pods = [replace(pod, group=said) for pod in gang("low", 4)]
    pods[-1] = replace(pods[-1], group=said._replace(role="ps"))
    script.see(pods)
    script.advance(0.5)
    script.run(pods)
    script.see(gang("urgent", 1, priority=10))
    script.advance(0.5)
    assert script.evicted == ["low-2"]


def test_after_a_restart_a_surplus_goes_that_is_one_still() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 2, priority=10)
    script.see(urgent)
    script.leave(pods[3])
    left = [script.pods[pod.uid] for pod in (*pods[:3], *urgent)]
    again = Cluster(*cluster("a: 4x8"), *left)
    again.advance(1)
    assert again.evicted == ["low-2"]
    fewer = Cluster(*cluster("a: 4x8"), *left[1:])
    fewer.advance(1)
    assert not fewer.evicted, "the gang runs with two, and needs both"
    assert sorted(map(fewer.planned, urgent)) == ["a-0", "a-3"]
