"""validate(): everything that must hold of the core's state between two events, whatever has happened before."""

from __future__ import annotations

from collections.abc import Iterator

from extender.core.gang import Gang, kept_for
from extender.core.ledger import Charge
from extender.core.problems import problem as trouble_of
from extender.core.problems import too_many_shapes
from extender.core.recount import differences
from extender.core.roster import Stage
from extender.core.state import State


def validate(state: State) -> None:
    """Assert each promise of docs/proof.md that can be seen in the state. Read-only; for tests, O(everything)."""
    state.ledger.validate()
    for gang in state.gangs.values():
        for problem in _wrong_with(state, gang):
            raise AssertionError(f"{problem}\n{told(gang)}")
    for problem in _wrong_with_charges(state):
        raise AssertionError(problem)
    for problem in _wrong_with_indexes(state):
        raise AssertionError(problem)


def told(gang: Gang) -> str:
    """The gang's story, for the reader of a failure."""
    head = (
        f"gang {gang.key}: minMember {gang.min_member}, members {sorted(gang.members)}, "
        f"bound {sorted(pod.uid for pod in gang.bound)}, placement {gang.placement}, holds {sorted(gang.holds)}, "
        f"posting {gang.posting}, final {gang.final}, kept {sorted(gang.kept)}, complete {gang.complete}, "
        f"partial since {gang.partial_since}, reason {gang.reason}"
    )
    return "\n".join([head, *(f"  {at:.3f} {text}" for at, text in gang.story)])


def _wrong_with(state: State, gang: Gang) -> Iterator[str]:
    yield from _members(state, gang)
    yield from _placement(state, gang)
    yield from _holds(state, gang)
    yield from _release(state, gang)
    yield from _quorum(state, gang)


def _members(state: State, gang: Gang) -> Iterator[str]:
    if not gang.members and not gang.posting:
        yield "an empty gang is still known"
    for uid, pod in gang.members.items():
        if state.pods.get(uid) is not pod or pod.group_key != gang.key:
            yield f"member {uid} differs from the pod of that UID, or belongs to another gang"
    yield from differences(gang)
    if (gang.key in state.waiting) != gang.roster.lacks:
        unplaced = sorted(pod.uid for pod in gang.roster.unplaced())
        yield f"waiting is {gang.key in state.waiting}, but the members without node or promise are {unplaced}"
    if state.synced and gang.key in state.waiting and gang.key not in state.stale and not gang.releasing:
        yield from _demand(state, gang)


def _demand(state: State, gang: Gang) -> Iterator[str]:
    """What the planner has worked out for a waiting gang is right until it is marked as stale."""
    if gang.demand is None:
        yield "it waits, and nobody is going to look at it"
    elif any(name in state.schedulers for name in gang.roster.schedulers):
        lacking = [gang.asking(pod) for pod in gang.roster.unplaced() if not pod.foreign_gates]
        shapes = [(pod.requests, pod.selection, pod.topology) for pod in lacking]
        trouble = trouble_of(gang, state) or (too_many_shapes(shapes, state) if len(lacking) >= gang.lacking else None)
        if gang.demand.trouble != trouble:
            yield f"its trouble is taken for {gang.demand.trouble}, and is {trouble}"
        free = tuple(pod.uid for pod in lacking)
        if gang.demand.shape is not None and gang.demand.members != free:
            yield f"nodes are wanted for {gang.demand.members}, and lacking for {free}"


def _placement(state: State, gang: Gang) -> Iterator[str]:
    for uid, node in gang.placement.items():
        pod = gang.members.get(uid)
        if uid not in gang.posting:
            if pod is None or not pod.live:
                yield f"room on {node} is promised to {uid}, which is gone or going"
            elif pod.node:
                yield f"room on {node} is promised to {uid}, which is bound to {pod.node}"
        charge = state.ledger.charges.get(uid)
        if pod is not None and not pod.node and (charge is None or (charge.node, charge.assumed) != (node, True)):
            yield f"the promise of {node} to {uid} is charged as {charge}"
        settled = not gang.releasing and uid not in gang.doubtful
        if charge is not None and settled and state.ledger.overcommitted(node, charge.requests):
            yield f"node {node} is overcommitted by the promise to {uid}"
    for uid, kept in gang.kept.items():
        if state.ledger.charges.get(kept_for(uid)) != Charge(kept.node, kept.requests, assumed=True):
            yield f"room kept on {kept.node} in place of {uid} is not charged"


def _holds(state: State, gang: Gang) -> Iterator[str]:
    for uid, hold in gang.holds.items():
        if gang.placement.get(uid) != hold.node:
            yield f"{uid} is held for {hold.node}, but its promise is {gang.placement.get(uid)}"
        if state.calls.get(hold.call) != uid:
            yield f"call {hold.call} of the held {uid} is indexed as {state.calls.get(hold.call)}"


def _release(state: State, gang: Gang) -> Iterator[str]:
    if gang.final is not None and gang.final not in gang.holds:
        yield f"the last member of the release, {gang.final}, is not held"
    for uid in gang.unled:
        if not gang.releasing and uid not in gang.doubtful:
            yield f"{uid} keeps its promise, and nobody tells kube-scheduler of it"
    for uid, node in gang.posting.items():
        posting = state.posting.get(uid)
        if posting is None or posting.node != node or posting.group != gang.key:
            yield f"the Binding of {uid} to {node} is not under way: {posting}"
        pod = gang.members.get(uid)
        if pod is not None and not pod.terminal and uid not in state.ledger.charges:
            yield f"{uid} is being bound to {node}, and is not charged"


def _quorum(state: State, gang: Gang) -> Iterator[str]:
    """Bound members are 0 or minMember at least, save for what is under way or known to be broken."""
    ours = all(pod.scheduler in state.schedulers for pod in gang.live)
    needed = gang.min_member
    if not state.recovered or not ours or needed is None or gang.complete or gang.releasing:
        return
    broken = gang.roster.started and gang.reached(Stage.BOUND) < needed and not gang.doubtful
    if broken and gang.partial_since is None:
        yield f"bound in part ({len(gang.bound)} of {needed}), and nobody minds"
    if gang.holds and gang.reached(Stage.ARRIVED) >= needed:
        yield "its quorum has arrived, and its binds are still held"
    if not gang.roster.started and gang.partial_since is not None:
        yield "marked as bound in part, but we have bound nothing of it"


def _wrong_with_charges(state: State) -> Iterator[str]:
    """Every promise is somebody's, and every bound pod is counted where it is."""
    kept = {kept_for(uid) for gang in state.gangs.values() for uid in gang.kept}
    for uid, charge in state.ledger.charges.items():
        pod = state.pods.get(uid)
        if uid in kept:
            continue
        if pod is None:
            yield f"{charge} is charged to {uid}, which nobody knows"
            return
        gang = state.gang_of(pod)
        promised = gang is None or uid in gang.placement or uid in gang.posting or uid in state.posting
        if not charge.assumed and (pod.terminal or pod.node != charge.node):
            yield f"{charge} is charged as bound, but {uid} is on {pod.node}"
        if charge.assumed and not promised:
            yield f"{charge} is assumed for {uid}, which was promised nothing\n{told(gang) if gang else ''}"
    for uid, pod in state.pods.items():
        known = state.ledger.charges.get(uid)
        if pod.node and not pod.terminal and (known is None or (known.node, known.assumed) != (pod.node, False)):
            yield f"{uid} is bound to {pod.node}, but charged as {known}"


def _wrong_with_indexes(state: State) -> Iterator[str]:
    held = {hold.call: uid for gang in state.gangs.values() for uid, hold in gang.holds.items()}
    if state.calls != held:
        yield f"the calls on file are {state.calls}, those held are {held}"
    for key in state.waiting:
        if key not in state.gangs:
            yield f"{key} waits, but is unknown"
    for uid, done in state.bound_by_us.items():
        if uid not in state.pods or (state.pods[uid].node, state.pods[uid].stamp) != (done.node, done.stamp):
            yield f"{uid} was bound to {done.node} by us, but the pod says otherwise"
