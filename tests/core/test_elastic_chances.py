"""Elastic flavors by chance: jobs and gangs come and go, nodes are granted, denied, late or lost, queues stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.answers import CapacityAnswered, Ungated
from extender.core.effects import Ungate
from extender.core.events import CapacityServed, QueueSeen
from extender.core.explain.reasons import reason_of
from extender.core.ledger.quotas import RESERVED_QUOTA
from extender.core.limits import Elasticity, Limits
from extender.simulation.chance import Chance
from policies.model import GANG_GATE, Pod
from policies.model.queues import Quota, Stop
from tests.builders import GPU, key, node
from tests.core.jobs import Controlled, job
from tests.core.node_waits import wanting
from tests.core.queues import FLAVOR, cluster_queue, show, sort, used
from tests.core.script import Script
from tests.core.test_gang_node_waits import gated

QUOTA: dict[str, int | Quota] = {"owned": 16, "spot": 32}
LIMITS = Limits(elastic=Elasticity(frozenset(["spot"]), 60.0))


class Chances:
    """A queue, an autoscaler with random behavior, and users who submit jobs."""

    def __init__(self, seed: int, *, served: bool = True) -> None:
        """Start the course.

        ``served``: capacity requests are served as a rule; else jobs are started without a plan, too.
        """
        self.dice = Chance(seed).stream("elastic flavors")
        self.script = Script(node("owned-0", labels={FLAVOR: "owned"}), limits=LIMITS, checked=8)
        show(self.script, sort("owned"), sort("spot"), cluster_queue("team", QUOTA))
        self.script.feed(CapacityServed(served=served))
        self.script.advance(0.5)
        self.served = served
        self.jobs: dict[str, Controlled] = {}
        self.gangs: dict[str, list[Pod]] = {}
        """The gangs whose pods exist."""
        self.asked = self.node_wait = self.jobs_awaiting = self.late = 0
        self._gangs = self._read = 0
        self._nodes = 0
        self._seen: set[object] = set()

    def step(self) -> None:
        acts: list[Callable[[], None]] = [
            self.submit, self.submit, self.grow, self.answer, self.end, self.hold, self.stop_queue, self.lose_node,
            self.pass_time, self.pass_time, self.submit_gang, self.end_gang,
        ]  # fmt: skip
        acts += [self.grow, self.unserve] if self.served else [self.withdraw, self.pass_time, self.pass_time]
        self.dice.choice(acts)()
        self.settle()
        self.judge()

    def settle(self) -> None:
        """Show the writes, and start gangs with a plan."""
        for controlled in self.jobs.values():
            controlled.settle()
            self.control(controlled)
        while self._read < len(self.script.effects):
            effect = self.script.effects[self._read]
            self._read += 1
            if isinstance(effect, Ungate):
                self.script.feed(Ungated(effect.uid))
                if effect.uid in self.script.pods:
                    self.script.change(self.script.pods[effect.uid], gates=())
        for pods in self.gangs.values():
            if not self.script.bound(pods) and all(map(self.script.planned, pods)):
                self.script.run(pods)

    def control(self, controlled: Controlled) -> None:
        """Let the controller create the pods of a job without a plan, sooner or later, and delete suspended ones."""
        if controlled.seen.suspended and not controlled.seen.stopped:
            controlled.delete()
            controlled.show(stopped=True)
        elif controlled.seen.node_wait is not None and not controlled.seen.finished and self.dice.random() < 0.7:
            controlled.create(gates=(GANG_GATE,))

    def withdraw(self) -> None:
        """Suspend a job that was started without a plan, as a user does."""
        if waiting := [
            controlled
            for controlled in self.jobs.values()
            if controlled.seen.node_wait is not None and not controlled.seen.finished
        ]:
            self.dice.choice(waiting).show(suspended=True, node_wait=None, stopped=False)

    def submit_gang(self) -> None:
        if len(self.gangs) < 3:
            self._gangs += 1
            name = f"gang{self._gangs}"
            self.gangs[name] = gated(name, self.dice.choice((1, 2, 3)))
            self.script.see(*self.gangs[name])

    def end_gang(self) -> None:
        """Remove the pods of a gang, wherever they are."""
        if self.gangs:
            name = self.dice.choice(sorted(self.gangs))
            self.script.gone(*self.gangs.pop(name))

    def submit(self) -> None:
        if len(self.jobs) < 8:
            name = f"job{len(self.jobs)}"
            size = self.dice.choice((1, 2, 3, 4))
            anywhere = replace(job(size, name=name), queue="team")
            seen = anywhere if self.dice.random() < 0.5 else wanting(size, name)
            self.jobs[name] = Controlled(self.script, seen)

    def grow(self) -> None:
        self._nodes += 1
        self.script.see(node(f"spot-{self._nodes}", labels={FLAVOR: "spot"}))

    def answer(self) -> None:
        for ask in self.script.core.capacity_asks():
            granted = self.dice.random() < 0.5
            attempt = ask.attempt if self.dice.random() < 0.9 else ask.attempt + 1
            self.script.feed(CapacityAnswered(ask.key, attempt, granted=granted, detail="" if granted else "no stock"))

    def end(self) -> None:
        running = [controlled for controlled in self.jobs.values() if self.runs(controlled)]
        if running:
            self.finish(self.dice.choice(running))

    @staticmethod
    def runs(controlled: Controlled) -> bool:
        """Whether the job has its nodes."""
        return controlled.seen.plan is not None and not (controlled.seen.suspended or controlled.seen.finished)

    def finish(self, controlled: Controlled) -> None:
        controlled.create()
        pods = [self.script.pods[uid] for uid in controlled.pods]
        assert all(map(self.script.planned, pods)), "all or none"
        self.script.run(pods)
        controlled.settle()
        controlled.delete()
        controlled.show(finished=True)

    def hold(self) -> None:
        waiting = [
            controlled
            for controlled in self.jobs.values()
            if controlled.seen.suspended and not controlled.seen.finished
        ]
        if waiting:
            controlled = self.dice.choice(waiting)
            controlled.show(held=not controlled.seen.held)

    def stop_queue(self, stop: Stop | None = None) -> None:
        stop = stop or self.dice.choice((Stop.HOLD, Stop.NONE, Stop.NONE))
        self.script.feed(QueueSeen(replace(cluster_queue("team", QUOTA), stop=stop)))

    def lose_node(self) -> None:
        free = [name for name in self.script.core.state.claims.nodes if not [*self.script.core.state.claims.on(name)]]
        if free and self.dice.random() < 0.5:
            self.script.drop(self.dice.choice(sorted(free)))

    def unserve(self) -> None:
        self.script.feed(CapacityServed(served=self.dice.random() < 0.8))

    def pass_time(self) -> None:
        self.script.advance(self.dice.choice((0.5, 5.0, 70.0)))

    def judge(self) -> None:
        """Check that reservations equal capacity requests, and never exceed the quota."""
        state, asks = self.script.core.state, {ask.key: ask for ask in self.script.core.capacity_asks()}
        self.asked += len(asks.keys() - self._seen)
        self._seen |= asks.keys()
        kept = state.quotas.fully_reserved.keys()
        for controlled in self.jobs.values():
            known = state.workloads.get(controlled.seen.key)
            if known is not None and known.job is not None and known.job.awaits_nodes and not known.has_promised_quorum:
                self.jobs_awaiting += 1
                size = controlled.seen.podsets.minimum
                assert state.quotas.uses.total(controlled.seen.key)["spot", GPU] == 8 * size, (
                    "its quota is kept, and once"
                )
        self.late = sum(
            "requested and did not come" in why for controlled in self.jobs.values() for why in controlled.stops
        )
        assert kept == {each for each in state.workloads if RESERVED_QUOTA in state.quotas.uses.of(each)}
        going = {each for each in kept if (record := state.workloads[each].job) is not None and record.awaits_nodes}
        assert asks.keys() == {each for each in kept - going if each.name in self.jobs}
        for each in kept - asks.keys() - going:
            self.node_wait += 1
            workload = state.workloads[each]
            assert not workload.has_promised_quorum
            assert not any(GANG_GATE in member.pod.gates for member in workload.members)
        for name, most in QUOTA.items():
            assert isinstance(most, int)
            assert used(self.script, "team", name) <= most
        for key_asked in asks:
            record = state.workloads[key_asked].job
            assert record is not None
            assert record.seen.suspended
            assert not state.workloads[key_asked].has_promised_quorum

    def come_to_rest(self) -> None:
        """Let all workloads run: all quota has nodes."""
        self.stop_queue(Stop.NONE)
        self.script.feed(CapacityServed(served=True))
        for controlled in self.jobs.values():
            controlled.show(held=False)
        for number in range(4):
            self.script.see(node(f"last-{number}", labels={FLAVOR: "spot"}))
        for _ in range(2 * (len(self.jobs) + len(self.gangs) + 1)):
            self.script.advance(5.0)
            self.settle()
            for controlled in self.jobs.values():
                if self.runs(controlled):
                    self.finish(controlled)
            for name in [name for name, pods in self.gangs.items() if self.script.bound(pods)]:
                self.script.gone(*self.gangs.pop(name))
            self.judge()
        assert not self.gangs, [self.script.message(name) for name in self.gangs]
        late = [name for name, controlled in self.jobs.items() if not controlled.seen.finished]
        assert not late, [reason_of(self.script.core.state.workloads[key(name)].reason_state.cause) for name in late]


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("first", range(0, 12, 6))
def test_what_is_reserved_is_asked_for_and_everybody_has_a_turn(first: int, served: bool) -> None:
    asking = node_wait = jobs_awaiting = late = 0
    for seed in range(first, first + 6):
        chances = Chances(seed, served=served)
        for _ in range(30):
            chances.step()
        chances.come_to_rest()
        asking, node_wait = asking + chances.asked, node_wait + chances.node_wait
        jobs_awaiting, late = jobs_awaiting + chances.jobs_awaiting, late + chances.late
    assert min((asking, node_wait) if served else (jobs_awaiting, late)) > 1
