"""Best fit over NVLink cliques on the real control plane: no gang is split while a clique holds it."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, start_muster
from tests.integration.stage import Stage, gang_of

pytestmark = pytest.mark.xdist_group("topology")
FREE = {"a": 13, "b": 10, "c": 7, "d": 4}


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    return running


def test_gangs_that_exactly_fill_what_is_free_land_in_one_clique_each(stage: Stage) -> None:
    clique_of: dict[str, str] = {}
    for clique, free in FREE.items():
        nodes = stage.add_nodes(16, clique=clique)
        clique_of |= dict.fromkeys(nodes, clique)
        stage.create_all(stage.pod(f"busy-{node}", nodeName=node) for node in nodes[free:])
    stage.wait(lambda pods: len(pods) == sum(16 - free for free in FREE.values()))
    # Worst first: plain first fit would give the gang of 7 the roomiest clique, and split the gang of 13.
    for size in (7, 4, 13, 10):
        stage.create_all(stage.gang(f"gang-{size}", size))
        stage.wait_bound(f"gang-{size}", size=size)
    found: dict[str, set[str]] = {}
    for pod in stage.pods():
        if gang := gang_of(pod):
            found.setdefault(gang, set()).add(clique_of[pod["spec"]["nodeName"]])
    assert found == {"gang-7": {"c"}, "gang-4": {"d"}, "gang-13": {"a"}, "gang-10": {"b"}}
