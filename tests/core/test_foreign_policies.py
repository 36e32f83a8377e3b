"""A policy that raises or returns nonsense costs an attempt of the gang in question, and affects no other gang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from extender.core.effects import Milestone, Reached
from extender.core.events import JobSeen, PodGone
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.pending import QueueView, Turns
from extender.core.ledger.singles import WaitingSingle
from extender.core.workload.workload import Workload
from policies.api import PAUSE, Choice, Domain, PlacementRequest, SortKey, WaitingGang
from policies.chosen import OURS, Policies
from policies.model import Pod, PodSet, Topology
from policies.strategies.scoring import WeightedSum
from tests.builders import cluster, gang, key, single
from tests.core.jobs import job, template
from tests.core.script import Script

NODES = cluster("a: 4x8", "b: 3x8")


def script(policies: Policies, *pods: Pod) -> Script:
    return Script(*NODES, *pods, policies=policies)


class Odd:
    """A policy with this ``answer`` for gangs of that name, to each question; an exception is raised.

    Others get ours.
    """

    def __init__(self, answer: Any, name: str = "odd") -> None:
        self.answer = answer
        self._name = name

    def order(self, gang: WaitingGang) -> SortKey:
        return self._say() if gang.key.name == self._name else OURS.queue.order(gang)

    def domains(self, request: PlacementRequest, snapshot: Any) -> Iterator[Choice]:
        if not request.roles[0].pods[0].name.startswith(self._name):
            yield from OURS.topology.domains(request, snapshot)
        elif callable(self.answer):
            yield from self.answer(snapshot)
        else:
            yield self._say()

    def score(self, pod: Pod, rows: Any, snapshot: Any, beside: Any) -> Any:
        if not pod.name.startswith(self._name):
            return OURS.scoring.score(pod, rows, snapshot, beside)
        return self.answer(snapshot) if callable(self.answer) else self._say()

    def _say(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def overfull(snapshot: Any) -> Iterator[Choice]:
    """Every node several times: more room than there is."""
    rows = np.arange(len(snapshot.names))
    yield (Domain("all", np.concatenate([rows[:1]] * 4)),)


def writing(snapshot: Any) -> Iterator[Choice]:
    snapshot.free[:] = 1 << 40
    yield (Domain("all", np.arange(len(snapshot.names))),)


def out_of_bounds(snapshot: Any) -> Iterator[Choice]:
    yield (Domain("all", np.array([len(snapshot.names)])),)


def across(snapshot: Any) -> Iterator[Choice]:
    """Half of each clique."""
    yield (Domain("all", np.array([snapshot.rows[name] for name in ("a-0", "b-0", "b-1")])),)


def for_ever(snapshot: Any) -> Iterator[Choice]:
    while True:
        yield PAUSE


def named_by_none(snapshot: Any) -> Iterator[Choice]:
    yield (Domain(cast("Any", None), np.arange(len(snapshot.names))),)


def half_members(snapshot: Any) -> Iterator[Choice]:
    yield (Domain("all", np.arange(len(snapshot.names)), cast("Any", 1.5)),)


def one_node_only(snapshot: Any) -> Iterator[Choice]:
    """Choose one node for more pods than fit on it."""
    yield (Domain("all", np.zeros(7, dtype=np.intp)),)


TOPOLOGIES = [
    *(RuntimeError("no idea"), SystemExit(3), GeneratorExit()),
    *("a", None, ("a",), 3, np.arange(2)),
    *(writing, out_of_bounds, for_ever, named_by_none, half_members, one_node_only),
]
SCORES = [
    *(ZeroDivisionError(), SystemExit(3), "a", [1.0], float("nan")),
    lambda snapshot: np.full(len(snapshot.names) + 1, 3),
]
ORDERS = [KeyError("x"), SystemExit(3), None, 3, [1], (None,), (float("nan"),), (10**400,), ((1, 2),)]
CHANGES: list[Callable[[Any], object]] = [
    lambda snapshot: snapshot.rank.fill(0),
    lambda snapshot: snapshot.names.clear(),
    lambda snapshot: snapshot.rows.clear(),
    lambda snapshot: snapshot.resources.clear(),
    lambda snapshot: snapshot.levels[0].codes.fill(0),
    lambda snapshot: snapshot.levels[0].rank.fill(0),
    lambda snapshot: snapshot.levels[0].names.clear(),
    lambda snapshot: snapshot.levels[0].domain(0).rows.fill(0),
    lambda snapshot: snapshot.others.column("nvidia.com/gpu.clique").fill(0),
]
BAD = [
    *(replace(OURS, topology=Odd(answer)) for answer in TOPOLOGIES),
    *(replace(OURS, scoring=WeightedSum([(cast("Any", Odd(answer)), 1)])) for answer in SCORES),
    *(replace(OURS, queue=Odd(answer)) for answer in ORDERS),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_policy_is_shown_it_cannot_change(change: Callable[[Any], object]) -> None:
    def changing(snapshot: Any) -> Iterator[Choice]:
        change(snapshot)
        yield (Domain("all", np.arange(len(snapshot.names))),)

    begun = script(replace(OURS, topology=Odd(changing)), *gang("odd", 2), *gang("fine", 2))
    assert begun.reason("odd") == "PolicyFailed"
    assert begun.core.state.counts.policy_errors.keys() == {"Odd"}
    assert begun.reason("fine") == "Placed"


@pytest.mark.parametrize("policies", BAD)
def test_a_bad_policy_costs_the_attempt_and_nobody_else(policies: Policies) -> None:
    odd, fine = gang("odd", 2), gang("fine", 2)
    begun = script(policies, *odd, *fine)
    assert begun.reason("odd") == "PolicyFailed"
    assert "the policy Odd has failed" in begun.message("odd")
    assert begun.message("odd").isprintable()
    assert begun.reason("fine") == "Placed"
    assert not any(map(begun.planned, odd))
    begun.run(fine)
    assert begun.reason("fine") == "Running"


@pytest.mark.parametrize("answer", [(Odd(0),), Odd(0), KeyError(Odd(0)), (Odd(0).order,)])
def test_the_reason_shows_no_address_of_an_object(answer: Any) -> None:
    begun = script(replace(OURS, queue=Odd(answer)), *gang("odd", 2))
    assert "Odd" in begun.message("odd").split("has failed: ")[1]
    assert " at 0x" not in begun.message("odd")


class SmallFirst:
    """Serves the gang with the fewest GPUs, then with the fewest members."""

    def order(self, gang: WaitingGang) -> SortKey:
        return gang.gpus, gang.members, gang.created


@pytest.mark.parametrize("small", [gang("small", 2), gang("small", 4, gpus=1), gang("small", 1)])
def test_a_policy_sees_members_and_gpus(small: list[Pod]) -> None:
    """Room for either, and the larger one is older."""
    large = [replace(pod, created=-60.0) for pod in gang("large", 6)]
    policies = replace(OURS, queue=SmallFirst())
    begun = Script(*cluster("a: 6x8"), *large, *small, policies=policies)
    assert (begun.reason("small"), begun.reason("large")) == ("Placed", "NoRoom")
    assert Script(*cluster("a: 6x8"), *large, *small).reason("large") == "Placed"


def test_a_gang_that_grows_loses_its_place() -> None:
    """The place of a gang is remembered as long as nothing about it changes."""
    runs, grows, large = gang("runs", 6), gang("grows", 8, min_member=2), gang("large", 6)
    begun = Script(*cluster("a: 6x8"), *runs, policies=replace(OURS, queue=SmallFirst()))
    begun.run(runs)
    begun.see(grows[:2], large)
    begun.advance(1)
    assert (begun.reason("grows"), begun.reason("large")) == ("NoRoom", "NoRoom")
    begun.see(grows[2:])
    for pod in runs:
        begun.feed(PodGone(pod.uid))
    begun.advance(1)
    assert (begun.reason("grows"), begun.reason("large")) == ("NoRoom", "Placed")


def test_the_place_of_a_job_goes_with_it() -> None:
    """The pods of the job stay, and were created later."""
    turns, left = Turns(FailedCreation(), OURS.queue), Workload(key("left"))
    left.members.put(replace(gang("left", 1)[0], created=20.0))
    left.follow_job(job(1))
    with_job = turns.of(left)
    left.follow_job(None)
    assert turns.of(left) == (0, OURS.queue.order(QueueView(left))) != with_job


def test_members_that_are_yet_to_come_count() -> None:
    launcher = PodSet(template("job", 0, series="launcher"), 1, 1, indexed=False)
    suspended = job(3, launcher)
    begun = Script(*cluster("a: 1x8"), *gang("half", 4)[:2])
    begun.feed(JobSeen(suspended))
    half, whole = (QueueView(begun.core.state.workloads[name]) for name in (key("half"), suspended.key))
    assert (half.members, half.gpus) == (4, 32)
    assert (whole.members, whole.gpus) == (4, 24)
    alone = WaitingSingle(single("alone", gpus=8))
    assert (alone.members, alone.gpus) == (1, 8)


def test_room_that_a_policy_counts_twice_is_given_once() -> None:
    pods = gang("odd", 3)
    begun = script(replace(OURS, topology=Odd(overfull)), *pods)
    assert len({begun.planned(pod) for pod in pods} - {""}) in (0, 3)


def test_it_is_tried_ever_less_often_and_counted() -> None:
    policy = Odd(RuntimeError("no idea"))
    begun = script(replace(OURS, topology=policy), *gang("odd", 2))
    begun.advance(600)
    tries = begun.core.state.counts.policy_errors["Odd"]
    assert 10 < tries < 40
    delays = [
        effect for effect in begun.effects if isinstance(effect, Reached) and effect.milestone is Milestone.DELAYED
    ]
    assert len(delays) == tries
    assert "no idea" in delays[0].detail


def test_a_policy_that_works_again_places_its_gang() -> None:
    policy, pods = Odd(RuntimeError("no idea")), gang("odd", 2)
    begun = script(replace(OURS, topology=policy), *pods)
    assert begun.reason("odd") == "PolicyFailed"
    policy.answer = lambda snapshot: iter([(Domain("all", np.arange(len(snapshot.names))),)])
    begun.advance(60)
    assert begun.reason("odd") == "Placed"
    assert all(map(begun.planned, pods))


def test_a_restart_does_not_bring_the_core_down_either() -> None:
    policies = replace(OURS, queue=Odd(RuntimeError("no idea")), topology=Odd(RuntimeError("no idea")))
    pods = [replace(pod, nominated_node="a-0") for pod in gang("odd", 2)]
    begun = script(policies, *pods)
    assert begun.core.state.process.recovered
    assert begun.reason("odd") == "PolicyFailed"


def test_prioritize_is_answered_whatever_a_score_raises() -> None:
    begun = script(replace(OURS, scoring=WeightedSum([(cast("Any", Odd(RuntimeError("no idea"))), 1)])))
    (pod,) = gang("odd", 1)
    assert begun.core.prioritize(pod, ["a-0", "b-1"]) == [0, 0]
    assert begun.core.state.counts.policy_errors["Odd"] == 1


def test_orders_that_cannot_be_compared_are_compared_all_the_same() -> None:
    begun = script(replace(OURS, queue=Odd(("text", 1))), *gang("odd", 1), *gang("fine", 1))
    assert begun.reason("odd") == begun.reason("fine") == "Placed"


def test_a_required_level_is_kept_whatever_the_policy_proposes() -> None:
    pods = [replace(pod, topology=Topology("clique")) for pod in gang("odd", 3)]
    begun = script(replace(OURS, topology=Odd(across)), *pods)
    assert not any(map(begun.planned, pods))
