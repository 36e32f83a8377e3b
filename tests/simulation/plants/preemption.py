"""Bugs in the choice of victims, in the time of evictions, and in the use of the room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

import pytest

from extender.core.answers import Reserved
from extender.core.effects import Effect, Evict, Reserve, SuspendJob
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claims
from extender.core.ledger.preemptions import Evictions, Preemption, Preemptions
from extender.core.preemption import candidates as candidates_of_all
from extender.core.preemption import search as victim_search
from extender.core.preemption.candidates import Candidates
from extender.core.preemption.kube_preemption import KubePreemption
from extender.core.queue.line import Singles
from extender.core.workload.workload import Workload
from policies.model import EvictionTerms
from policies.preemption.candidates import Candidate
from policies.preemption.candidates import Limits as Protection
from policies.preemption.reclaim import Reclaim
from policies.preemption.victims import Choice
from policies.preemption.victims import searching as real_searching
from tests.simulation.plants.mutants import Core, asks


@asks
def victims_told_before_it_is_written_down(effect: Effect, core: Core) -> Iterable[Effect]:
    yield effect
    if isinstance(effect, Reserve) and effect.reservation is not None:
        core.extra += core.handle(Reserved(effect.key, effect.pod, effect.job, effect.reservation, "", effect.backfill))


@asks
def one_pod_of_a_gang_is_spared(effect: Effect, core: Core) -> Iterable[Effect]:
    """The last one by name."""
    if isinstance(effect, Evict) and effect.reason.startswith("preempted by"):
        pod = core.pods.get(effect.uid)
        fellows = (
            [fellow for fellow in core.members(pod.group_key) if fellow.node and fellow.live] if pod is not None else []
        )
        if pod is not None and pod.group_key and len(fellows) > 1 and pod.uid == max(fellow.uid for fellow in fellows):
            return
    yield effect


def surplus_of_one_too_many(patch: pytest.MonkeyPatch) -> None:
    """A gang is taken to run with one member less than it needs."""
    margins = candidates_of_all._margins

    def one_more(workload: Workload, going: Collection[str]) -> Counter[str]:
        return Counter({name: margin + 1 for name, margin in margins(workload, going).items()})

    patch.setattr(candidates_of_all, "_margins", one_more)


def equals_are_evicted(patch: pytest.MonkeyPatch) -> None:
    """Workloads of the same priority are treated as though they had a lower one."""

    real = Candidates.find

    def find(self, concerns, wall, *, related):  # type: ignore[no-untyped-def]
        units = yield from real(self, lambda of, _: concerns(of - 1, _), wall, related=related)
        return [(replace(candidate, priority=candidate.priority - 1), victim) for candidate, victim in units]

    patch.setattr(Candidates, "find", find)


def rules_of_queues_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Workloads in queues are judged by their priority alone."""

    real = Candidates.find

    def find(self, _, wall, *, related):  # type: ignore[no-untyped-def]
        units = yield from real(self, lambda *_: True, wall, related=related)
        return [(replace(candidate, queue=""), victim) for candidate, victim in units]

    patch.setattr(Candidates, "find", find)


def nobody_is_too_young(patch: pytest.MonkeyPatch) -> None:
    """The minimum of time that a victim has run is forgotten."""
    patch.setattr(victim_search, "Protection", lambda wall, _, *others: Protection(wall, 0.0, *others))


def budgets_not_read(patch: pytest.MonkeyPatch) -> None:
    """The allowed disruptions of a PodDisruptionBudget are ignored."""
    patch.setattr(DisruptionBudgets, "counts", lambda self, pods: ())


def nobody_says_how_long_he_runs(patch: pytest.MonkeyPatch) -> None:
    """The terms of a workload for its own eviction are not read."""
    patch.setattr(Candidates, "terms_of", lambda self, workload: EvictionTerms())


def checkpoints_ignored(patch: pytest.MonkeyPatch) -> None:
    """Losses count since the start, whatever was saved meanwhile."""
    real = Candidates.terms_of
    patch.setattr(Candidates, "terms_of", lambda *of: real(*of)._replace(checkpointed=None))


def checkpoints_to_come_ignored(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint in the future is disbelieved, and all is lost since the start."""
    real = Candidate.lost

    def lost(self: Candidate, now: float) -> float:
        return real(self if (self.checkpointed or now) <= now else replace(self, checkpointed=None), now)

    patch.setattr(Candidate, "lost", lost)


def unread_checkpoints_protect(patch: pytest.MonkeyPatch) -> None:
    """An unreadable checkpoint protects its workload from eviction."""
    real = Candidates.why_protected

    def why_protected(self: Candidates, workload: Workload) -> str:
        hints = [pod.hint for pod in workload.bound] + ([] if workload.job is None else [workload.job.seen.hint])
        return real(self, workload) or next(filter(None, hints), "")

    patch.setattr(Candidates, "why_protected", why_protected)


def evictions_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A workload that was evicted a moment ago is evicted again."""
    patch.setattr(Evictions, "recent", lambda self, victim, job, wall: ())


def saturated_queues_evict(patch: pytest.MonkeyPatch) -> None:
    """Two queues that use as much of their own take turns."""
    patch.setattr(Reclaim, "_saturated", lambda self, near, far, contested: False)


def freed_room_kept_for_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claims, "await_room", lambda self, owner, node, requests: None)


def one_victim_too_few(patch: pytest.MonkeyPatch) -> None:
    """The last of several is spared."""

    def searching(*args, **named):  # type: ignore[no-untyped-def]
        choice = yield from real_searching(*args, **named)
        return replace(choice, victims=choice.victims[:-1] or choice.victims) if isinstance(choice, Choice) else choice

    patch.setattr(victim_search, "searching", searching)


def room_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A reservation outlives its owner."""
    real = Preemptions.end

    def end(self, key):  # type: ignore[no-untyped-def]
        preemption: Preemption | None = real(self, key)
        if preemption is not None:
            preemption.rooms.clear()
        return preemption

    patch.setattr(Preemptions, "end", end)


@asks
def jobs_that_give_way_never_suspended(effect: Effect, core: Core) -> Iterable[Effect]:
    if not (isinstance(effect, SuspendJob) and effect.reason.startswith("preempted by")):
        yield effect


def victims_that_have_gone_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """The preemptor is not looked at when the last one has gone."""
    patch.setattr(Preemptions, "make_ready", lambda self, key: None)


def what_a_victim_has_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """A victim seems to free more than it has."""

    def twice(candidate: Candidate) -> Candidate:
        return replace(candidate, claims=candidate.claims * 2)

    real = Candidates.find

    def find(self, below, wall, *, related):  # type: ignore[no-untyped-def]
        units = yield from real(self, below, wall, related=related)
        return [(twice(candidate), victim) for candidate, victim in units]

    patch.setattr(Candidates, "find", find)


def a_write_that_was_refused_is_given_up_for_good(patch: pytest.MonkeyPatch) -> None:
    """When the API server refuses a reservation, its preemptor is not looked at again."""
    patch.setattr(Preemptions, "take_rested", lambda self, now: [])
    patch.setattr(Preemptions, "next_rest", lambda self: None)


# Preemption for a single pod.


def nobody_is_too_young_for_a_pod(patch: pytest.MonkeyPatch) -> None:
    real = KubePreemption._may_go
    patch.setattr(KubePreemption, "_may_go", lambda self, workload, below, now: real(self, workload, below, now + 1e6))


def one_gang_too_few_for_a_pod(patch: pytest.MonkeyPatch) -> None:
    """The last of several gangs on its node is not evicted."""
    real = KubePreemption._choice_on

    def choice_on(self, pod, node, uids, now):  # type: ignore[no-untyped-def]
        choice = real(self, pod, node, uids, now)
        return choice and replace(choice, victims=choice.victims[: max(1, len(choice.victims) - 1)])

    patch.setattr(KubePreemption, "_choice_on", choice_on)


def room_of_a_pod_kept_from_itself(patch: pytest.MonkeyPatch) -> None:
    """The room that is kept for the pod counts as promised to others."""
    patch.setattr(Preemptions, "of_pod", lambda self, pod: None)


def promised_members_keep_no_pod_away(patch: pytest.MonkeyPatch) -> None:
    """Evict for a single pod whose anti-affinity means a member that is promised a node, and is not bound."""
    patch.setattr(Singles, "_is_blocked", lambda self, pod, node: False)
