"""Pods of native groups (``spec.schedulingGroup``), by group. kube-scheduler starts those itself: Muster plans nothing
for them, and keeps in mind only what its scores need."""

from __future__ import annotations

from policies.model import GroupKey, Pod


class Natives:
    """All that have yet to end."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, dict[str, str | None]] = {}
        """The node of each pod, by UID."""
        self._keys: dict[str, GroupKey] = {}

    def see(self, pod: Pod) -> None:
        if not pod.native_group or pod.ended:
            return self.drop(pod.uid)
        self._keys[pod.uid] = key = GroupKey(pod.namespace, pod.native_group)
        self._groups.setdefault(key, {})[pod.uid] = pod.node
        return None

    def drop(self, uid: str) -> None:
        if (key := self._keys.pop(uid, None)) is not None:
            del self._groups[key][uid]
            if not self._groups[key]:
                del self._groups[key]

    def placed(self, pod: Pod) -> tuple[int, list[str]]:
        """How many of the pod's group have no node, the pod itself among them, and the nodes of the others."""
        group = self._groups.get(GroupKey(pod.namespace, pod.native_group), {})
        nodes = [node for uid, node in group.items() if node and uid != pod.uid]
        return max(1, sum(not node for node in group.values())), nodes
