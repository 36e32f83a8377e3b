"""What would make a waiting gang start: sentences for its owner, each of them checked by counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from extender.core.gang import Gang
from extender.core.roster import Stage
from extender.core.state import State
from extender.explain.holders import fewest_ends, holders
from extender.explain.inquiry import Inquiry
from policies.matching import admits
from policies.model import Node, Topology
from policies.placement import Placed, place
from policies.snapshot import Domain, Rows
from policies.words import devices, many

_DOMAINS = 2
"""Domains for which a remedy is worked out: those that come nearest."""
_NAMED = 4

SAID = {
    "New": "nothing: it is about to be looked at",
    "Placed": "nothing: kube-scheduler is carrying the placement out",
    "Holding": "the other members at bind: kube-scheduler is working on them",
    "Releasing": "nothing: its Bindings are being posted",
    "Running": "nothing: it runs",
    "Ended": "nothing: it has ended; pods that are made anew start as a gang again",
    "MinMemberMissing": "the annotation muster.dev/min-member on its pods: how many members start together",
    "PodGroupMissing": "a PodGroup object of that name: kubectl apply it beside the pods",
    "PodGroupDeleted": "a PodGroup object that stays: make it anew when the old one is gone",
    "InvalidPodGroup": "a pod template or PodGroup that says it as the message asks; pods have to be made anew",
    "Contradiction": "members that agree: mend the pod template and make the pods anew",
    "ResourceClaims": "pods without resourceClaims: ask for devices as extended resources (nvidia.com/gpu)",
    "VolumeNotBound": "a volume for that claim before the gang starts: a class with volumeBindingMode Immediate",
    "TooManyMembers": "a smaller gang, or a larger max_gang_members in Muster's settings",
    "TooManyGangs": "nothing: it is looked at when one that came before it has started or is gone",
    "Gated": "whoever set that gate has to take it off; Muster takes off its own",
    "UnknownTopology": "a level that exists (muster domains lists them), topology_levels in Muster's settings, "
    "or an index on every pod of a sliced gang: the message says which",
    "Partial": "replacements for the members that were lost: the room that they had is kept for a while",
}
"""What to do about every reason that is not a lack of room, by its code."""


def remedies(state: State, gang: Gang, question: Inquiry | None, now: float) -> list[str]:
    """What would make it start, or go on; at least one sentence."""
    code = gang.reason.code
    if code == "MembersMissing":
        there, needed = gang.reached(Stage.THERE), gang.min_member or 0
        return [f"{many(needed - there, 'more pod')} that name{'s' * (needed - there == 1)} this gang; {there} exist"]
    if code == "Forgotten" or (code == "NoRoom" and now < gang.not_before):
        return [f"nothing: it is planned again in {max(0.0, gang.not_before - now):.0f} s"]
    if code != "NoRoom" or question is None:
        return [SAID.get(code, "see the message")]
    return list(_room(state, question)) or ["room that comes free is used as soon as it is enough"]


def nearest(question: Inquiry, count: int) -> list[Domain]:
    """The domains of the level that has to hold it which have most room for it, the best first; else the cluster.

    A replacement has one: where the gang is.
    """
    level = question.scope
    if level is None:
        return [question.anywhere]
    if question.role.home is not None:
        return [level.domain(question.role.home[1])]
    found, size = level.tally(question.role.room)[0], level.tally(np.ones(len(level.codes), dtype=np.int64))[0]
    codes = [int(code) for code in np.lexsort((level.rank, -size, -found)) if size[code]]
    return [level.domain(code) for code in codes[:count]]


def _room(state: State, question: Inquiry) -> Iterator[str]:
    domains = nearest(question, _DOMAINS)
    if not domains:
        yield (
            f"nodes with the label {question.level.key}: there are none" if question.level else "nodes: there are none"
        )
        return
    if (largest := _largest(question)) < question.want:
        yield _too_large(question, largest)
    for domain in domains:
        yield from _in(state, question, domain)
    yield from _without_requirement(question)


def _in(state: State, question: Inquiry, domain: Domain) -> Iterator[str]:
    place_name = domain.name if question.scope is None else f"{question.scope.name} {domain.name}"
    rows = domain.rows
    found, want = question.fitting(rows), question.want
    if found >= want:
        yield f"nothing more in {place_name}: it has room by now, and the gang is planned in a moment"
        return
    if question.largest(rows) < want:
        return
    one = devices(question.role.requests)
    short = want - found
    if question.one_to_a_node():
        yield f"{many(short, 'more node')} with {one} free in {place_name}"
    else:
        yield f"room for {many(short, 'more member')} ({one} each) in {place_name}"
    if ends := fewest_ends(question, rows, holders(state, question, rows), want):
        yield f"the end{'s' * (len(ends) > 1)} of {_list(ends)} would free it in {place_name}"
    yield from _closed(state, question, rows, place_name)


def _closed(state: State, question: Inquiry, rows: Rows, place_name: str) -> Iterator[str]:
    """Nodes with room that are cordoned, not ready or tainted: opening them may be enough."""
    view, eligible = question.snapshot, question.eligible
    room = view.slots(question.role.requests)
    selection = question.role.pods[0].selection
    shut: list[str] = []
    taints: Counter[str] = Counter()
    gained = 0
    for row in rows.tolist():
        if eligible[row] or not room[row]:
            continue
        node = state.ledger.nodes[view.names[row]]
        if admits(replace(node, unschedulable=False, ready=True), selection):
            shut.append(f"{node.name} ({'not ready' if not node.ready else 'cordoned'})")
            gained += int(room[row])
        elif admits(replace(node, taints=(), unschedulable=False, ready=True), selection):
            taints.update(_taints(node))
    if shut:
        verdict = "would do" if question.fitting(rows) + gained >= question.want else "would help, and not be enough"
        yield f"{many(len(shut), 'node')} with room in {place_name} back in service {verdict}: {_list(shut)}"
    for taint, count in sorted(taints.items(), key=lambda one: (-one[1], one[0]))[:1]:
        have = "have" if count > 1 else "has"
        yield f"a toleration of {taint}: {many(count, 'node')} with room in {place_name} {have} it"


def _without_requirement(question: Inquiry) -> Iterator[str]:
    """Whether it is the topology alone that it waits for."""
    if question.scope is None:
        return
    free = [replace(pod, topology=Topology()) for pod in question.members]
    found = place(free, question.gang.lacking, question.snapshot, tuple(question.gang.refused))
    if isinstance(found, Placed):
        nodes = len(set(found.nodes.values()))
        yield f"preferred-topology in place of what it requires: it would fit now, on {many(nodes, 'node')}"


def _largest(question: Inquiry) -> int:
    """The most members that one of the domains could take if it were empty."""
    level = question.scope
    if level is None:
        return question.largest(question.anywhere.rows)
    return max((question.largest(level.domain(code).rows) for code in range(len(level.names))), default=0)


def _too_large(question: Inquiry, largest: int) -> str:
    one = devices(question.role.requests)
    if question.scope is None:
        return f"more nodes, or fewer members: the nodes that suit it, empty, hold {largest} of {question.want} x {one}"
    return (
        f"a farther level or fewer members: no {question.scope.name} is large enough, "
        f"the largest, empty, holds {largest} of {question.want} x {one}"
    )


def _taints(node: Node) -> list[str]:
    hard = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    return [f"{one.key}{'=' * bool(one.value)}{one.value}:{one.effect}" for one in hard]


def _list(names: list[str]) -> str:
    shown = names[:_NAMED] + ([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
