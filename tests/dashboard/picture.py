"""The picture that the dashboard has of a script's cluster, and people who look at it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from dashboard.access import Person, UnknownPersonError
from dashboard.cluster import Cluster
from extender.api.feed import Happening, NodeView, NodeWorkload, Update
from extender.api.models import Explanation
from extender.core.ledger.claims import ClaimState
from extender.observe.explain.explanation import explain
from extender.observe.queues import queues
from extender.observe.topology import domains, topology
from extender.observe.views import view
from policies.model import GroupKey
from tests.builders import GPU
from tests.core.script import Script


def update(script: Script, happenings: Iterable[Happening] = ()) -> Update:
    """Return everything that the extender would send now."""
    state, now = script.core.state, script.now
    return Update(
        number=0,
        as_of=time.time(),
        whole=True,
        gangs=[view(gang, now) for _, gang in sorted(state.workloads.items())],
        nodes=[node_view(script, name) for name in sorted(state.claims.nodes)],
        queues=queues(script.core, now),
        domains=domains(state),
        topology=topology(state.claims.snapshot(), configured=True),
        happenings=list(happenings),
    )


def node_view(script: Script, name: str) -> NodeView:
    state = script.core.state
    node = state.claims.nodes[name]
    amounts = Counter[str]()
    there = []
    for owner, claim in state.claims.on(name):
        gpus = dict(claim.requests).get(GPU, 0)
        pod = state.pods.get(owner) if isinstance(owner, str) else None
        gang = None if pod is None else state.store.workload_of(pod)
        kind = "used" if claim.state is ClaimState.BOUND else "promised" if pod is not None else "reserved"
        amounts[kind] += gpus
        if pod is not None and gpus:
            workload = f"pod {pod.name}" if gang is None else gang.key.name
            there.append(NodeWorkload(namespace=pod.namespace, name=workload, gpus=gpus, promised=kind == "promised"))
    merged = [
        NodeWorkload(namespace=key[0], name=key[1], promised=key[2], gpus=sum(one.gpus for one in same))
        for key, same in groupby(there, lambda one: (one.namespace, one.name, one.promised))
    ]
    gpus = dict(node.allocatable).get(GPU, 0)
    levels = {
        level.name: domain
        for level, (_, domain) in zip(state.claims.snapshot().levels, state.claims.domains(name), strict=True)
    }
    return NodeView(
        name=name,
        domains=levels,
        open=node.ready and not node.unschedulable,
        gpus=gpus,
        free=gpus - amounts.total(),
        workloads=merged,
        used=amounts["used"],
        promised=amounts["promised"],
        reserved=amounts["reserved"],
    )


async def shown(script: Script, happenings: Iterable[Happening] = ()) -> Cluster:
    """Return the dashboard's picture of the script's cluster, connected to its core."""
    cluster = Cluster()

    async def asked(namespace: str, name: str) -> Explanation | None:
        core, now = script.core, script.now
        gang = core.state.workloads.get(GroupKey(namespace, name))
        return None if gang is None else explain(core.state, gang, now, core.outlook(gang, now))

    cluster.explain = asked
    cluster.stale_since = None
    await cluster.take(update(script, happenings))
    return cluster


class People:
    """Knows people by their tokens."""

    def __init__(self, **namespaces: str) -> None:
        """``namespaces``: by the name of a person, those that the person sees, as in "team-a team-b"; "*" for all."""
        self._namespaces = namespaces

    async def person(self, token: str, namespaces: Iterable[str]) -> Person:
        if token not in self._namespaces:
            raise UnknownPersonError
        sees = self._namespaces[token]
        return Person(token, frozenset(sees.split()), sees_all=sees == "*")
