"""The feed's changes: put together they are the picture that the extender's own API shows, whatever has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant

from dashboard.cluster import Cluster
from dashboard.feed import joined
from extender.api.feed import Update
from extender.core.engine import Engine
from extender.core.limits import Limits
from extender.observe.changes import QUEUES_S, ROUND_S, Changes, node_view
from extender.observe.topology import domains
from extender.observe.utilisation import UNASKED, Load, Loads, Measured, Utilisation
from extender.observe.views import marked, view
from tests.builders import cluster, gang, single
from tests.core.backfilling import Backlog
from tests.core.compute_domains import in_domain, racks
from tests.core.script import Script
from tests.core.test_machine import Cluster as Machine

WALL = 1_796_000_000.0


class Follower:
    """The extender's end and the dashboard's picture, without a network between them."""

    def __init__(self, core: Engine, now: float) -> None:
        self.measured = UNASKED
        self.changes, self.cluster = Changes(core, now, WALL, lambda: self.measured, self._notice), Cluster()
        self.began = now
        self.sent = self.notices = 0

    def _notice(self) -> None:
        self.notices += 1

    def catch_up(self, now: float) -> list[Update]:
        """Take over what has changed. Returns the updates."""
        texts = [text for text in self.changes.updates(now) if text]
        updates = [Update.model_validate_json(text) for text in texts]
        self.sent += sum(map(len, texts))
        whole: Update | None = None
        for update in updates:
            whole = update if whole is None else joined(whole, update)
        if whole is not None:
            assert not updates[-1].more
            asyncio.run(self.cluster.take(whole))
        return updates

    def check(self) -> None:
        """Compare the picture with what the core would show now."""
        core, cluster = self.changes.core, self.cluster
        state = core.state
        shown = {tuple(key): view(state, gang, self.began, marked) for key, gang in state.workloads.items()}
        assert cluster.gangs == shown
        assert cluster.nodes == {name: node_view(state, state.claims.snapshot(), name) for name in state.claims.nodes}


class Followed(Machine):
    """Random histories of a small cluster, in which the core restarts now and then."""

    follower: Follower | None = None

    @invariant()
    def the_picture_is_that_of_the_core(self) -> None:
        """Nothing waits for the turn of a view: an event tells of every change."""
        if self.follower is None or self.follower.changes.core is not self.world.core:
            self.follower = Follower(self.world.core, self.world.now)
        self.follower.catch_up(self.follower.began)  # no time passes for the feed, and no view is due
        self.follower.check()


TestFollowed = Followed.TestCase
TestFollowed.settings = settings(
    max_examples=60,
    phases=[Phase.generate],  # shrinking takes minutes; a failure names its steps
    stateful_step_count=30,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def test_only_what_has_changed_is_sent() -> None:
    script = Script(*cluster("a: 5x8"), *gang("first", 2), *gang("second", 2))
    follower = Follower(script.core, script.now)
    (first,) = follower.catch_up(script.now)
    assert first.whole
    assert len(first.gangs) == 2
    assert len(first.nodes) == 5
    assert first.topology is not None
    assert follower.catch_up(script.now) == []
    script.see(gang("third", 1))
    (update,) = follower.catch_up(script.now)
    assert [gang_view.name for gang_view in update.gangs] == ["third"]
    assert len(update.nodes) == 1
    assert not update.whole
    follower.check()


def test_a_large_picture_comes_in_pieces_and_is_taken_over_whole() -> None:
    script = Script(*cluster("a: 500x8"), checked=10_000)
    for number in range(150):
        script.see(gang(f"gang-{number}", 20, gpus=1))
    follower = Follower(script.core, script.now)
    updates = follower.catch_up(script.now)
    assert len(updates) > 1
    assert [piece.number for piece in updates] == [*range(len(updates))]
    assert [piece.more for piece in updates] == [True] * (len(updates) - 1) + [False]
    assert [piece.whole for piece in updates] == [True] + [False] * (len(updates) - 1)
    follower.check()


def test_a_change_that_no_event_tells_of_comes_within_a_round() -> None:
    script = Script(*cluster("a: 2x8"), *gang("waits", 3))
    follower = Follower(script.core, script.now)
    follower.catch_up(script.now)
    (workload,) = script.core.state.workloads.values()
    workload.reason_state.since -= 500.0
    for second in range(1, int(ROUND_S) + 2):
        follower.catch_up(script.now + second)
    follower.check()


def test_each_change_is_noticed_and_nothing_else() -> None:
    script = Script(*cluster("a: 2x8"))
    follower = Follower(script.core, script.now)
    script.advance(60)
    assert follower.notices == 0
    for pod in (*gang("comes", 1), single("alone", node="a-0")):
        before = follower.notices
        script.see(pod)
        assert follower.notices > before
    before = follower.notices
    script.see(replace(script.core.state.claims.nodes["a-1"], ready=False))
    assert follower.notices > before


def test_a_new_expected_start_is_sent_at_once_and_an_equal_one_is_not() -> None:
    script = Backlog(*cluster("a: 1x8"), limits=Limits(forecast_s=60))
    script.start("first", 1, 1000)
    script.wait("later", 1, 100)
    script.advance(61)
    follower = Follower(script.core, script.now)
    follower.catch_up(follower.began)
    script.advance(61)
    assert follower.catch_up(follower.began) == [], "the start is expected at the same time as before"
    script.wait("before", 1, 500, priority=10)
    (update,) = follower.catch_up(follower.began)
    assert {gang_view.name for gang_view in update.gangs} == {"before", "later"}
    follower.check()


def test_domains_are_added_up_as_the_extender_does() -> None:
    script = Script(*cluster("a: 2x8", "b: 3x4", "-: 1x8"), *gang("gang", 3, gpus=4))
    script.see(single("one", gpus=2))
    follower = Follower(script.core, script.now)
    follower.catch_up(script.now)
    assert follower.cluster.domains == domains(script.core.state)


def test_devices_are_added_up_as_the_extender_does() -> None:
    """Nodes show the kinds of devices that pods ask for: a new one is on all nodes within a round."""
    script = racks("a: 3x4", "b: 4x4", domains=("train",))
    follower = Follower(script.core, script.now)
    pods = in_domain("train", 4)
    script.see(pods)
    steps: list[Callable[[], None]] = [lambda: script.run(pods), lambda: script.gone(*pods), lambda: None]
    for step in steps:
        for turn in range(3):
            follower.catch_up(script.now + turn * ROUND_S)
        stocks = domains(script.core.state)
        assert follower.cluster.domains == stocks
        assert stocks[0].devices
        step()


def test_queues_are_sent_when_they_have_changed_and_not_at_every_update() -> None:
    script = Script(*cluster("a: 2x8"))
    follower = Follower(script.core, script.now)
    (first,) = follower.catch_up(script.now)
    assert first.queues == []
    assert follower.catch_up(script.now + QUEUES_S) == []


def test_a_measurement_is_sent_once_and_its_loads_go_with_what_they_are_of() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = gang("busy", 2)
    script.see(pods)
    script.run(pods)
    script.advance(1000)
    follower = Follower(script.core, script.now)
    follower.measured = measured("a-0", "a-1")
    (first,) = follower.catch_up(script.now)
    assert [(load.name, load.utilisation and load.utilisation.idle_gpus) for load in first.gang_loads] == [("busy", 16)]
    assert [load.name for load in first.node_loads] == ["a-0", "a-1"]
    assert follower.catch_up(script.now) == []
    follower.measured = measured("a-0", "a-1")
    assert follower.catch_up(script.now) == [], "a measurement that equals the one before"
    follower.measured = measured("a-0")
    (then,) = follower.catch_up(script.now)
    assert [(load.name, load.utilisation) for load in then.node_loads] == [("a-1", None)]
    follower.measured = UNASKED
    follower.catch_up(script.now)
    assert {*follower.cluster.gang_loads.values(), *follower.cluster.node_loads.values()} == {None}
    script.gone(*script.pods.values())
    follower.catch_up(script.now)
    assert follower.cluster.gang_loads == {}


def measured(*nodes: str) -> Utilisation:
    """Both pods of the gang are idle; ``nodes``: the nodes that are measured by name."""
    load = Load(8, 1.0)
    pods = {("default", f"busy-{at}"): {"": load} for at in range(2)}
    every = tuple(Measured((), (node,), "", load) for node in nodes)
    return Utilisation(on=True, below_percent=10.0, window_s=600, loads=Loads(every, pods))


def test_a_follower_that_has_stopped_leaves_nothing_in_the_core() -> None:
    script = Script(*cluster("a: 2x8"))
    state = script.core.state

    def followers() -> tuple[object, ...]:
        return state.store.on_settle, state.claims.on_move, state.claims.on_node, state.expectations.on_change

    before = followers()
    follower = Follower(script.core, script.now)
    assert all(now != then for now, then in zip(followers(), before, strict=True))
    follower.changes.stop()
    assert followers() == before
