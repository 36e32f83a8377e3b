"""Pods that are not in the gang of their job, because somebody has moved them to another one or to none.

While such a pod is there, the controller of its job makes no other in its place.
"""

from __future__ import annotations

from policies.model import GroupKey, Pod

Touched = dict[GroupKey, None]
"""Workloads whose jobs have more or fewer such pods than before."""


class Astray:
    """All pods that have yet to end, by whose they are and the gang that they name."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[GroupKey | None, dict[str, None]]] = {}
        self._asked: dict[str, GroupKey] = {}
        """The gangs of jobs whose pods were asked for, by the UIDs of the jobs."""

    def see(self, pod: Pod, old: Pod | None) -> Touched:
        """The pod is there; ``old``: as it was known before."""
        before, after = None if old is None else _place(old), _place(pod)
        if before == after:
            return {}
        touched = {} if old is None else self.drop(old)
        if after is None:
            return touched
        owner, gang = after
        self._pods.setdefault(owner, {}).setdefault(gang, {})[pod.uid] = None
        return touched | self._concerned(owner, gang)

    def drop(self, pod: Pod) -> Touched:
        """It has ended, is gone, or is another's now."""
        if (place := _place(pod)) is None:
            return {}
        owner, gang = place
        touched, gangs = self._concerned(owner, gang), self._pods[owner]
        del gangs[gang][pod.uid]
        if not gangs[gang]:
            del gangs[gang]
        if not gangs:
            del self._pods[owner]
            self._asked.pop(owner, None)
        return touched

    def of(self, job: str, key: GroupKey) -> list[str]:
        """Which pods of the job with that UID are not in its gang. It is touched when that changes."""
        gangs = self._pods.get(job, {})
        if gangs:
            self._asked[job] = key
        return [uid for gang, uids in gangs.items() if gang != key for uid in uids]

    def _concerned(self, owner: str, gang: GroupKey | None) -> Touched:
        key = self._asked.get(owner)
        return {} if key is None or key == gang else {key: None}


def _place(pod: Pod) -> tuple[str, GroupKey | None] | None:
    return None if pod.ended or not pod.owner else (pod.owner, pod.group_key)
