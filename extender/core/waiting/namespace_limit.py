"""How many waiting gangs of one namespace are looked at: whoever creates them without end holds up nobody else."""

from __future__ import annotations

from policies.model import GroupKey


class NamespaceLimit:
    """Gangs that wait, by namespace, in the order in which they came: inside as many as are looked at."""

    def __init__(self) -> None:
        self._inside: dict[str, dict[GroupKey, None]] = {}
        self._outside: dict[str, dict[GroupKey, None]] = {}

    def come(self, key: GroupKey, most: int) -> None:
        """It waits, inside if fewer than ``most`` of its namespace are. Nothing changes for one that waited already."""
        inside = self._inside.setdefault(key.namespace, {})
        if key not in inside:
            place = inside if len(inside) < most else self._outside.setdefault(key.namespace, {})
            place[key] = None

    def leave(self, key: GroupKey) -> GroupKey | None:
        """It waits no longer. Returns the one that gets in for it."""
        inside, outside = self._inside.get(key.namespace, {}), self._outside.get(key.namespace, {})
        outside.pop(key, None)
        if key not in inside:
            return None
        del inside[key]
        following = next(iter(outside), None)
        if following is not None:
            del outside[following]
            inside[following] = None
        elif not inside:
            del self._inside[key.namespace]
        if not outside:
            self._outside.pop(key.namespace, None)
        return following

    def keeps_out(self, key: GroupKey) -> bool:
        return key in self._outside.get(key.namespace, {})
