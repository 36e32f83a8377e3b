"""How a bug of the core is planted: events are changed on the way in, and effects on the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from extender.core.effects import Effect, Nominate
from extender.core.engine import Engine
from extender.core.events import Event, GroupSeen, NodeGone, NodeSeen, PodGone, PodSeen, PodsSeen, Synced
from policies.model import GroupKey, Node, Pod, PodGroup, Requests

Plant = Callable[[pytest.MonkeyPatch], None]
Hears = Callable[[Event, "Core"], Iterable[Event]]
Asks = Callable[[Effect, "Core"], Iterable[Effect]]


@dataclass(eq=False)
class Core:
    """A life of a core with a bug, and the objects that it was shown before the current event.

    ``promised``: the node that each pod was nominated for last.
    ``notes``: the bug's own.
    ``extra``: the effects of invented events.
    """

    engine: Engine
    real: Callable[[Engine, Event, float], list[Effect]]
    now: float = 0.0
    event: Event | None = None
    synced: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    groups: dict[GroupKey, PodGroup] = field(default_factory=dict)
    promised: dict[str, str] = field(default_factory=dict)
    notes: dict[Any, Any] = field(default_factory=dict)
    extra: list[Effect] = field(default_factory=list)
    _more: dict[str, Counter[str]] = field(default_factory=dict)

    def handle(self, event: Event) -> list[Effect]:
        """Let the core hear it now."""
        if isinstance(event, NodeSeen):
            event = NodeSeen(self._as_told(event.node))
        return self.real(self.engine, event, self.now)

    def lend(self, node: str, requests: Requests, sign: int) -> None:
        """Report more or less room on the node to the core from now on."""
        more = self._more.setdefault(node, Counter())
        for name, amount in requests:
            more[name] += sign * amount
        if (known := self.nodes.get(node)) is not None:
            self.extra += self.handle(NodeSeen(known))

    def members(self, key: GroupKey | None) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.group_key == key is not None]

    def remember(self, event: Event) -> None:
        match event:
            case PodSeen(pod):
                self.pods[pod.uid] = pod
                if pod.node or not pod.live:
                    self.promised.pop(pod.uid, None)
            case PodGone(uid):
                self.pods.pop(uid, None)
                self.promised.pop(uid, None)
            case NodeSeen(node):
                self.nodes[node.name] = node
            case NodeGone(name):
                self.nodes.pop(name, None)
            case GroupSeen(group):
                self.groups[group.key] = group
            case Synced():
                self.synced = True

    def promise(self, effect: Effect) -> None:
        match effect:
            case Nominate(uid, node=str(node)):
                self.promised[uid] = node
            case Nominate(uid):
                self.promised.pop(uid, None)

    def _as_told(self, node: Node) -> Node:
        more = self._more.get(node.name)
        if not more:
            return node
        return replace(node, allocatable=tuple((name, max(0, there + more[name])) for name, there in node.allocatable))


def core_bug(
    name: str, *, hears: Hears = lambda event, core: (event,), asks: Asks = lambda effect, core: (effect,)
) -> Plant:
    """Plant a bug: ``hears`` changes the events of each core, ``asks`` its effects."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = Engine.handle
        cores: dict[Engine, Core] = {}

        def handle(self: Engine, event: Event, now: float) -> list[Effect]:
            if isinstance(event, PodsSeen):
                return [effect for pod in event.pods for effect in handle(self, PodSeen(pod), now)]
            core = cores.setdefault(self, Core(self, real))
            core.now, core.event = now, event
            effects = [effect for heard in hears(event, core) for effect in core.handle(heard)]
            core.remember(event)
            changed: list[Effect] = []
            for effect in effects:
                changed += asks(effect, core)
                core.promise(effect)
            extra, core.extra = core.extra, []
            for effect in extra:
                core.promise(effect)
            return changed + extra

        patch.setattr(Engine, "handle", handle)

    plant.__name__ = name
    return plant


def hears(edit: Hears) -> Plant:
    """A bug in the core's use of events."""
    return core_bug(edit.__name__, hears=edit)


def asks(edit: Asks) -> Plant:
    """A bug in the core's requests."""
    return core_bug(edit.__name__, asks=edit)
