"""The colour and the pattern of each workload on the map.

The seven colours are those of Okabe and Ito, which people with any colour vision tell apart. With four patterns they
make 28 looks, and every look also has a label.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from extender.api.feed import NodeView

Key = tuple[str, str]
"""Namespace and name of a workload."""
LOOKS = 7 * 4
"""Colours times patterns."""


@dataclass(frozen=True)
class Look:
    """How a workload is drawn. ``number``: of its look, whose colour is the rest of a division by 7. ``label``: A to Z,
    then AA. ``gpus``: what it has on all nodes."""

    key: Key
    number: int
    label: str
    gpus: int

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod without a gang."""
        return is_pod(self.key)


def is_pod(key: Key) -> bool:
    """Whether that is the key of a pod without a gang, which has no page."""
    return key[1].startswith("pod ")


def looks(nodes: Sequence[NodeView], level: str, namespace: str = "") -> dict[Key, Look]:
    """Return the looks of the workloads on the nodes; ``namespace``: of this one alone.

    A workload keeps its look while others come and go, as far as possible. Two that share a domain never look alike
    while there are looks left.
    """
    gpus: dict[Key, int] = {}
    domains: dict[Key, dict[str, None]] = {}
    for node in nodes:
        for workload in node.workloads:
            if namespace in ("", workload.namespace):
                key = workload.namespace, workload.name
                gpus[key] = gpus.get(key, 0) + workload.gpus
                domains.setdefault(key, {})[node.domains.get(level, node.name)] = None
    taken: dict[str, set[int]] = {}
    by_key = {}
    everywhere: set[int] = set()
    for at, key in enumerate(sorted(gpus)):
        near = set().union(*(taken.get(domain, set()) for domain in domains[key]))
        number = _free(
            zlib.crc32("/".join(key).encode("utf-8", "replace")) % LOOKS,
            everywhere if len(everywhere) < LOOKS else near,
        )
        by_key[key] = Look(key, number, _label(at), gpus[key])
        everywhere.add(number)
        for domain in domains[key]:
            taken.setdefault(domain, set()).add(number)
    return by_key


def _free(wanted: int, taken: set[int]) -> int:
    """The wanted look, or the next one that is not taken: another colour comes before another pattern."""
    return next((number for step in range(LOOKS) if (number := (wanted + step) % LOOKS) not in taken), wanted)


def _label(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        text = chr(ord("A") + letter) + text
    return text
