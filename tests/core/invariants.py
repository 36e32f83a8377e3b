"""validate(): everything that must hold of the core's state between two events, whatever has happened before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from extender.core.explain.problems import Problems, too_many_shapes
from extender.core.explain.telling import story_of
from extender.core.ledger.claims import Claims, ClaimState, Expected, SlotOf
from extender.core.ledger.nodes import Facts, Table
from extender.core.ledger.pending import put_off
from extender.core.ledger.state import State
from extender.core.queue.demands import to_be_planned
from extender.core.workload.members import Member, MemberState, Step
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod
from policies.placement.matching import admits
from policies.placement.request import shape_of
from policies.words import VOLUME
from tests.core.recount import differences
from tests.policies.tenants import validate_tenants


def validate(state: State) -> None:
    """Assert each promise of docs/proof.md that can be seen in the state. Read-only; O(everything)."""
    validate_claims(state.claims)
    for workload in state.workloads.values():
        for problem in _wrong_with(state, workload):
            raise AssertionError(f"{problem}\n{story_of(workload)}")
    wrong = chain(
        _wrong_with_devices(state),
        _wrong_with_volumes(state),
        _wrong_with_claims(state),
        _wrong_with_expected(state),
        _wrong_with_indexes(state),
        _wrong_with_pods(state),
        _wrong_with_quotas(state),
    )
    for problem in wrong:
        raise AssertionError(problem)


def _wrong_with_devices(state: State) -> Iterator[str]:
    """Compute again what nodes offer, once every requirement is evaluated."""
    devices = state.devices
    for node in state.claims.nodes.values() if devices.settled else ():
        kept, anew = state.claims._table._offered.get(node.name, {}).get("devices", ()), devices._offered(node)
        if kept != anew:
            yield f"node {node.name} offers {kept} of devices, and has {anew}"
    for uid, seen in devices._users.items():
        if (
            devices.settled
            and (pod := state.pods.get(uid)) is not None
            and devices._resolve(seen.raw).resolved.requests != pod.requests
        ):
            yield f"pod {pod.name} asks for {pod.requests}, which are amounts of earlier"


def _wrong_with_volumes(state: State) -> Iterator[str]:
    """Compute again what nodes offer and pods request; no volume may be promised twice."""
    volumes, claims = state.volumes, state.claims
    if not volumes.settled:
        return
    for node in claims.nodes.values():
        kept, anew = claims._table._offered.get(node.name, {}).get("volumes", ()), volumes._offered(node)
        if kept != anew and (kept or volumes._waited_for):
            yield f"node {node.name} offers {kept} of volumes, and has {anew}"
        named = [name for _, claim in claims.promised_on(node.name) for name, _ in claim.requests if name[:8] == VOLUME]
        for name in dict.fromkeys(named):
            if claims.room(node.name).get(name, 0) < 0:
                yield f"node {node.name} has promised more than it has: {name}"
    for uid, pod in volumes._pods.items():
        seen = state.pods[uid]
        if volumes.resolved(replace(seen, topology=pod.topology)).requests != seen.requests:
            yield f"pod {pod.name} asks for {seen.requests}, which are amounts of earlier"


def _wrong_with(state: State, workload: Workload) -> Iterator[str]:
    members = workload.members
    empty = not (len(members) or workload.reserved) and workload.job is None and workload.podsets is None
    if empty and state.process.recovered:
        yield "an empty workload is still known"
    for member in members:
        if state.pods.get(member.uid) is not member.pod or member.pod.group_key != workload.key:
            yield f"member {member.uid} differs from the pod of that UID, or belongs to another gang"
        yield from _member(state, workload, member)
    yield from differences(workload)
    if drift := workload.status.drift(workload.status_by_facts):
        yield drift
    yield from _slots(state, workload)
    waits, lacking = workload.key in state.pending.keys, members.slots.lacking
    if waits is not (bool(lacking) and not workload.paused):
        yield f"waiting is {waits}, but the slots that lack a node are {lacking}"
    if state.process.synced and waits and not workload.releasing and workload.key not in state.pending.due:
        yield from _demand(state, workload)
    yield from _quorum(state, workload)


def _member(state: State, workload: Workload, member: Member) -> Iterator[str]:
    pod, uid, node = member.pod, member.uid, member.node
    claim, binding = state.claims.get(uid), state.binds.writing.get(uid)
    if member.placed and member.state is not MemberState.BINDING and (not pod.live or pod.node):
        yield f"room on {node} is promised to {uid}, which is bound, gone or going"
    if member.placed and not pod.terminal:
        if claim is None or (claim.node, claim.state) != (node, ClaimState.ASSUMED):
            yield f"the promise of {node} to {uid} is claimed as {claim}"
        settled = not workload.releasing and member.state is not MemberState.UNKNOWN
        known = state.claims.nodes.get(node)
        counted = settled and (known is None or not known.bare)  # the content of a left-out node is unknown
        if claim is not None and counted and state.claims.overcommitted(node, claim.requests):
            yield f"node {node} is overcommitted by the promise to {uid}"
    yield from _hold(state, member)
    if member.state is MemberState.BINDING and (binding is None or binding.node != node):
        yield f"the Binding of {uid} to {node} is not under way: {binding}"
    if member.step is Step.FAILED and not workload.releasing and member.state is not MemberState.UNKNOWN:
        yield f"{uid} keeps its promise, and nobody tells kube-scheduler of it"
    if workload.release.last == uid and member.hold is None:
        yield f"the last member of the release, {uid}, is not held"


def _hold(state: State, member: Member) -> Iterator[str]:
    uid, hold = member.uid, member.hold
    if member.state is MemberState.HELD and hold is None:
        yield f"{uid} is held, and no call waits"
    if hold is not None and hold.node != member.node:
        yield f"{uid} is held for {hold.node}, but its promise is {member.node}"
    if hold is not None and state.binds.held.get(hold.call) != uid:
        yield f"call {hold.call} of the held {uid} is indexed as {state.binds.held.get(hold.call)}"


def _slots(state: State, workload: Workload) -> Iterator[str]:
    for slot in workload.reserved:
        claim = state.claims.get(SlotOf(workload.key, slot))
        if claim is None or claim.state is not ClaimState.RESERVED:
            yield f"room reserved for slot {slot} is claimed as {claim}"
    for slot, node in workload.members.slots.planned.items():
        claim = state.claims.get(SlotOf(workload.key, slot))
        if claim is None or (claim.node, claim.state) != (node, ClaimState.ASSUMED):
            yield f"the promise of {node} to slot {slot} is claimed as {claim}"


def _demand(state: State, workload: Workload) -> Iterator[str]:
    """The planner's demand of a waiting workload is right until it is marked as stale."""
    demand = workload.current_demand
    if demand is None:
        yield "it waits, and nobody is going to look at it"
    elif any(name in state.schedulers for name in workload.members.declared.schedulers):
        slots, why = to_be_planned(workload, state.make(Problems))
        lacking = [workload.constrained(pod) for pod in workload.members.unplaced(slots) if not pod.foreign_gates]
        shapes = [shape_of(pod) for pod in lacking]
        enough = len(lacking) >= workload.lacking
        trouble = why or (too_many_shapes(shapes, state.limits) if enough else None)
        if demand.trouble != trouble:
            yield f"its trouble is taken for {demand.trouble}, and is {trouble}"
        wanted, free = (tuple(pod.identity for pod in pods) for pods in (demand.pods, lacking))
        if demand.shape is not None and wanted != free:
            yield f"nodes are wanted for {wanted}, and lacking for {free}"


def _quorum(state: State, workload: Workload) -> Iterator[str]:
    """Bound members are 0 or minMember at least, except for starts that are under way or known to be broken."""
    members, release, needed = workload.members, workload.release, workload.min_member
    ours = all(pod.scheduler in state.schedulers for pod in workload.live)
    if (
        not state.process.recovered
        or not ours
        or needed is None
        or release.complete
        or workload.releasing
        or workload.paused
    ):
        return
    broken = members.started and not workload.has_bound_quorum and not workload.outcome_unknown
    if broken and release.partial_since is None:
        yield f"bound in part ({workload.share(Stage.BOUND)}), and nobody minds"
    if members.holds and workload.has_quorum(Stage.ARRIVED):
        yield "its quorum has arrived, and its binds are still held"
    if not members.started and not workload.outcome_unknown and release.partial_since is not None:
        yield "marked as bound in part, but we have bound nothing of it"


def _wrong_with_expected(state: State) -> Iterator[str]:
    """Single pods count where room is kept for them, and nowhere else before they are bound."""
    for owner, tenant in state.claims.tenants:
        if isinstance(owner, Expected) and owner.uid not in state.singles.reserved:
            yield f"{tenant} is expected on {tenant.node}, where no room is kept for it"


def _wrong_with_claims(state: State) -> Iterator[str]:
    """Every promise has an owner, and every bound pod is counted where it is."""
    for owner, claim in state.claims:
        if isinstance(owner, SlotOf):
            workload = state.workloads.get(owner.workload)
            planned = workload.members.slots.planned if workload is not None else {}
            its_own = workload is not None and (owner.slot in workload.reserved or owner.slot in planned)
            kept = *state.preemptions.rooms(owner.workload), *state.backfills.rooms(owner.workload)
            if not (its_own or owner in kept):
                yield f"{claim} is claimed for {owner}, which is promised nothing"
            continue
        pod = state.pods.get(owner)
        if pod is None:
            yield f"{claim} is claimed for {owner}, which nobody knows"
            return
        owner_of = state.store.member(owner)
        alone = owner in state.binds.writing or owner in state.binds.unknown
        promised = alone or (owner_of is not None and owner_of[1].placed)
        if not claim.promised and (pod.terminal or pod.node != claim.node):
            yield f"{claim} is claimed as bound, but {owner} is on {pod.node}"
        if claim.promised and not promised:
            yield f"{claim} is assumed for {owner}, which was promised nothing"
        if claim.workload != pod.group_key:
            yield f"{claim} of {owner} is another workload's than {pod.group_key}"
    for uid, pod in state.pods.items():
        known = state.claims.get(uid)
        if pod.node and not pod.terminal and (known is None or known.node != pod.node or known.promised):
            yield f"{uid} is bound to {pod.node}, but claimed as {known}"


def _wrong_with_indexes(state: State) -> Iterator[str]:
    if state.store.dirty:
        yield f"{[*state.store.dirty]} have not been settled"
    held = {hold.call: uid for workload in state.workloads.values() for uid, hold in workload.members.holds.items()}
    if state.binds.held != held:
        yield f"the calls on file are {state.binds.held}, those held are {held}"
    for key in state.pending.keys:
        if key not in state.workloads:
            yield f"{key} waits, but is unknown"
    for key, (place, _, turn, workload) in state.pending._entries.items():
        if {place[0], turn[0]} != {fresh := put_off(state.failed_creation, workload)}:
            yield f"{key} waits for quota as one that is put off by {turn[0]}, and is by {fresh}"
    for uid, done in state.store.bound_by_us.items():
        if uid not in state.pods or (state.pods[uid].node, state.pods[uid].stamp) != (done.node, done.stamp):
            yield f"{uid} was bound to {done.node} by us, but the pod says otherwise"


def _wrong_with_pods(state: State) -> Iterator[str]:
    """The indexes of pods, beside their claims and gangs, agree with a fresh look at all pods."""
    singles, moved_pods, pods = state.singles, state.moved_pods._pods, state.pods.values()
    mounts = [((pod.namespace, claim), pod.uid) for pod in pods for claim in pod.claims]
    owned = [((pod.owner, pod.group_key), pod.uid) for pod in pods if pod.owner and not pod.ended]
    grouped = [(pod, pod.native_group or pod.job_group) for pod in pods if not pod.ended]
    natives = [(GroupKey(pod.namespace, group), (pod.uid, pod.node)) for pod, group in grouped if group]
    alone = [pod.uid for pod in pods if pod.group_key is None and _stands_in_line(state, pod)]
    indexes: dict[str, tuple[object, object]] = {
        "mount each volume claim": ({claim: {*uids} for claim, uids in state.volumes.users.items()}, _sets(mounts)),
        "are of each owner and gang": (
            {(owner, gang): {*uids} for owner, gangs in moved_pods.items() for gang, uids in gangs.items()},
            _sets(owned),
        ),
        "are of each native group": (
            {key: {*of.items()} for key, of in singles.natives._groups.items()},
            _sets(natives),
        ),
        "stand in line alone": ({*singles._roles}, {*alone}),
    }
    for what, (kept, fresh) in indexes.items():
        if kept != fresh:
            yield f"{kept} are taken to {what}, but a fresh look finds {fresh}"
    subsets: dict[str, tuple[Collection[str], Collection[str]]] = {
        "room is kept for": (singles.reserved, alone),
        "nominations are known of": (singles.nominated, alone),
        "a rest is known of": (singles.rests, state.pods),
        "a Binding is in doubt of": (state.binds.unknown, state.pods),
    }
    for what, (kept_of, known) in subsets.items():
        if left := [uid for uid in kept_of if uid not in known]:
            yield f"{what} {left}, which are gone, or wait no longer"


def _stands_in_line(state: State, pod: Pod) -> bool:
    waits = pod.live and not (pod.node or pod.gates or pod.native_group)
    return waits and pod.scheduler in state.schedulers


def _sets(pairs: Iterable[tuple[Hashable, Hashable]]) -> dict[Hashable, set[Hashable]]:
    sets: dict[Hashable, set[Hashable]] = {}
    for key, value in pairs:
        sets.setdefault(key, set()).add(value)
    return sets


def _wrong_with_quotas(state: State) -> Iterator[str]:
    """The room of a workload in a queue is exactly what it uses quota for."""
    quotas, used = state.quotas, dict[str, Counter[tuple[str, str]]]()
    for key in quotas.uses:
        queue, uses = quotas.queue_of(key), quotas.uses.of(key)
        kept = ClaimState.RESERVED  # its quota is lifted while a replacement is planned
        having = {owner for owner, claim in state.claims if claim.workload == key and claim.state is not kept}
        counted = {owner for owner, use in uses.items() if not use.unseen}
        if having != counted:
            yield f"{key} uses quota for {counted}, and has room for {having}"
        for use in uses.values():
            if queue is not None and use.queue != queue.name:
                yield f"{key} belongs to {queue.name}, and uses quota of {use.queue}"
            used.setdefault(use.queue, Counter()).update(use.usage)
    for owner, claim in state.claims:
        if claim.workload is not None and quotas.queue_of(claim.workload) and claim.workload not in quotas.uses:
            yield f"{owner} has room on {claim.node}, and uses no quota"
    for name, node in quotas.queues.snapshot.tree.queues.items():
        if +node.used != +used.get(name, Counter()):
            yield f"{name} is taken to use {node.used}, and its workloads use {used.get(name)}"


def validate_claims(claims: Claims) -> None:
    """Recount everything from the nodes and the claims: the arrays must say the same."""
    _validate_table(claims._table)
    view = claims.snapshot()
    free = view.allocatable.copy()
    for _, claim in claims:
        if (row := view.rows.get(claim.node)) is not None:
            for name, amount in claim.requests:
                if (line := view.resources.get(name)) is not None:
                    free[line, row] -= amount
    assert np.array_equal(free, view.free), "free amounts differ from the claims"


def _validate_table(table: Table) -> None:
    """Recompute all values from the nodes; the incrementally kept ones must agree."""
    _validate_facts(table._facts)
    validate_tenants(table.tenants)
    view, nodes = table.snapshot(), [table.nodes[name] for name in table._facts.names]
    for name, line in table.resources.items():
        beside = [dict(chain.from_iterable(table._offered.get(node.name, {}).values())).get(name, 0) for node in nodes]
        listed = [dict(node.allocatable).get(name, 0) for node in nodes]
        # Negative amounts are kept back.
        offered = [(here or max(0, more)) + min(0, more) for here, more in zip(listed, beside, strict=True)]
        assert view.allocatable[line].tolist() == offered, f"allocatable {name} is stale"
    for scratch in table._scratches:
        # A lent snapshot shows what a statement tries.
        known = [row for row in range(len(nodes)) if row not in scratch.behind and not scratch.lent]
        assert np.array_equal(scratch.free[:, known], table.free[:, known]), "a statement has left something behind"


def _validate_facts(facts: Facts) -> None:
    nodes, rank = [facts.nodes[name] for name in facts.names], facts.rank()
    assert facts.rows == {name: row for row, name in enumerate(facts.names)}, "the rows are mixed up"
    ordered = sorted(facts.names)
    assert [ordered[place] for place in rank] == facts.names, "the ranks are not those of the names"
    for fact, column in facts._columns.items():
        known = [column.values[code] if code >= 0 else None for code in column.codes(len(nodes))]
        assert known == [fact.of(node) for node in nodes], f"the column of {fact} is stale"
    for selection, mask in facts._masks.items():
        fresh = [admits(node, selection) for node in nodes]
        assert np.unpackbits(mask)[: len(nodes)].tolist() == fresh, "a cached eligibility mask is stale"
