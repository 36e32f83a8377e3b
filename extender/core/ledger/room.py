"""Changes of room: promises, kept room, and room that is given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.core.ledger.claims import Claim, Claims, Owner, SlotOf
from extender.core.ledger.devices import Devices
from extender.core.ledger.pending import Changes
from extender.core.ledger.singles import WaitingSingles
from extender.core.ledger.store import Store
from extender.core.workload.members import Member, MemberState
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod, Requests, SlotKey


@dataclass(eq=False)
class Room:
    """Moves room between its owners.

    ``reserving``: workloads with room that is kept until lost members are replaced.
    """

    _store: Store
    _claims: Claims
    _devices: Devices
    _singles: WaitingSingles
    _changes: Changes

    def __post_init__(self) -> None:
        self.reserving: dict[GroupKey, None] = {}
        self.on_free: tuple[Callable[[Claim], None], ...] = ()

    def assume(self, workload: Workload, member: Member, node: str) -> None:
        """Promise the member a node."""
        workload.members.move(member, MemberState.ASSUMED, node)
        self._changes.room_taken = True
        self._claims.assume(member.pod, node)
        self._store.mark_dirty(workload)

    def assume_alone(self, pod: Pod, node: str) -> None:
        """Promise a pod the node that its bind request names: no plan has promised it one."""
        self._changes.room_taken = True
        self._claims.assume(pod, node)

    def unassume(self, workload: Workload, member: Member) -> None:
        """Take back the member's promise. The caller has answered its bind request."""
        if member.placed:
            workload.members.move(member, MemberState.WAITING)
            if not member.pod.node:
                self.free(member.uid)
        self._store.mark_dirty(workload)

    def assume_slot(self, workload: Workload, slot: SlotKey, node: str, turn: int = 0) -> None:
        """Promise a node to the pod that will fill the slot; an empty ``node`` takes the promise back."""
        workload.members.slots.plan(slot, node, turn)
        owner = SlotOf(workload.key, slot)
        workload.bump_version()
        if node:
            self._changes.room_taken = True
            self._claims.assume(workload.members.slots.templates[slot], node, owner)
        else:
            self.free(owner)
        self._store.mark_dirty(workload)

    def reserve(self, workload: Workload, lost: Pod, claim: Claim, until: float) -> None:
        """Keep the room that a lost member had for its replacement."""
        if workload.reserve(lost):
            self.reserving[workload.key] = None
            self._changes.room_taken = True
            self._claims.reserve(SlotOf(workload.key, lost.uid), claim, until)

    def reserve_devices(self, workload: Workload, slot: SlotKey, claim: Claim) -> None:
        """Keep those devices of a lost member that have come free, too. ``claim``: the room kept for its replacement.

        Nothing happens unless devices are all that the claim lacks.
        """
        had, others = workload.reserved[slot].requests, self._devices.without_counted
        if claim.until is None or others(claim.requests) != others(had):
            return
        has, free = dict(claim.requests), self._claims.room(claim.node, had)
        amounts = ((name, min(much, has.get(name, 0) + max(0, free.get(name, 0)))) for name, much in had)
        # Amounts of 0 that the pod states are part of the claim, which would lack them at the next call.
        requests = tuple((name, much) for name, much in amounts if much or name in has)
        if requests != claim.requests:
            self._changes.room_taken = True
            self._claims.reserve(SlotOf(workload.key, slot), claim._replace(requests=requests), claim.until)

    def unreserve(self, workload: Workload, slot: SlotKey) -> None:
        workload.unreserve(slot)
        if not workload.reserved:
            del self.reserving[workload.key]
        self.free(SlotOf(workload.key, slot))
        self._store.mark_dirty(workload)

    def reserved_rooms(self, workload: Workload) -> list[Claim]:
        """The claims that keep room for replacements of lost members."""
        claims = (self._claims.get(SlotOf(workload.key, slot)) for slot in workload.reserved)
        return [claim for claim in claims if claim is not None]

    def use_reserved(self, workload: Workload, pod: Pod, node: str) -> None:
        """Give up kept room that a member needs on its node: that of the lost member most like it.

        Devices that it still lacks come from other kept room there, which gets devices again as they come free.
        Nothing happens if the member fits beside the kept room.
        """
        if self._claims.fits(node, pod.requests):
            return
        slots = [
            slot
            for slot in workload.reserved
            if (claim := self._claims.get(SlotOf(workload.key, slot))) is not None and claim.node == node
        ]
        slots.sort(key=lambda slot: _unlike(workload.reserved[slot], pod))
        for slot in slots[:1]:
            self.unreserve(workload, slot)
        for slot in slots[1:]:
            self._take_devices(SlotOf(workload.key, slot), pod, node)

    def _take_devices(self, owner: SlotOf, pod: Pod, node: str) -> None:
        """Reduce room that is kept on the node by the devices that the pod lacks there."""
        free, others = self._claims.room(node, pod.requests), self._devices.without_counted(pod.requests)
        lacks = {name: max(0, much - free.get(name, 0)) for name, much in pod.requests if (name, much) not in others}
        self._claims.reduce(owner, lacks)

    def unreserve_all(self, workload: Workload) -> None:
        """Give up all room that is kept for replacements."""
        for slot in list(workload.reserved):
            self.unreserve(workload, slot)

    def free(self, owner: Owner) -> None:
        """End the claim of the owner and call ``on_free``."""
        if (claim := self._claims.get(owner)) is not None:
            self._changes.will_free(claim.node, self._left(claim.node, claim.requests))
            self._claims.release(owner)
            for follow in self.on_free:
                follow(claim)

    def _left(self, node: str, requests: Requests) -> dict[str, int]:
        """Return the free amounts of these resources without room kept for single pods, as gangs are planned."""
        return self._singles.left(node, self._claims.room(node, requests))

    def unreserve_single(self, uid: str) -> None:
        """Give up the room that is kept for a single pod."""
        pod = self._singles.get(uid)
        for node, requests in self._singles.places(uid).items():
            self._changes.will_free(node, self._left(node, requests))
            if pod is not None:
                self._changes.ended[str(pod)] = None
        if uid in self._singles.reserved:
            self._singles.end(uid)
            self._claims.expect_no_longer(uid)

    def drop_displaced(self, *nodes: str) -> None:
        """Take back room on these nodes that is kept for single pods, where other pods have used it."""
        for uid in self._singles.displaced(nodes, self._claims) if self._singles.reserved else ():
            self.unreserve_single(uid)


def _unlike(lost: Pod, pod: Pod) -> tuple[bool, bool, bool]:
    """Sort key: how little the member resembles the lost one. The most similar takes the kept room first."""
    roles = [pod.group.role if pod.group is not None else "" for pod in (lost, pod)]
    return lost.identity != pod.identity, roles[0] != roles[1], lost.requests != pod.requests
