"""An index of things that are tied to nodes by their labels, such as volumes and capacities of storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from policies.model import HOSTNAME, Node, Requirement, Terms
from policies.placement.matching import reached

_Key = tuple[str, bool]
"""A label of a node, or with True a field."""


class Reach:
    """Finds what a node reaches by the values of its labels, without comparing everything with each node."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms | None] = {}
        self._by_value: dict[tuple[_Key, str], dict[str, None]] = {}
        self._keys: Counter[_Key] = Counter()
        self._rest: dict[str, None] = {}
        """The things that have no value to be found by."""
        self._nodes: dict[_Key, Counter[str]] = {}
        """How many nodes have each value, as last counted."""

    def put(self, name: str, terms: Terms | None) -> None:
        """Add a thing tied to the nodes that match one of the terms; None for all nodes."""
        self._terms[name] = terms
        values = _values(terms)
        if not values:
            self._rest[name] = None
        for value in values:
            self._by_value.setdefault(value, {})[name] = None
            self._keys[value[0]] += 1

    def drop(self, name: str) -> None:
        """Remove a thing, if it exists."""
        self._rest.pop(name, None)
        for value in _values(self._terms.pop(name, None)):
            there = self._by_value[value]
            del there[name]
            if not there:
                del self._by_value[value]
            self._keys[value[0]] -= 1
            if not self._keys[value[0]]:
                del self._keys[value[0]]

    def at(self, node: Node) -> Iterator[str]:
        """Yield the names of the things that the node reaches."""
        near = dict.fromkeys(self._rest)
        for key in self._keys:
            near |= self._by_value.get((key, _value(node, key)), {})
        return (name for name in near if reached(node, self._terms[name]))

    def nodes_of(self, name: str, nodes: Mapping[str, Node]) -> list[str] | None:
        """The nodes that reach it; empty if it does not exist, None if only a look at all nodes shows that."""
        if name not in self._terms:
            return []
        named: dict[str, None] = {}
        for key, value in _values(self._terms[name]) or [(("", False), "")]:
            node = nodes.get(value) if key in _NAMES else None
            if node is None or _value(node, key) != value:
                return None
            named[value] = None
        return list(named)

    def count(self, nodes: Mapping[str, Node]) -> None:
        """Count the nodes that have each value, for ``is_local``."""
        self._nodes = {key: Counter(_value(node, key) for node in nodes.values()) for key in self._keys}

    def is_local(self, name: str) -> bool:
        """Whether only one node reaches it, by the values as last counted."""
        values = _values(self._terms[name])
        return bool(values) and sum(self._nodes.get(key, Counter())[value] for key, value in values) <= 1


_NAMES: tuple[_Key, ...] = ((HOSTNAME, False), ("metadata.name", True))


def _value(node: Node, key: _Key) -> str:
    return node.name if key[1] else node.labels.get(key[0], "")


def _values(terms: Terms | None) -> list[tuple[_Key, str]]:
    """Values of which every matching node has one; empty if the terms name none."""
    values: dict[tuple[_Key, str], None] = {}
    for term in terms or ():
        listing = next((requirement for requirement in term if requirement.operator == "In"), None)
        if listing is None:
            return []
        values |= dict.fromkeys((_key(listing), value) for value in listing.values)
    return list(values)


def _key(requirement: Requirement) -> _Key:
    return requirement.key, requirement.is_field
