"""Rules of the topology: what members require and prefer, in terms of the levels that this cluster has.

A required level is enforced twice, whatever the topology policy proposes. ``request.py`` leaves a role no room outside
the domain that it must share. ``meets_requirements`` checks the nodes of a plan before it is committed, and again
before the Bindings of a first start are posted. The placed members of a gang that has started are left to
``request.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from policies.model import HOSTNAME, NO_LEVEL, Pod, Topology
from policies.model.topology import WHOLE_ROLE
from policies.placement.snapshot import Snapshot
from policies.words import counted, listed

_UNITE = (
    "delete the members that the message finds elsewhere, or all of them; correct the labels of nodes if they are wrong"
)


@dataclass(frozen=True, slots=True)
class Unclear:
    """The gang asks for something that this cluster cannot understand.

    ``explanation``: what that is.
    ``remedy``: what the owner of the gang can do, as an imperative sentence.
    """

    explanation: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Split(Unclear):
    """The demand is understood, but the members that have a node break it, and any further member would, too."""

    remedy: str = _UNITE


class Slice(NamedTuple):
    """A rule that ``size`` consecutive members share one domain of the level."""

    size: int
    level: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The topology rules of a role. Levels are indexes into ``Snapshot.levels``.

    ``required``: all members with a requirement share one domain of it.
    ``preferred``: the level whose single domains are tried first; None: any nodes.
    ``slices``: in layers, the nearest first; the larger ones are made of whole smaller ones.
    """

    required: int | None = None
    preferred: int | None = 0
    slices: tuple[Slice, ...] = ()

    @property
    def slice_size(self) -> int:
        """The size of the largest slices; 0 without any."""
        return self.slices[-1].size if self.slices else 0

    @property
    def slice_level(self) -> int:
        """The level of the largest slices."""
        return self.slices[-1].level if self.slices else 0

    def unit(self, at: int) -> int:
        """How many members cannot be divided among domains of that level."""
        return next((slice_.size for slice_ in self.slices if slice_.level == at), 1)

    @property
    def confining(self) -> int | None:
        """The level of which one domain must hold all members, else each slice of them; None without one."""
        return self.required if self.required is not None else self.slice_level if self.slice_size else None

    @property
    def widest(self) -> int:
        """The level that a member may not leave: of its slice, else the required one, else the preferred one."""
        if self.slices:
            return self.slices[0].level
        return self.required if self.required is not None else self.preferred or 0

    def sliced_by(self, size: int) -> Rules:
        """The rules with another size of the largest slices; 0 removes those slices."""
        *inner, outer = self.slices
        return replace(self, slices=(*inner, outer._replace(size=size)) if size else tuple(inner))


NONE_ASKED = Rules()


def seen_by(pods: Iterable[Pod], snapshot: Snapshot) -> Snapshot:
    """The snapshot in which the rules of these pods are understood.

    If a pod names single machines as a level, they are one. Indexes of levels are valid for this snapshot alone.
    """
    topology = None
    for pod in pods:
        if pod.topology is not topology:
            # Most often all share one object.
            topology = pod.topology
            if HOSTNAME in (
                topology.required,
                topology.preferred,
                topology.slice_level,
                *(level for _, level in topology.around),
            ):
                return snapshot.with_machines()
    return snapshot


def rules_of(pods: Sequence[Pod], snapshot: Snapshot) -> Rules | Unclear:
    """The rules of pods with equal demands."""
    topology = pods[0].topology
    if topology.required is None and topology.preferred is None and topology.slice_size is None:
        return NONE_ASKED
    for name in (topology.required, topology.preferred, topology.slice_level, *(level for _, level in topology.around)):
        if name not in (None, NO_LEVEL) and snapshot.level_called(name or "") is None:
            known = ", ".join(f"{level.name} ({level.key})" for level in snapshot.levels[snapshot.nearest :])
            return Unclear(
                f'unknown topology level "{name}"; available: {known}',
                "use a level that exists (muster domains lists them), or add it to topology_levels in Muster's "
                "settings",
            )
    if topology.slice_size not in (None, WHOLE_ROLE) and (without_index := sum(pod.index is None for pod in pods)):
        without = counted(without_index, "pod", "has", "have")
        return Unclear(
            f"slices are made by index, and {without} none (Indexed Jobs and StatefulSets number theirs)",
            "give every pod of the sliced gang an index, or ask for no slices",
        )
    slices = [] if topology.slice_size is None else [Slice(topology.slice_size, _level(topology.slice_level, snapshot))]
    slices += [Slice(size, _level(level, snapshot)) for size, level in topology.around]
    if any(nearer.level >= farther.level for nearer, farther in pairwise(slices)):
        named = ", ".join(snapshot.levels[slice_.level].name for slice_ in slices)
        return Unclear(
            f"the levels of slices go from the nearest to the farthest, and these do not: {named}",
            "write the levels of the slices from the nearest to the farthest, and create the pods again",
        )
    preferred = snapshot.nearest if topology.preferred is None else _index(topology.preferred, snapshot)
    return Rules(_index(topology.required, snapshot), preferred, tuple(slices))


def requires_level(pod: Pod) -> bool:
    """Whether the pod must share a domain with the other members that require one."""
    return pod.topology.required not in (None, NO_LEVEL)


def is_bound_by_rules(pod: Pod) -> bool:
    """Whether the pod has demands that a placement must not break."""
    return requires_level(pod) or pod.topology.slice_size is not None


def homes_of(required: int, beside: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> dict[int, int] | Split:
    """The domains, by level and code, that a member which requires the level must share with its placed siblings.

    At its own level it shares with siblings that require it or a nearer one, at a wider level with siblings that
    require that level.
    """
    rows_at: dict[int, list[int]] = {}
    topology, at = None, None
    for pod, node in beside:
        if pod.topology is not topology:
            # Most often all share one object.
            topology, at = pod.topology, _index(pod.topology.required, snapshot) if requires_level(pod) else None
        if at is not None and (row := snapshot.rows.get(node)) is not None:
            rows_at.setdefault(max(at, required), []).append(row)
    homes: dict[int, int] = {}
    together: list[int] = []
    for at in sorted(rows_at):
        together += rows_at[at]
        home = shared(at, together, "its members", snapshot)
        if isinstance(home, Split):
            return home
        homes[at] = home
    return homes


def shared(at: int, rows: Sequence[int], who: str, snapshot: Snapshot) -> int | Split:
    """The one domain of the level that has all these nodes, or a Split.

    Labels of nodes may change under running members, and a late Binding of an earlier leader may break the rule, too.
    """
    level = snapshot.levels[at]
    codes = sorted(set(level.codes[np.array(rows, dtype=np.intp)].tolist()))
    if len(codes) == 1 and codes[0] >= 0:
        return int(codes[0])
    named = listed([level.names[code] if code >= 0 else "nodes without it" for code in codes])
    return Split(f"{who} have to share one domain of {level.key}, and those that have a node are in {named}")


def meets_requirements(nodes: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> bool:
    """Whether these members on these nodes keep all that they require. Demands that cannot be understood count as
    broken."""
    snapshot = seen_by([pod for pod, _ in nodes], snapshot)
    by_topology = _by_topology(nodes, snapshot)
    homes: dict[int, set[int]] = {}
    for pods, rows in by_topology.values():
        rules, there = rules_of(pods, snapshot), np.array(rows, dtype=np.intp)
        if isinstance(rules, Unclear) or -1 in rows:
            return False
        if rules.required is not None:
            for at in range(rules.required, len(snapshot.levels)):
                homes.setdefault(at, set()).update(snapshot.levels[at].codes[there].tolist())
        for size, level in rules.slices:
            slices: dict[object, int] = {}
            for pod, code in zip(pods, snapshot.levels[level].codes[there].tolist(), strict=True):
                of = (pod.requests, pod.selection, pod.slice_of(size))
                if code < 0 or slices.setdefault(of, code) != code:
                    return False
    required = {snapshot.level_called(topology.required or "") for topology in by_topology}
    return all(len(codes) == 1 and -1 not in codes for at, codes in homes.items() if at in required)


def _by_topology(nodes: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> dict[Topology, tuple[list[Pod], list[int]]]:
    """The members with requirements, by topology, and the rows of their nodes."""
    by_topology: dict[Topology, tuple[list[Pod], list[int]]] = {}
    topology, bound = None, False
    for pod, node in nodes:
        if pod.topology is not topology:
            # Most often all share one object.
            topology, bound = pod.topology, is_bound_by_rules(pod)
        if bound:
            pods, rows = by_topology.setdefault(pod.topology, ([], []))
            pods.append(pod)
            rows.append(snapshot.rows.get(node, -1))
    return by_topology


def _level(name: str | None, snapshot: Snapshot) -> int:
    """The level with that name, or the nearest."""
    index = _index(name, snapshot)
    return snapshot.nearest if index is None else index


def _index(name: str | None, snapshot: Snapshot) -> int | None:
    return None if name is None else snapshot.level_called(name)
