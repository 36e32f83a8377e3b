"""Gangs by their owner: how its controller makes their pods, how the referee counts them, and which seeds have them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Milestone
from extender.core.engine import Engine
from extender.core.events import OwnerGone, OwnerSeen, PodGone, PodSeen, Synced, Tick
from policies.model import GroupKey, Order, Pod, Stamp
from tests.builders import cluster, gang, requests
from tests.simulation.drawing import draw
from tests.simulation.lives import Life, nomination, reached
from tests.simulation.model.owner import LWS, REPLICA_SET, STATEFUL_SET, OwnerObject
from tests.simulation.model.world import World
from tests.simulation.owner_plan import has_owners
from tests.simulation.room import judge_kept_in_vain
from tests.simulation.sight import Sight, look

KEY = GroupKey("default", "statefulset-web")
TEMPLATE = Pod("", "default", "web", requests(8), owner="uid-web")
IN_ORDER = OwnerObject(KEY, "uid-web", STATEFUL_SET, TEMPLATE, 3, Order.ONE_BY_ONE)


def pods(owner: OwnerObject, count: int, group: int = 0) -> list[Pod]:
    return [owner.pod(group, number, number, 0.0) for number in range(count)]


def sight(owner: OwnerObject, count: int, *, bound: int = 0) -> Sight:
    there = pods(owner, count)
    there = [replace(pod, node="a-0") if at < bound else pod for at, pod in enumerate(there)]
    return look(there, {}, owners={owner.key: owner.shown()})


def test_the_first_of_those_that_come_in_order_starts_alone_and_needs_room_for_all() -> None:
    first = sight(IN_ORDER, 1)
    assert (first.needed, first.lacking, len(first.least)) == (1, 3, 3)
    assert first.complete
    assert first.enough(first.live)
    assert sight(replace(IN_ORDER, least=2), 1).lacking == 2
    assert sight(IN_ORDER, 2, bound=1).lacking == 0
    assert len(sight(IN_ORDER, 2, bound=1).coming) == 1


def test_all_of_those_that_come_at_once_start_together() -> None:
    together = replace(IN_ORDER, order=Order.TOGETHER)
    assert (sight(together, 2).needed, sight(together, 2).complete, sight(together, 3).complete) == (3, False, True)
    assert sight(together, 3, bound=2).partial


def test_a_group_says_its_size_itself_unless_its_owner_does() -> None:
    key = GroupKey("default", "leaderworkerset-web")
    owner = replace(IN_ORDER, key=key, kind=LWS, order=Order.TOGETHER, groups=2)
    assert look(pods(owner, 2, group=1), {}, owners={key: owner.shown()}).needed == 3
    assert look(pods(owner, 2, group=1), {}, owners={key: replace(owner, least=2).shown()}).needed == 2


def test_a_gang_is_whole_when_its_owner_wants_no_more_than_are_bound_whatever_it_wants_later() -> None:
    owner = replace(IN_ORDER, order=Order.TOGETHER)
    first, second, _ = members = pods(owner, 3)
    life = Life(*cluster("a: 3x8"))
    life.tell(OwnerSeen(owner.shown()))
    life.see(*members)
    for pod in (first, second):
        life.bind(pod, "a-0")
    life.see(replace(first, node="a-0"))
    assert KEY not in life.claims.releases.whole
    life.tell(OwnerSeen(replace(owner, replicas=1).shown()))
    life.tell(OwnerSeen(owner.shown()))
    assert KEY in life.claims.releases.whole


@pytest.mark.parametrize(("nodes", "late"), [("a: 2x8", False), ("a: 3x8", True)])
def test_one_in_order_is_late_when_all_of_it_has_room(nodes: str, *, late: bool) -> None:
    life = Life(*cluster(nodes))
    life.shown.watch(OwnerSeen(IN_ORDER.shown()))
    life.see(pods(IN_ORDER, 1))
    life.now += 10
    assert life.late() is late


def test_pods_of_an_owner_that_is_gone_go_by_its_last_word() -> None:
    life = Life()
    life.shown.watch(OwnerSeen(IN_ORDER.shown()))
    life.see(pods(IN_ORDER, 1))
    life.shown.watch(OwnerGone(KEY, "uid-web"))
    now, before = life.shown.sight(KEY), life.shown.sight(KEY, former=True)
    assert now is not None
    assert before is not None
    assert (now.needed, before.needed) == (None, 1)


class Controlled:
    """An owner in a cluster with room, and with Muster."""

    def __init__(self, owner: OwnerObject, nodes: str = "a: 4x8") -> None:
        self.world = World(7, cluster(nodes), Engine)
        self.world.api.set_owner(owner)
        self.wait()

    def wait(self, seconds: float = 30.0) -> None:
        clock = self.world.clock
        until = clock.now + seconds
        while clock.step(until):
            pass
        clock.now = until

    def scale(self, replicas: int) -> None:
        (owner,) = self.world.api.owners.values()
        self.world.api.set_owner(replace(owner, replicas=replicas))
        self.wait()

    @property
    def running(self) -> list[str]:
        return sorted(pod.name for pod in self.world.api.pods.values() if pod.phase == "Running")

    def born(self) -> list[float]:
        return sorted(pod.created for pod in self.world.api.pods.values())


def test_in_order_each_pod_is_made_when_the_one_before_it_runs() -> None:
    web = Controlled(IN_ORDER)
    assert web.running == [f"statefulset-web-{number}" for number in range(3)]
    first, second, third = web.born()
    assert min(second - first, third - second) > 1.0
    at_once = Controlled(replace(IN_ORDER, order=Order.TOGETHER)).born()
    assert at_once[-1] - at_once[0] < 1.0


def test_lost_pods_are_made_again_and_surplus_ones_go() -> None:
    web = Controlled(IN_ORDER)
    before = {pod.uid for pod in web.world.api.pods.values()}
    web.world.api.delete_pod(next(iter(before)))
    web.wait()
    assert len(web.running) == 3
    assert len({pod.uid for pod in web.world.api.pods.values()} - before) == 1
    web.scale(1)
    assert web.running == ["statefulset-web-0"]
    web.scale(4)
    assert len(web.running) == 4
    web.world.owners.delete(web.world.owners.running[0])
    web.wait()
    assert not web.world.api.pods


def test_a_group_that_has_lost_a_pod_is_made_anew_as_a_whole() -> None:
    key = GroupKey("default", "leaderworkerset-web")
    groups = replace(IN_ORDER, key=key, kind=LWS, order=Order.LEADER_FIRST, replicas=2, groups=2)
    web = Controlled(groups)
    before = {pod.uid: pod for pod in web.world.api.pods.values()}
    lost = next(pod for pod in before.values() if pod.series.endswith("1") and pod.index)
    web.world.api.delete_pod(lost.uid)
    web.wait()
    assert len(web.running) == 4
    kept = before.keys() & web.world.api.pods.keys()
    assert {before[uid].series for uid in kept} == {"000000000"}
    assert len(kept) == 2


def test_pods_of_a_replica_set_have_no_number() -> None:
    key = GroupKey("default", "replicaset-web")
    web = Controlled(replace(IN_ORDER, key=key, kind=REPLICA_SET, order=Order.TOGETHER))
    assert {pod.index for pod in web.world.api.pods.values()} == {None}
    web.scale(2)
    assert len(web.running) == 2


def test_seeds_with_owners_have_each_kind_in_each_order_and_some_are_calm() -> None:
    plans = [draw(seed) for seed in range(1, 1500) if has_owners(seed)]
    owners = [owner for plan in plans for _, owner in plan.owners]
    pairs = {(owner.kind, owner.order) for owner in owners}
    assert pairs == {
        (STATEFUL_SET, Order.TOGETHER),
        (STATEFUL_SET, Order.ONE_BY_ONE),
        (REPLICA_SET, Order.TOGETHER),
        (LWS, Order.TOGETHER),
        (LWS, Order.LEADER_FIRST),
    }
    assert any(plan.calm for plan in plans)
    assert any(owner.least for owner in owners)
    assert any(owner.leader for owner in owners)
    assert not any(draw(seed).owners for seed in range(1, 13))


def test_pods_whose_owner_is_gone_keep_their_room_while_as_many_are_there_as_it_said() -> None:
    owner = OwnerObject(KEY, "uid-web", REPLICA_SET, TEMPLATE, 2, Order.TOGETHER)
    members = pods(owner, 2)
    life = Life(*cluster("a: 2x8"))
    life.tell(OwnerSeen(owner.shown()))
    life.see(*members)
    life.tell(Tick(), *(nomination(pod, f"a-{at}") for at, pod in enumerate(members)))
    life.tell(OwnerGone(owner.key, owner.uid))
    assert judge_kept_in_vain(PodSeen(members[0]), life.shown, life.claims) is None
    going = PodSeen(replace(members[1], deleting=True))
    life.tell(going)
    complaint = judge_kept_in_vain(PodSeen(members[0]), life.shown, life.claims)
    assert complaint == f"{KEY} is promised room, and 1 of 2 members exist"


@pytest.mark.parametrize("how", ["fail", "are gone"])
@pytest.mark.parametrize("ends", [True, False])
def test_room_of_a_gang_that_its_owner_makes_again_may_be_kept_while_none_of_it_is_left(
    how: str, *, ends: bool
) -> None:
    """Seed 547: promised pods of a group were deleted after its only bound pod had failed."""
    owner = OwnerObject(KEY, "uid-web", STATEFUL_SET, TEMPLATE, 3, Order.TOGETHER)
    life = Life(*cluster("a: 3x8"))
    life.tell(OwnerSeen(owner.shown()))
    *running, promised = pods(owner, 3)
    life.see(*running, promised)
    for at, pod in enumerate(running):
        life.bind(pod, f"a-{at}")
        life.see(replace(pod, node=f"a-{at}"))
    life.tell(Tick(), nomination(promised, "a-2"))
    life.tell(OwnerSeen(replace(owner.shown(), ends=ends)))
    for at, pod in enumerate(running):
        life.tell(PodSeen(replace(pod, node=f"a-{at}", phase="Failed")) if how == "fail" else PodGone(pod.uid))
    life.tell(Tick(), reached(promised, Milestone.FORGOTTEN), nomination(promised, None))
    rival = gang("rival", 3)
    life.see(rival)
    assert life.late() is ends
    life.now += 60
    life.tell(Tick())
    assert life.late()


@pytest.mark.parametrize("ends", [True, False])
def test_a_replacement_that_loses_its_node_with_the_last_pod_may_leave_it_to_the_gang_made_again(*, ends: bool) -> None:
    """Seed 40267: the gang had one pod more than it needed, which was in no plan of its start."""
    owner = OwnerObject(GroupKey("default", "leaderworkerset-web"), "uid-web", LWS, TEMPLATE, 2, Order.TOGETHER)
    first, last, surplus, *new = [owner.pod(0, number, number, 0.0) for number in range(5)]
    stamp = Stamp("g", "r", complete=True, quorum=2, size=2, at=0.0)
    life = Life(*cluster("a: 2x8"), gang("urgent", 2, priority=10))
    life.tell(OwnerSeen(replace(owner.shown(), ends=ends)))
    life.tell(Synced())
    life.see(first, last, surplus)
    started = [nomination(pod, f"a-{at}") for at, pod in enumerate((first, last))]
    life.tell(Tick(), *started, reached(first, Milestone.PLANNED))
    life.now += 2.0
    bound = [replace(pod, node=f"a-{at}", stamp=stamp) for at, pod in enumerate((first, last))]
    life.see(*bound, replace(bound[0], phase="Failed"))
    life.now += 1.0
    life.tell(Tick(), nomination(surplus, "a-0"), reached(surplus, Milestone.PLANNED))
    life.tell(PodSeen(replace(bound[1], phase="Failed")), reached(surplus, Milestone.FORGOTTEN))
    for pod in first, last, surplus:
        life.tell(PodGone(pod.uid))
    life.see(*new)
    life.now += 1.0
    promised = [nomination(pod, f"a-{at}") for at, pod in enumerate(new)]
    complaints = life.tell(Tick(), *promised, reached(new[0], Milestone.PLANNED))
    assert bool(complaints) is ends
    assert all("default/urgent, of priority 10, could have started" in complaint for complaint in complaints)
