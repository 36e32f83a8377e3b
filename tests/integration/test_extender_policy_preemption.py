"""On a real API server: the allowed and the refused writes and evictions of the extender's account for preemption."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import install, install_job_admission
from extender.core.effects import Evict, Reserve
from extender.kube.client import EVICTED_BY
from extender.kube.reading.reserved import RESERVATIONS, annotation_of, reservation_from
from policies.model import GroupKey, Pod, Reservation, Victim
from tests.integration.extender import MERGE, Extender
from tests.integration.policed import TEAM, Pods, eviction, of, path
from tests.integration.preemption import with_preemption
from tests.integration.team import Team
from tests.integration.test_extender_policy_jobs import seen

KEPT = Reservation((("node-0", (("cpu", 1000),)),), (Victim(GroupKey("a", "b"), "", ("r",)),), 1.5)
GONE_AT_ONCE = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running, with_preemption(running.directory / "with-preemption"))
        install_job_admission(running)
        running.add_nodes(1)
        running.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        running.api.wait_for(f"/api/v1/namespaces/{TEAM}/serviceaccounts/default", bool)
        yield running


@pytest.fixture
def pods(cluster: Cluster, request: pytest.FixtureRequest) -> Pods:
    return Pods(cluster, request.node.name.removeprefix("test_"))


@pytest.mark.parametrize("backfill", [False, True])
def test_what_is_kept_is_written_on_a_pod_and_taken_off(extender: Extender, pods: Pods, *, backfill: bool) -> None:
    pod = pods.create()
    kept = Reserve(GroupKey(TEAM, "train"), Pod(*of(pod)), None, KEPT, backfill)
    key, _ = annotation_of(kept)
    extender.write(kept)
    assert reservation_from(pods.now(pod)["metadata"]["annotations"][key]) == KEPT
    extender.write(replace(kept, reservation=None))
    assert key not in pods.now(pod)["metadata"].get("annotations", {})


def test_and_on_a_job(extender: Extender, team: Team) -> None:
    team.create(team.job())
    job = seen(team.now())
    for backfill in (False, True):
        extender.write(Reserve(job.key, None, job, KEPT, backfill))
    assert (seen(team.now()).reservation, seen(team.now()).backfill) == (KEPT, KEPT)
    for backfill in (False, True):
        extender.write(Reserve(job.key, None, job, None, backfill))
    assert (seen(team.now()).reservation, seen(team.now()).backfill) == (None, None)


def test_nothing_else_is_written_with_it(extender: Extender, pods: Pods, team: Team) -> None:
    pod = pods.create()
    more = {"metadata": {"annotations": {**dict.fromkeys(RESERVATIONS, "{}"), "example.com/a": "b"}}}
    extender.refused("PATCH", path(pod), more)
    team.create(team.job())
    extender.refused("PATCH", f"{team.jobs}/train", more, MERGE)


def test_a_pod_of_no_gang_is_evicted(extender: Extender, pods: Pods) -> None:
    pod = pods.create(node="node-0", spec=GONE_AT_ONCE)
    extender.write(Evict(*of(pod), reason="preempted by a/b"))
    now = pods.now(pod) if pods.exists(pod) else None
    assert now is None or "deletionTimestamp" in now["metadata"]


@pytest.mark.parametrize("whose", ["of another scheduler", "of a node"])
def test_other_pods_stay(cluster: Cluster, extender: Extender, pods: Pods, whose: str) -> None:
    uid = cluster.api.get("/api/v1/nodes/node-0")["metadata"]["uid"]
    node = {"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": uid, "controller": True}
    meta: Object = {"ownerReferences": [node]} if whose == "of a node" else {}
    spec: Object = {} if meta else {"schedulerName": "default-scheduler"}
    pod = pods.create(node="node-0", spec={**GONE_AT_ONCE, **spec}, **meta)
    extender.refused("POST", f"{path(pod)}/eviction", eviction(pod, {EVICTED_BY: "extender"}), "application/json")
