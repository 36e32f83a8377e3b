"""Nodes that are promised and not written yet: a pin is written with its gate's removal, which may have to wait."""

from __future__ import annotations

from extender.core.answers import Nominated
from extender.core.effects import Effect, Milestone, Nominate, Reached
from extender.core.events import Event, PodGone, PodSeen
from policies.model import GANG_GATE, GroupKey
from tests.simulation.claims import Claims
from tests.simulation.shown import Shown


class Untold:
    """The unwritten pins in one life of the extender, if it pins. Members without a gate in a mixed gang are nominated.

    The gates of the others come off, each with its pin, when all these nominations are known to be written.
    """

    def __init__(self, shown: Shown, claims: Claims) -> None:
        self._shown = shown
        self._claims = claims
        self._nominating: dict[str, tuple[GroupKey, str]] = {}
        """Members with a nomination under way: their gangs and the nodes."""

    def hear(self, event: Event) -> None:
        match event:
            case Nominated(uid, node, detail) if self._nominating.get(uid, ("", ""))[1] == node:
                pod = self._shown.pods.get(uid)
                # One with a gate has its nomination shown before a gate of its gang comes off.
                if detail or pod is None or not pod.gates or pod.nominated_node == node:
                    del self._nominating[uid]
            case PodSeen(pod) if pod.uid in self._nominating:
                nominated = pod.gates and pod.nominated_node == self._nominating[pod.uid][1]
                if nominated or pod.node or not pod.live:
                    del self._nominating[pod.uid]
            case PodGone(uid):
                self._nominating.pop(uid, None)
            case _:
                pass

    def apply(self, effect: Effect) -> None:
        match effect:
            case Nominate(uid, node=str(node), group=GroupKey() as key):
                self._nominating[uid] = key, node
            case Nominate(uid):
                self._nominating.pop(uid, None)
            case Reached(key, Milestone.FORGOTTEN):
                self._nominating = {
                    uid: nomination for uid, nomination in self._nominating.items() if nomination[0] != key
                }
            case _:
                pass

    @property
    def any(self) -> bool:
        """Whether there may be such nodes: then the free room is unknown."""
        return any(
            GANG_GATE in pod.gates and pod.live and uid not in self._claims.promised
            for key in dict.fromkeys(key for key, _ in self._nominating.values())
            for uid, pod in self._shown.members.get(key, {}).items()
        )
