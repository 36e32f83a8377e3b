"""The content of /explain for a gang: its state, its places, the room in each domain, and what would make it fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from extender.api.models import DomainRoom, Explanation, PlaceView, VictimView
from extender.api.texts import with_texts
from extender.core.causes import NoRoom, Partial
from extender.core.explain.reasons import NO_EXPECTATION, STARTS_NEVER, expectation_text
from extender.core.ledger.state import State
from extender.core.preemption.preview import Preview
from extender.core.queue.planner import Statements
from extender.core.workload.workload import Workload
from extender.observe.explain.inquiry import Inquiry, holders, inquiries, topology_of
from extender.observe.explain.remedies import remedies, waits_for
from extender.observe.explain.remedy import Remedy, never_starts
from extender.observe.topology import compute_domains, in_order
from extender.observe.views import marked, view
from policies.model import Pod
from policies.model.mentions import full
from policies.placement.snapshot import scarce_lines
from policies.statement import Statement
from policies.steps import Steps
from policies.words import devices, listed, many, natural

_SHOWN = 64


def with_all_names(explanation: Explanation) -> Explanation:
    """Return the explanation for a reader who may see all names."""
    return with_texts(explanation, lambda text: full(text, explanation.gang.namespace))


def explaining(state: State, gang: Workload, now: float, outlook: Preview | None = None) -> Steps[Explanation]:
    """Explain the gang as of ``now``, with the mentions in all texts still marked.

    It is some 50 ms of work for one that waits among 5,000 nodes. The nodes are those of the first step, if the caller
    lends the claims (``Claims.lend``) before anything else happens. ``outlook``: what preemption does for it, if
    anything.
    """
    with state.make(Statements).of(gang) as statement:
        return (yield from _explained(state, gang, statement, now, outlook))


def _explained(
    state: State, gang: Workload, statement: Statement, now: float, outlook: Preview | None
) -> Steps[Explanation]:
    waits = isinstance(waits_for(gang), NoRoom | Partial)
    questions = (yield from inquiries(state, gang, statement)) if waits else []
    question = questions[0] if questions else None
    rooms = [] if question is None else (yield from _rooms(state, question))
    advice = yield from remedies(state, gang, statement, questions, now)
    return Explanation(
        gang=view(state, gang, now, marked),
        asks=_asks(gang),
        to_be_made=_to_be_made(gang),
        places=_places(state, gang),
        level=question.level.key if question is not None and question.level is not None else None,
        required=question is not None and question.required,
        domains=rooms,
        domains_in_all=question.level.inhabited() if question is not None and question.level is not None else 0,
        remedies=[remedy.text for remedy in advice],
        preemption="" if outlook is None else outlook.text,
        expected_start=_expected_start(state, gang, advice),
        compute_domains=compute_domains(state, gang),
        victims=[] if outlook is None else [VictimView(name=name, told=text) for name, text in outlook.victims],
    )


def _expected_start(state: State, gang: Workload, advice: Iterable[Remedy]) -> str:
    if (expected := state.expectations.of.get(gang.key)) is not None:
        return expectation_text(expected, state.process.wall_offset)
    if gang.key not in state.expectations.unknown:
        return ""
    return STARTS_NEVER if never_starts(advice) else NO_EXPECTATION


def _asks(gang: Workload) -> list[str]:
    roles: Counter[tuple[str, str]] = Counter()
    for pod, count in [(pod, 1) for pod in gang.live] or _templates(gang):
        shaped = gang.constrained(pod)
        roles[devices(shaped.requests), topology_of(shaped)] += count
    return [f"{count} x {what}{', ' * bool(topology)}{topology}" for (what, topology), count in roles.items()]


def _templates(gang: Workload) -> list[tuple[Pod, int]]:
    """The pod templates of its job, each with its number of pods."""
    return [] if gang.job is None else [(podset.template, podset.count) for podset in gang.job.seen.podsets.podsets]


def _to_be_made(gang: Workload) -> str:
    """The pods that its job makes when it starts, in words; empty while it has pods."""
    templates = _templates(gang)
    if gang.members.live or gang.job is None or gang.job.seen.finished or not templates:
        return ""
    pods = listed(f"{many(count, 'pod')} of {devices(pod.requests)}" for pod, count in templates)
    return f"suspended: {pods} {'is' if [count for _, count in templates] == [1] else 'are'} made when it starts"


def _places(state: State, gang: Workload) -> list[PlaceView]:
    counts: Counter[str] = Counter()
    for node in gang.member_nodes:
        nearest = next(state.claims.domains(node), None)
        counts[node if nearest is None else nearest[1]] += 1
    ordered = sorted(counts.items(), key=lambda place_count: (-place_count[1], natural(place_count[0])))
    return [PlaceView(name=name, members=count) for name, count in ordered]


def _rooms(state: State, question: Inquiry) -> Steps[list[DomainRoom]]:
    """The domains with most room, the best first."""
    rooms: list[DomainRoom] = []
    if (level := question.level) is None:
        return rooms
    room = question.role.room
    free = level.tally(room)[0]
    unusable = (question.snapshot.slots(question.role.requests) > 0) & (room == 0)
    closed = level.tally(unusable.astype(np.int64))[0]
    scarce = scarce_lines(question.role.requests, question.snapshot)
    roomiest = sorted(in_order(level), key=lambda code: -int(free[code]))
    codes = [code for code in roomiest if len(level.domain(code).rows)]
    for code in codes[:_SHOWN]:
        domain = level.domain(code)
        there = yield from holders(state, question, domain.rows)
        # Three are named: pods that only use cores may stand on every node.
        there.sort(key=lambda holder: -int(holder.extra[scarce].sum()))
        names = [f"{holder.name} ({many(len(holder.at), 'node')})" for holder in there]
        rooms.append(
            DomainRoom(
                name=domain.name,
                nodes=len(domain.rows),
                free=int(free[code]),
                want=question.want,
                closed=int(closed[code]),
                held_by=names,
                reason=_reason(question, int(free[code]), int(closed[code]), names),
            )
        )
    return rooms


def _reason(question: Inquiry, free: int, closed: int, names: list[str]) -> str:
    thing = "node" if question.one_to_a_node() else "slot"
    short = question.want - free
    parts = [f"{many(short, thing)} short" if short > 0 else "has room"]
    if closed:
        parts.append(f"{closed} with room that it may not use")
    if names:
        more = [f"{len(names) - 3} more"] if len(names) > 3 else []
        parts.append("held by " + ", ".join(names[:3] + more))
    return "; ".join(parts)
