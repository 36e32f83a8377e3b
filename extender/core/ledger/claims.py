"""Claims: which pod or slot has room on which node. No other record of room exists.

Bound pods, promised nodes and reservations share the same arrays, so that no amount is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

from extender.core.ledger.nodes import Table
from policies.model import Constraints, GroupKey, Node, Pod, Requests, Selection, SlotKey
from policies.model.levels import LevelKey
from policies.placement.closed import why_closed
from policies.placement.matching import admits
from policies.placement.snapshot import Snapshot
from policies.placement.tenants import Tenants
from policies.quota.tree import QuotaTree
from policies.statement import Statement


class SlotOf(NamedTuple):
    """A slot of a workload that has no pod."""

    workload: GroupKey
    slot: SlotKey


Owner = str | SlotOf
"""The owner of a claim: a pod, by its UID, or a slot that has no pod."""


class Expected(NamedTuple):
    """A single pod for which room is kept."""

    uid: str


class ClaimState(Enum):
    """The reason why a claim exists."""

    ASSUMED = "assumed"
    """A plan promises the room, and the watch has yet to show the pod on the node."""
    RESERVED = "reserved"
    """Room promised to the replacement of a lost member."""
    AWAITED = "awaited"
    """Room kept for a preemptor or for a reservation: what has come free of it, until its workload starts."""
    BOUND = "bound"
    TERMINATING = "terminating"


_OURS = (ClaimState.ASSUMED, ClaimState.RESERVED, ClaimState.AWAITED)


class Claim(NamedTuple):
    """Room on a node.

    ``workload``: the workload whose member the owner is; None for a single pod.
    ``until``: when a reservation for a replacement lapses.
    """

    node: str
    requests: Requests
    state: ClaimState
    workload: GroupKey | None = None
    until: float | None = None

    @property
    def promised(self) -> bool:
        """Whether the watch has yet to confirm the claim."""
        return self.state in _OURS


def emptied(table: dict[Any, Any]) -> Iterator[None]:
    """Empty the dictionary, one entry a step."""
    while table:
        table.popitem()
        yield


class Claims:
    """Free amounts per node, kept up to date claim by claim.

    ``levels``: topology levels, nearest first; empty to detect them. ``configured``: their labels.
    ``changes``: a counter that grows whenever room changes hands, a node changes, a reservation begins or ends, or the
    expected end of a claim moves.
    """

    def __init__(self, levels: tuple[LevelKey, ...] = ()) -> None:
        self.configured, self.changes = tuple(level.key for level in levels), 0
        self._table = Table(levels)
        self._claims: dict[Owner, Claim] = {}
        self._on_node: dict[str, dict[Owner, Claim]] = {}
        self._promised_on: dict[str, dict[Owner, None]] = {}
        self.on_move: tuple[Callable[[Owner, Claim, bool], None], ...] = ()
        """Callbacks with (owner, claim, made): ``made`` is True for a claim that begins, False for one that ends."""
        self.on_node: tuple[Callable[[str, bool], None], ...] = ()
        """Callbacks with a node that came, went or changed, and whether its labels did."""

    @property
    def nodes(self) -> dict[str, Node]:
        return self._table.nodes

    @property
    def tenants(self) -> Tenants:
        """The same pods, by what other pods may demand of them: affinity, spread and ports."""
        return self._table.tenants

    def set_node(self, node: Node) -> None:
        """Add a node or update its facts. Claims on it that were made before the node was seen are counted now."""
        self.changes += 1
        before = self._table.put(node)
        self._take_fresh(node.name if before is None else "")
        if before is None:
            for claim in self._on_node.get(node.name, {}).values():
                self._take(claim, 1)
        relabelled = before is None or before.labels != node.labels
        for follow in self.on_node:
            follow(node.name, relabelled)

    def offer(self, node: str, amounts: Requests, what: str) -> None:
        """Add amounts to what the node lists. ``what``: who offers them, devices or volumes; they replace its earlier
        ones."""
        self.changes += self._table.offer(node, amounts, what)
        self._take_fresh()

    def _take_fresh(self, new: str = "") -> None:
        """Subtract what claims use of resources that had no line before. The caller subtracts the claims of a ``new``
        node."""
        if fresh := self._table.take_fresh():
            for claim in self._claims.values():
                if claim.node != new:
                    self._take(
                        claim._replace(requests=tuple(request for request in claim.requests if request[0] in fresh)), 1
                    )

    def declare(self, topologies: tuple[tuple[str, ...], ...]) -> bool:
        self.changes += (new := self._table.declare(topologies))
        return new

    def drop_node(self, name: str) -> None:
        """Forget a node. Claims on it stay, in case it comes back."""
        self.changes += 1
        self._table.drop(name)
        for follow in self.on_node:
            follow(name, False)  # noqa: FBT003

    def get(self, owner: Owner) -> Claim | None:
        return self._claims.get(owner)

    def __iter__(self) -> Iterator[tuple[Owner, Claim]]:
        return iter(self._claims.items())

    def __len__(self) -> int:
        return len(self._claims)

    def take_apart(self) -> Iterator[None]:
        """Drop all claims in small steps, when the core is not needed any more."""
        for table in (self._claims, self._on_node, self._promised_on):
            yield from emptied(table)

    def all(self) -> dict[Owner, Claim]:
        """Return all claims as they are now."""
        return self._claims.copy()

    def assume(self, pod: Pod, node: str, owner: Owner | None = None) -> None:
        """Promise the pod a node. ``owner``: the slot, as long as the pod does not exist."""
        owner = pod.uid if owner is None else owner
        self._put(owner, Claim(node, pod.requests, ClaimState.ASSUMED, pod.group_key))
        self._table.tenants.put(owner, pod, node)

    def confirm(self, pod: Pod) -> None:
        """Record that the API server shows the pod on its node."""
        state = ClaimState.TERMINATING if pod.deleting else ClaimState.BOUND
        self._put(pod.uid, Claim(pod.node or "", pod.requests, state, pod.group_key))
        self._table.tenants.put(pod.uid, pod, pod.node or "")

    def reserve(self, owner: SlotOf, claim: Claim, until: float) -> None:
        """Keep the room of a lost member for its replacement, at most ``until`` that instant."""
        self._put(owner, Claim(claim.node, claim.requests, ClaimState.RESERVED, owner.workload, until))

    def reduce(self, owner: Owner, amounts: Mapping[str, int]) -> None:
        """Subtract these amounts from the claim, as far as it has them."""
        if (claim := self._claims.get(owner)) is not None:
            left = tuple((name, max(0, much - amounts.get(name, 0))) for name, much in claim.requests)
            self._put(owner, claim._replace(requests=left))

    def await_room(self, owner: SlotOf, node: str, requests: Requests) -> None:
        """Keep free room on the node for a preemptor or a reservation."""
        self._put(owner, Claim(node, requests, ClaimState.AWAITED))

    def expect(self, pod: Pod, node: str) -> None:
        """Count the ports and anti-affinity of a pod that is about to come to the node, so that no conflicting pod gets
        there."""
        constraints = pod.constraints
        if constraints.ports or constraints.anti_affinity:
            away = Constraints(ports=constraints.ports, anti_affinity=constraints.anti_affinity)
            self.tenants.put(Expected(pod.uid), replace(pod, labels=(), constraints=away), node)

    def expect_no_longer(self, uid: str) -> None:
        """Drop what ``expect`` counted: the pod is on the node, or goes to another one."""
        self.tenants.drop(Expected(uid))

    def release(self, owner: Owner) -> Claim | None:
        """End the claim and free its room. Returns the claim, or None if there was none."""
        claim = self._claims.pop(owner, None)
        if claim is None:
            return None
        self._table.tenants.drop(owner)
        for index in (self._on_node, self._promised_on):
            there = index.get(claim.node)
            if there is not None:
                there.pop(owner, None)
                if not there:
                    del index[claim.node]
        self._take(claim, -1)
        for follow in self.on_move:
            follow(owner, claim, False)  # noqa: FBT003
        return claim

    def note_change(self) -> None:
        """Count a change of an expected end, or of a reservation."""
        self.changes += 1

    def promised_on(self, node: str) -> list[tuple[Owner, Claim]]:
        """The claims on the node that the watch has yet to confirm, oldest first."""
        owners = self._promised_on.get(node)
        return [] if owners is None else [(owner, self._claims[owner]) for owner in owners]

    @property
    def promised_nodes(self) -> dict[str, dict[Owner, None]]:
        return self._promised_on

    def room(self, node: str, requests: Requests | None = None) -> dict[str, int]:
        """Return the free amounts of the node beside all claims, by resource; nothing for an unknown node.

        ``requests``: limits the answer to the resources of these requests that some node offers.
        """
        table = self._table
        row = table.rows.get(node)
        if row is None:
            return {}
        if requests is not None:
            lines = [(name, line) for name, _ in requests if (line := table.resources.get(name)) is not None]
            return {name: int(table.free[line, row]) for name, line in lines}
        return dict(zip(table.resources, table.free[: len(table.resources), row].tolist(), strict=True))

    def fits(self, node: str, requests: Requests) -> bool:
        """Whether a pod with these requests fits on the node beside all claims. Unknown nodes have no room."""
        table = self._table
        row = table.rows.get(node)
        if row is None:
            return False
        lines = ((table.resources.get(name), amount) for name, amount in requests if amount)
        return all(line is not None and table.free[line, row] >= amount for line, amount in lines)

    def admits(self, node: str, selection: Selection) -> bool:
        known = self.nodes.get(node)
        return known is not None and admits(known, selection)

    def why_closed(self, node: str, selection: Selection) -> str:
        """Say why the node does not admit such pods."""
        return why_closed(self.nodes.get(node), selection)

    def admitting(self, selection: Selection) -> Callable[[str], bool]:
        """The test ``admits`` for one selection and many nodes: the selection is evaluated once for all of them."""
        rows, mask = self._table.rows, self.snapshot().eligible(selection)
        return lambda node: (row := rows.get(node)) is not None and bool(mask[row])

    def overcommitted(self, node: str, requests: Requests) -> bool:
        """Whether the node has less than nothing left of a resource that these requests ask for."""
        table = self._table
        row = table.rows.get(node)
        if row is None:
            return False
        return any(
            table.free[table.resources[name], row] < 0
            for name, amount in requests
            if amount and name in table.resources
        )

    def unfit(self, pod: Pod, node: str) -> str | None:
        """Why a promise of the node to this pod cannot be kept any more; None while it can."""
        if not self.admits(node, pod.selection):
            return f"node {node} {self.why_closed(node, pod.selection)}"
        if self.overcommitted(node, pod.requests):
            return f"node {node} has been filled by other pods"
        return None

    def domains(self, node: str) -> Iterator[tuple[str, str]]:
        """Yield level and domain of the node, nearest first. Levels in which it has no domain are left out."""
        row = self._table.rows.get(node)
        for level in self._table.levels() if row is not None else ():
            if (code := int(level.codes[row])) >= 0:
                yield level.key, level.names[code]

    def on(self, node: str) -> Iterator[tuple[Owner, Claim]]:
        """The owners and claims on the node."""
        return iter(self._on_node.get(node, {}).items())

    def snapshot(self) -> Snapshot:
        """The nodes and free amounts for policies: a view that is valid until the next change.

        After ``lend`` it stays valid indefinitely.
        """
        return self._table.snapshot()

    def statement(self, tree: QuotaTree | None = None) -> Statement:
        """Return a statement on the room of now, with the quota of ``tree``, for one outermost block.

        Other code sees none of its changes of nodes, and the statement sees later changes of nodes. The quota tree is
        shared, so nothing else may happen between a change of the tree and the end of that block.
        """
        scratch = self._table.borrow()
        view = self._table.snapshot(scratch)
        lines, count = view.free.shape
        return Statement(view, tree, scratch.free[:lines, :count], of_ledger=True, on_end=scratch.give_back)

    def leave_out(self, statement: Statement, owners: Iterable[Owner]) -> None:
        """Try the statement without the room of these owners."""
        for owner in owners:
            if (claim := self._claims.get(owner)) is not None:
                statement.release(claim.node, claim.requests)

    def lend(self) -> None:
        """Freeze the snapshots that were handed out: later changes go to new arrays."""
        self._table.lend()

    def _put(self, owner: Owner, claim: Claim) -> None:
        """Make the claim, in place of the owner's earlier one."""
        known = self._claims.get(owner)
        if known is not None and known == claim:
            return
        moves = known is None or (known.node, known.requests) != (claim.node, claim.requests)
        if known is not None and moves:
            self.release(owner)
        if moves:
            self._take(claim, 1)
        self._claims[owner] = claim
        self._on_node.setdefault(claim.node, {})[owner] = claim
        if claim.promised:
            self._promised_on.setdefault(claim.node, {})[owner] = None
        elif known is not None and (there := self._promised_on.get(claim.node)) is not None:
            there.pop(owner, None)
            if not there:
                del self._promised_on[claim.node]
        for follow in self.on_move if moves else ():
            follow(owner, claim, True)  # noqa: FBT003

    def _take(self, claim: Claim, sign: int) -> None:
        """Subtract the room of the claim from its node; with ``sign`` -1, give it back."""
        self.changes += 1
        self._table.take(claim.node, claim.requests, sign)
