"""Members beyond the minimum of a gang are evicted one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import OwnerSeen
from policies.model import Dialect, GangOwner, GroupRef, Order
from tests.builders import cluster, gang, key
from tests.core.owned import owned, owner
from tests.core.preempting import Cluster, running

WEB = "statefulset-web"


def set_of_four(script: Cluster, owner: GangOwner) -> None:
    """A StatefulSet that runs, two of which are enough; its pods come in order where that says so."""
    podset = None if owner.podset is None else replace(owner.podset, minimum=2)
    script.feed(OwnerSeen(replace(owner, minimum=2, podset=podset)))
    pods = [owned(number) for number in range(4)]
    for batch in [pods] if podset is None else [[pod] for pod in pods]:
        script.see(batch)
        script.advance(0.5)
        script.run(batch)
    assert len(script.bound(pods)) == 4


def test_the_surplus_of_a_gang_gives_way_and_the_gang_runs_on() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 2, priority=10)
    script.see(urgent)
    script.advance(0.5)
    assert script.evicted == ["low-2", "low-3"]
    assert script.kept is not None
    assert [str(victim) for victim in script.kept.victims] == ["pod default/low-2", "pod default/low-3"]
    script.leave(*pods[2:])
    script.advance(0.5)
    assert sorted(script.planned(pod) for pod in urgent) == ["a-2", "a-3"]
    assert script.core.state.workloads[key("low")].has_bound_quorum


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
    ref = GroupRef("low", Dialect.ANNOTATION, 3, role="worker", minima=(("ps", 1), ("worker", 2)))
    pods = [replace(pod, group=ref) for pod in gang("low", 4)]
    pods[-1] = replace(pods[-1], group=ref._replace(role="ps"))
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


@pytest.mark.parametrize("order", [None, Order.ONE_BY_ONE])
def test_the_surplus_of_an_owner_gives_way_and_what_it_makes_anew_waits_for_room(order: Order | None) -> None:
    script = Cluster(*cluster("a: 4x8"))
    set_of_four(script, owner(4, order=order))
    urgent = gang("urgent", 1, priority=10)
    script.see(urgent)
    script.advance(0.5)
    (name,) = script.evicted
    assert name in ("web-2", "web-3"), "no more than is needed, and it goes on with the first two"
    node = script.pods[f"uid-{name}"].node
    script.leave(script.pods[f"uid-{name}"])
    again = replace(owned(int(name[-1])), uid=f"uid-{name}-again", created=script.now)
    script.see(again)
    script.advance(0.5)
    assert script.planned(urgent[0]) == node
    assert script.gang(WEB).has_bound_quorum
    script.run(urgent)
    script.leave(script.pods[urgent[0].uid])
    script.run([again])
    assert script.bound([again]) == [node], "it has grown back"


@pytest.mark.parametrize("order", [None, Order.ONE_BY_ONE])
def test_no_pod_of_an_owner_goes_alone_that_makes_all_of_them_anew_then(order: Order | None) -> None:
    script = Cluster(*cluster("a: 4x8"))
    set_of_four(script, owner(4, order=order, restarts=True))
    script.see(gang("urgent", 1, priority=10))
    script.advance(0.5)
    assert sorted(script.evicted) == ["web-0", "web-1", "web-2", "web-3"]
