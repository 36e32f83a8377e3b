"""The changes of a core since the last update, for the dashboard's feed (``extender.api.feed``).

Views are made of workloads and nodes that have changed, one at a time, so that the caller can let kube-scheduler's
calls in between. All other views are made again in turn, within five minutes: a change without a notice is late, and
not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, inf
from typing import Any

import msgspec
from pydantic import BaseModel

from extender.api.feed import Happening, Load, NodeView, NodeWorkload
from extender.api.models import UtilisationView
from extender.core.effects import Milestone, Reached
from extender.core.engine import Engine
from extender.core.ledger.claims import Claim, ClaimState, Owner, SlotOf
from extender.core.ledger.state import State
from extender.observe.quality import gpu_kinds, gpus_of
from extender.observe.queues import queues
from extender.observe.topology import devices_of, topology
from extender.observe.utilisation import UNASKED, Usage, Utilisation
from extender.observe.views import marked, view
from policies.model import GroupKey, Pod
from policies.placement.snapshot import Snapshot
from policies.steps import with_pauses

ROUND_S = 300.0
"""Every view is made again within this time: with 5,000 nodes and 2,000 workloads a minute would be 0.7 % of a core."""
QUEUES_S = 2.0
"""Queues are viewed no more often: all of them are made together."""
LARGEST = 64 << 10
"""The bytes of views in one update, which is written in half a millisecond; further views go into the next one."""
_PAUSE = ("", None)
"""In place of a view: the end of a step."""
_USED, _PROMISED = (ClaimState.BOUND, ClaimState.TERMINATING), (ClaimState.ASSUMED,)


class Changes:
    """Follows a core from its making until ``stop``.

    ``now``, ``wall``: this instant by the core's clock, and in seconds since 1970.
    ``utilisation``: the last measurement.
    ``noticed``: called at each change.
    """

    def __init__(
        self,
        core: Engine,
        now: float,
        wall: float,
        utilisation: Callable[[], Utilisation] = lambda: UNASKED,
        noticed: Callable[[], object] = lambda: None,
    ) -> None:
        self.core = core
        self._noticed = noticed
        self._utilisation, self._measured = utilisation, UNASKED
        self._queue_loads: dict[str, UtilisationView] = {}
        self._from, self._wall = now, wall
        self._number = 0
        self._open = False
        """Whether the last update announced another one."""
        self._gangs: dict[GroupKey, bool] = dict.fromkeys(core.state.workloads, False)
        """Workloads to view. True: they have changed, and their nodes are viewed, too."""
        self._nodes: dict[str, None] = dict.fromkeys(core.state.claims.nodes)
        self._relabelled, self._queues_at = True, -inf
        self._sent: dict[object, int] = {}
        """A hash of the bytes of each view that was sent."""
        self._happenings: list[Happening] = []
        self._turn_from = now
        self._turn: Iterator[Callable[[], None]] = iter(())
        self._left = 0
        store, claims, expectations = core.state.store, core.state.claims, core.state.expectations
        expectations.on_change = (*expectations.on_change, self._expected)
        store.on_settle = (*store.on_settle, self._settled)
        store.on_put = (*store.on_put, self._recorded)
        claims.on_move = (*claims.on_move, self._moved)
        claims.on_node = (*claims.on_node, self._node_changed)

    def stop(self) -> None:
        """Stop following the core."""
        store, claims, expectations = self.core.state.store, self.core.state.claims, self.core.state.expectations
        expectations.on_change = tuple(follow for follow in expectations.on_change if follow != self._expected)
        store.on_settle = tuple(listener for listener in store.on_settle if listener != self._settled)
        store.on_put = tuple(listener for listener in store.on_put if listener != self._recorded)
        claims.on_move = tuple(listener for listener in claims.on_move if listener != self._moved)
        claims.on_node = tuple(listener for listener in claims.on_node if listener != self._node_changed)

    def reached(self, effect: Reached, wall: float) -> None:
        """Record a start, or the evictions of a preemption, at ``wall``, for the history."""
        if effect.milestone is Milestone.STARTED:
            self._happenings.append(Happening(at=wall, kind="start", waited_s=effect.after_s))
            self._noticed()
        elif effect.milestone is Milestone.PREEMPTING:
            self._happenings += [Happening(at=wall, kind="eviction") for _ in effect.rules]
            self._noticed()

    def updates(self, now: float) -> Iterator[bytes]:
        """Yield updates as JSON with all changes until ``now``, and an empty text after each view.

        Changes that arrive in the meantime belong to the next call.
        """
        self._take_turns(now)
        gangs, self._gangs = self._gangs, {}
        nodes, self._nodes = self._nodes, {}
        happenings, self._happenings = self._happenings, []
        whole, size = self._number == 0, 0
        fields: dict[str, Any] = {"happenings": happenings}
        for kind, value in self._views(gangs, nodes, now):
            if value is not None:
                if kind in ("topology", "queues"):
                    fields[kind] = value
                else:
                    fields.setdefault(kind, []).append(value)
                size += len(value) if isinstance(value, msgspec.Raw) else 64
            if size > LARGEST:
                yield self._written(now, fields, whole=whole, more=True)
                fields, whole, size = {}, False, 0
            yield b""
        if whole or any(fields.values()):
            yield self._written(now, fields, whole=whole, more=False)
        elif self._open:
            yield self._written(now, {}, whole=False, more=False)

    def _written(self, now: float, fields: dict[str, Any], *, whole: bool, more: bool) -> bytes:
        raws = [msgspec.Raw(happening.model_dump_json().encode()) for happening in fields.pop("happenings", ())]
        head = {
            "number": self._number,
            "as_of": self._wall + now - self._from,
            "views_as_of": self._wall,
            "whole": whole,
            "more": more,
            "happenings": raws,
        }
        self._number += 1
        self._open = more
        return msgspec.json.encode(head | fields)

    def _views(self, gangs: dict[GroupKey, bool], nodes: dict[str, None], now: float) -> Iterator[tuple[str, Any]]:
        state = self.core.state
        if self._relabelled:
            self._relabelled = False
            made = topology(state.claims.snapshot(), configured=bool(state.claims.configured))
            yield "topology", self._if_new("topology", _text(made))
        for key, changed in gangs.items():
            if (workload := state.workloads.get(key)) is not None:
                nodes |= dict.fromkeys(workload.member_nodes if changed else ())
                yield "gangs", self._if_new(key, _text(view(state, workload, self._from, marked)))
            elif self._sent.pop(key, None) is not None:
                self._sent.pop(("load", key), None)
                yield "gone_gangs", list(key)
        for name in nodes:
            if name in state.claims.nodes:
                yield "nodes", self._if_new(name, _text(node_view(state, state.claims.snapshot(), name)))
            elif self._sent.pop(name, None) is not None:
                self._sent.pop(("load", name), None)
                yield "gone_nodes", name
        if (measured := self._utilisation()) is not self._measured:
            self._measured = measured
            yield from self._loads(measured, now)
        if now - self._queues_at >= QUEUES_S:
            self._queues_at = now
            yield from self._queues()

    def _queues(self) -> Iterator[tuple[str, Any]]:
        texts: list[bytes] = []
        for queue in (yield from with_pauses(queues(self.core, self._from, marked), _PAUSE)):
            queue.utilisation = self._queue_loads.get(queue.name) if queue.kind == "ClusterQueue" else None
            texts.append(_text(queue))
            yield _PAUSE
        yield "queues", self._if_new("queues", b"[" + b",".join(texts) + b"]")

    def _loads(self, measured: Utilisation, now: float) -> Iterator[tuple[str, Any]]:
        """Make the loads of gangs and nodes that this measurement has changed, and keep those of ClusterQueues."""
        state = self.core.state
        by_queue: dict[str, list[Usage]] = {}
        for key in list(state.workloads):
            if (gang := state.workloads.get(key)) is not None:
                usages = [] if (usage := measured.usage(state, gang, now)) is None else [usage]
                if (queue := state.quotas.queue_of(key)) is not None:
                    by_queue.setdefault(queue.name, []).extend(usages)
                made = Load(namespace=key.namespace, name=key.name, utilisation=measured.view(usages))
                yield "gang_loads", self._load_if_new(key, made)
        self._queue_loads = yield from with_pauses(measured.views(by_queue), _PAUSE)
        unknown = dict.fromkeys(state.claims.nodes)
        for node in (yield from with_pauses(measured.of_nodes(state), _PAUSE)):
            unknown.pop(node.node, None)
            yield "node_loads", self._load_if_new(node.node, Load(name=node.node, utilisation=node.utilisation))
        for name in unknown:
            yield "node_loads", self._load_if_new(name, Load(name=name))

    def _load_if_new(self, key: object, made: Load) -> msgspec.Raw | None:
        """Return the load as JSON; None if it equals the last one that was sent, or if none is known and none was."""
        known = ("load", key)
        return self._if_new(known, _text(made)) if made.utilisation is not None or known in self._sent else None

    def _if_new(self, key: object, text: bytes) -> msgspec.Raw | None:
        """Return the view, given as JSON; None if it equals the last one that was sent."""
        if self._sent.get(key) == (digest := hash(text)):
            return None
        self._sent[key] = digest
        return msgspec.Raw(text)

    def _take_turns(self, now: float) -> None:
        """Add the views that are due by turn, so that each view is made once in a round."""
        passed_s, self._turn_from = now - self._turn_from, now
        known = len(self.core.state.workloads) + len(self.core.state.claims.nodes)
        for _ in range(ceil(known * min(1.0, passed_s / ROUND_S)) if passed_s > 0 else 0):
            if (add := next(self._turn, None)) is None:
                self._turn = self._round()
                break
            add()

    def _round(self) -> Iterator[Callable[[], None]]:
        """Go through all workloads and nodes that are known when the round begins."""
        for key in list(self.core.state.workloads):
            yield lambda key=key: self._gangs.setdefault(key, False)  # type: ignore[misc]
        for name in list(self.core.state.claims.nodes):
            yield lambda name=name: self._nodes.setdefault(name)  # type: ignore[misc]

    def _settled(self, key: GroupKey) -> None:
        self._gangs[key] = True
        self._noticed()

    def _expected(self, key: GroupKey) -> None:
        self._gangs.setdefault(key, False)
        self._noticed()

    def _recorded(self, pod: Pod, _: Pod | None) -> None:
        """Mark the node of a pod: promised room is used once the pod is bound, without a move of the claim."""
        if pod.node:
            self._mark_node(pod.node)

    def _moved(self, _owner: Owner, claim: Claim, _taken: bool) -> None:
        self._mark_node(claim.node)

    def _node_changed(self, name: str, relabelled: bool) -> None:
        self._mark_node(name)
        self._relabelled |= relabelled or name not in self.core.state.claims.nodes

    def _mark_node(self, name: str) -> None:
        self._nodes[name] = None
        self._noticed()


def _text(made: BaseModel) -> bytes:
    return made.model_dump_json().encode()


def node_view(state: State, snapshot: Snapshot, name: str) -> NodeView:
    """Return the node as it is now."""
    node, row = state.claims.nodes[name], snapshot.rows[name]
    lines = [snapshot.resources[kind] for kind in gpu_kinds(snapshot)]
    used = promised = reserved = 0
    workloads: dict[tuple[str, str], NodeWorkload] = {}
    for owner, claim in state.claims.on(name):
        if not (gpus := gpus_of(claim.requests)):
            continue
        if claim.state in _USED:
            used += gpus
        elif claim.state in _PROMISED:
            promised += gpus
        else:
            reserved += gpus
            continue
        if (key := _holder(state, owner, claim)) is not None:
            known = workloads.setdefault(key, NodeWorkload(namespace=key[0], name=key[1], gpus=0))
            known.gpus += gpus
            known.promised |= claim.state in _PROMISED
    return NodeView(
        name=name,
        domains={level.name: level.names[code] for level in snapshot.levels if (code := int(level.codes[row])) >= 0},
        open=node.ready and not node.unschedulable,
        gpus=sum(int(snapshot.allocatable[line, row]) for line in lines),
        used=used,
        promised=promised,
        reserved=reserved,
        free=sum(max(0, int(snapshot.free[line, row])) for line in lines),
        workloads=list(workloads.values()),
        devices=devices_of(state, snapshot, name),
        problems=[*([] if node.ready else ["not ready"]), *(["cordoned"] if node.unschedulable else [])],
    )


def _holder(state: State, owner: Owner, claim: Claim) -> tuple[str, str] | None:
    """Return the namespace and the name of the workload that has the room."""
    if (key := claim.workload or (owner.workload if isinstance(owner, SlotOf) else None)) is not None:
        return key.namespace, key.name
    pod = state.pods.get(owner) if isinstance(owner, str) else None
    return None if pod is None else (pod.namespace, f"pod {pod.name}")
