"""Pods of no gang that were refused for the sake of promised room, and where such promises have ended since."""

from __future__ import annotations

from policies.model import Pod


class KeptOut:
    """``pods``: by UID, as kube-scheduler has shown them: the watch may have yet to. ``reopened``: nodes."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.reopened: dict[str, None] = {}

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod

    def drop(self, uid: str) -> None:
        self.pods.pop(uid, None)

    def reopen(self, node: str) -> None:
        """A promise of room there has ended: it may be for one of them."""
        if self.pods:
            self.reopened[node] = None

    def take_reopened(self) -> dict[str, None]:
        """The nodes since the last time."""
        nodes, self.reopened = self.reopened, {}
        return nodes
