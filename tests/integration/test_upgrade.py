"""A rolling upgrade from an earlier release to this one, and back: running, waiting, held and evicted workloads go on.

Two replicas run at a time, of which one leads, and Kubernetes goes from 1.36 to 1.37 in between, the API server
first. The order of the steps is that of docs/upgrade.md; `make upgrade` tries the others, too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from devcluster import Cluster
from devcluster.binaries import ASKED_BY
from devcluster.muster import CURRENT
from devcluster.proxy import Write
from devcluster.releases import release_of
from tests.integration.preemption import PRIORITIES
from tests.integration.rollout import AT, BARRED, PATIENCE_S, Replica, Rollout, States
from tests.integration.stage import add_priorities

pytestmark = [
    pytest.mark.xdist_group("upgrade"),
    pytest.mark.skipif(ASKED_BY in os.environ, reason="goes from one version of Kubernetes to the next"),
]
EARLIER = "fc9b1e5"
FROM, ALL = "MUSTER_UPGRADE_FROM", "MUSTER_UPGRADE_ALL"
"""Variables of `make upgrade`: the commit, instead of the one above, and whether every order of the steps is tried."""


@dataclass(frozen=True)
class Order:
    """How the steps follow each other. ``there``, ``back``: the signal that ends the leader of either release."""

    there: int = signal.SIGTERM
    back: int = signal.SIGKILL
    kubernetes_first: bool = False
    at_once: bool = False


ORDERS = {
    "as documented": Order(),
    "Kubernetes first": Order(signal.SIGKILL, signal.SIGTERM, kubernetes_first=True),
    "all manifests at once": Order(at_once=True),
}
IN_THE_GATE = next(iter(ORDERS))


@pytest.fixture
def rollout() -> Iterator[Rollout]:
    with Cluster(kubernetes="1.36") as cluster, Rollout(cluster) as new_rollout:
        add_priorities(cluster, PRIORITIES)
        yield new_rollout


def hand_over(rollout: Rollout, old: Replica, new: Replica, states: States, others: Sequence[States], how: int) -> None:
    """End the leader in the middle of a release, while binds are held and victims end.

    ``others``: running workloads.
    """
    rollout.tollgate.bar(*BARRED)
    states.set_up_held()
    old.proxy.strike(Write.BIND, AT, lambda: old.end(how), after=True, namespace=states.stage.namespace)
    states.create_released()
    assert old.proxy.struck.wait(PATIENCE_S)
    rollout.wait_leads(new, states, *others)
    states.check_released()
    states.check_held()
    for state in (states, *others):
        state.check()
    states.check_evicting()
    rollout.tollgate.bar()
    states.let_start()


@pytest.mark.parametrize("name", ORDERS if os.environ.get(ALL) else [IN_THE_GATE])
def test_there_and_back(rollout: Rollout, name: str) -> None:
    order, earlier = ORDERS[name], release_of(os.environ.get(FROM) or EARLIER)
    rollout.install_base(earlier)
    rollout.install_admission(earlier)
    old = rollout.start(earlier)
    before, after = rollout.states(old), rollout.states(old)
    before.set_up()
    if order.kubernetes_first:
        rollout.upgrade_kubernetes("1.37", old, before)
    rollout.install_base(CURRENT)
    if order.at_once:
        rollout.install_admission(CURRENT)
    new = rollout.start(CURRENT)
    hand_over(rollout, old, new, before, [], order.there)
    if not order.kubernetes_first:
        rollout.upgrade_kubernetes("1.37", new, before)
    rollout.install_admission(CURRENT)
    rollout.wait_leads(new, after)
    after.set_up()
    older = rollout.start(earlier)
    hand_over(rollout, new, older, after, [before], order.back)
    rollout.install_base(earlier)
    rollout.install_admission(earlier)
    for state in (before, after):
        state.check()
