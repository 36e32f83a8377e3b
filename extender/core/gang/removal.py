"""In which order a ReplicaSet removes members when it is scaled down: so that domains stay whole.

Members with an index need no such order: they are placed by it, and their controllers remove the highest ones first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from extender.core.claims import Claims
from extender.core.workload import Workload

COST = "controller.kubernetes.io/pod-deletion-cost"
"""Kubernetes' own annotation: of the pods of a ReplicaSet those with the lowest cost go first."""


def costs_of(workload: Workload, uids: Collection[str], claims: Claims) -> Mapping[str, Mapping[str, str]]:
    """The costs of these members, from 1 up, as annotations; of those alone that are removed by cost and for which
    nobody has said one.

    First goes whoever is in the domain with the fewest members of the gang, of the widest level; in that, of the next
    level; at last the one with the highest rank. Those that were bound before keep their costs.
    """
    asked = [uid for uid in uids if workload.members[uid].pod.removed_by_cost]
    if not asked:
        return {}
    paths = {
        member.uid: tuple(name for _, name in claims.domains(member.pod.node or member.node))[::-1]
        for member in workload.members.live.values()
        if member.pod.node or member.node
    }
    sizes = Counter(path[: depth + 1] for path in paths.values() for depth in range(len(path)))

    def place(uid: str) -> tuple[tuple[int, str], ...]:
        return tuple((sizes[paths[uid][: depth + 1]], name) for depth, name in enumerate(paths[uid]))

    last_rank_first = sorted(paths, key=lambda uid: workload.members[uid].pod.rank, reverse=True)
    order = {uid: cost for cost, uid in enumerate(sorted(last_rank_first, key=place), 1)}
    return {uid: {COST: str(order[uid])} for uid in asked}
