"""search(): who gives way to a workload, such that all of it fits afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from policies.chosen import OURS, Policies
from policies.model.queues import ClusterQueue, Evicts, Usage
from policies.placement.place import Placed, Shortfall
from policies.placement.rules import seen_by
from policies.placement.snapshot import Snapshot
from policies.preemption.allowed import Budgets, Why, allowed
from policies.preemption.candidates import Candidate, Limits, Request, Unit
from policies.preemption.choosing import Chooser, Placing, Victims
from policies.preemption.costs import Costed
from policies.preemption.freed import freed_by
from policies.preemption.lacking import lacking_on_nodes
from policies.preemption.reclaim import Queues, attempts
from policies.preemption.trial import Rules
from policies.quota.flavors import Fit
from policies.quota.tree import QuotaTree
from policies.steps import Steps, finish
from policies.words import listed, many

_NOBODY = "nobody may be evicted"


@dataclass(frozen=True, slots=True)
class Choice:
    """``victims`` by name; nobody if there is room already. ``why``: the rule by which each of them may be evicted, by
    name. ``nodes``: the plan that fits once they are gone, from the UID of a pod to its node. ``text``: for people."""

    victims: tuple[Candidate, ...]
    why: Mapping[str, Why]
    nodes: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nobody's eviction would help. ``why``: for people. ``nobody``: no candidate may be evicted. ``beside``: what is
    to be said then where it is known what room is lacking; empty if that is ``text``."""

    why: str
    nobody: bool = False
    beside: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        return f"{_NOBODY}: {self.why}" if self.nobody else self.why


def search(
    request: Request,
    snapshot: Snapshot,
    candidates: Sequence[Candidate],
    limits: Limits,
    policies: Policies = OURS,
    queues: Queues | None = None,
) -> Choice | Refusal:
    """``searching``, done at once."""
    return finish(searching(request, snapshot, candidates, limits, policies, queues))


def searching(
    request: Request,
    snapshot: Snapshot,
    candidates: Sequence[Candidate],
    limits: Limits,
    policies: Policies = OURS,
    queues: Queues | None = None,
) -> Steps[Choice | Refusal]:
    """The victims that cost least, in the order of ``policies.preemption.costs``, and the plan that fits when they are
    gone: nodes and, with ``queues``, quota. Neither the snapshot nor the quota tree may change until the search ends.

    Of a few candidates, and members of one shape, the choice is the best there is. Of many it is a good one, and nobody
    is in it who need not be.
    """
    by_queue = queues if queues is not None and request.queue in queues.tree.queues else None
    known = (
        {} if by_queue is None else {name: by_queue.queues[name] for name in by_queue.tree.fork(request.queue).queues}
    )
    snapshot = seen_by([*request.pods, *[pod for pod, _ in request.beside]], snapshot)
    may = allowed(request, candidates, limits, known)
    chosen = sorted(may.candidates, key=lambda one: one.name)
    freed = freed_by(chosen, snapshot)
    yield len(chosen)
    rules: Sequence[Sequence[Rules]] = [[Budgets(limits)]]
    if by_queue is not None:
        on_nodes = (yield from lacking_on_nodes(request, snapshot, chosen, freed)) if request.pods else {}
        rules = attempts(request, by_queue, limits, on_nodes)
    placing = Placing(request, snapshot, chosen, freed, policies)
    found = yield from placing.plan(())
    if isinstance(found, Placed) and any(one.enough() for some in rules for one in some):
        return Choice((), {}, found.nodes, "it fits without an eviction")
    options = [Costed(one, limits.now, snapshot) for one in chosen]
    for most in Unit:
        numbers = [at for at, one in enumerate(options) if one.unit <= most]
        if not any(options[at].unit == most for at in numbers):
            continue
        found = yield from placing.plan(numbers)
        if isinstance(found, Placed):
            pool = [options[at] for at in numbers]
            choose = partial(Chooser, request, snapshot, pool, freed.among(numbers), policies)
            victims = yield from _first(rules, choose)
            if victims is not None:
                return Choice(victims.candidates, victims.why, victims.nodes, _told(victims.candidates))
    lack = _near(found) if isinstance(found, Shortfall) else _lacking(rules, options)
    above = "" if queues is None or queues.fair else _above_threshold(request, chosen, known)
    return _refused(request, lack, len(chosen), may.kept, above, of_room=isinstance(found, Shortfall))


def _first(rules: Sequence[Sequence[Rules]], choose: Callable[[Rules], Chooser]) -> Steps[Victims | None]:
    """By the first rules that allow any, the cheapest of those that stand side by side."""
    for some in rules:
        found = []
        for one in some:
            victims = yield from choose(one).best()
            if victims is not None:
                found.append(victims)
        if found:
            return min(found, key=lambda victims: victims.cost)
    return None


def _told(victims: Sequence[Candidate]) -> str:
    return f"evicts {many(len(victims), 'victim')}: {listed(one.name for one in victims)}"


def _near(found: Shortfall) -> str:
    near = "" if found.nearest is None else f"{found.nearest.text}; "
    return f"{found.placed} of {found.needed} members fit at once: {near}{found.explanation}"


def _lacking(rules: Sequence[Sequence[Rules]], options: Sequence[Costed]) -> str:
    """What quota lacks when all of them are gone, in the last attempt of all; empty if it does not."""
    last = rules[-1][0]
    for one in options:
        last.change(one.candidate, 1)
    return last.lack()


def _above_threshold(request: Request, candidates: Sequence[Candidate], queues: Mapping[str, ClusterQueue]) -> str:
    """Whom a threshold keeps if the queue has to borrow in the end; empty if nobody."""
    if (own := queues.get(request.queue)) is None or (threshold := own.preemption.threshold) is None:
        return ""
    others = [one.priority for one in candidates if one.queue != own.name]
    count = sum(threshold < priority < request.priority for priority in others)
    if not count or own.preemption.borrow is Evicts.NEVER:
        return ""
    said = f"borrowWithinCohort.maxPriorityThreshold of queue {own.name} is {threshold}"
    return f"; {many(count, 'candidate')} may not if it has to borrow: {said}"


def _refused(request: Request, lack: str, count: int, kept: Mapping[str, int], above: str, *, of_room: bool) -> Refusal:
    """``of_room``: it lacks nodes, not quota."""
    if not request.preempts:
        return Refusal(f"the preemptionPolicy of its PriorityClass is Never{above}")
    those, others = f"the {many(count, 'candidate')} that may be evicted for it", _others(kept) + above
    if not lack:
        return Refusal(f"of {those}, not enough may go together{others}")
    if count:
        return Refusal(f"even without {those}: {lack}{others}")
    return Refusal(lack + others, nobody=True, beside=_NOBODY + others if of_room else "")


def _others(kept: Mapping[str, int]) -> str:
    """Who may not be evicted, the most frequent reason first."""
    most_first = sorted(kept.items(), key=lambda one: (-one[1], one[0]))
    said = listed(f"{many(much, 'candidate')} may not: {why}" for why, much in most_first)
    return f"; {said}" if said else ""


def offered(tree: QuotaTree, queue: str, usage: Usage, found: Choice) -> tuple[Fit, int]:
    """Whether others alone go, and from how far away the queue borrows when all of them have gone."""
    after = tree.fork(queue)
    for victim in found.victims:
        if victim.queue in after.queues:
            after.free(victim.queue, victim.usage)
    own = any(victim.queue == queue for victim in found.victims)
    level = max((after.level(queue, what, amount)[0] for what, amount in usage.items()), default=0)
    return (Fit.PREEMPT if own else Fit.RECLAIM), level
