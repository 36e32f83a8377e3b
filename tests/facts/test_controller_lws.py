"""LeaderWorkerSet v0.9.0, with its webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from tests.facts.fact import fact
from tests.facts.kinds import Kind, finish, pod_template


@pytest.fixture(scope="module")
def kind(cluster: Cluster, scheduler: object) -> Iterator[Kind]:
    start_controller(cluster, "lws")
    yield Kind(cluster, "/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets")
    finish(cluster, "lws")


def leader_worker_set(name: str, **spec: Any) -> Object:
    """Two groups of a leader and two workers."""
    template = pod_template(restart="Always")
    shape = {"size": 3, "leaderTemplate": template, "workerTemplate": template}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": 2, "leaderWorkerTemplate": shape, **spec},
    }


@fact(
    "lws.groups",
    "A LeaderWorkerSet of two groups of three is created.",
    result="Pods are labelled `leaderworkerset.sigs.k8s.io/name`, `group-index` and `worker-index`; "
    "a leader is owned by a StatefulSet, a worker by one that its leader owns.",
    consequence="A group is a gang, named by the label of its group; the slot is the worker index. "
    "The owner of a pod does not tell the gang.",
    slow=True,
)
def test_groups(kind: Kind) -> None:
    kind.create(leader_worker_set("plain"))
    pods = kind.until_pods(6)
    prefix = "leaderworkerset.sigs.k8s.io"
    slots = sorted(
        (pod["metadata"]["labels"][f"{prefix}/group-index"], pod["metadata"]["labels"][f"{prefix}/worker-index"])
        for pod in pods
    )
    assert slots == [(group, index) for group in "01" for index in "012"]
    assert {pod["metadata"]["labels"][f"{prefix}/name"] for pod in pods} == {"plain"}
    owners = {pod["metadata"]["name"]: pod["metadata"]["ownerReferences"][0]["name"] for pod in pods}
    assert (owners["plain-0"], owners["plain-0-1"]) == ("plain", "plain-0")


@fact(
    "lws.leader-ready",
    "A LeaderWorkerSet with `startupPolicy: LeaderReady` is created while no node takes its leaders.",
    result="Only the leaders' pods are created; a group's workers come when its leader is ready.",
    consequence="The quorum of such a group is counted by wave: the leader first, with room reserved for the workers.",
    slow=True,
    for_users=True,
)
def test_leaders_first(kind: Kind) -> None:
    with kind.closed_nodes():
        kind.create(leader_worker_set("ordered", startupPolicy="LeaderReady"))
        pods = kind.until_pods(2)
        assert sorted(pod["metadata"]["name"] for pod in pods) == ["ordered-0", "ordered-1"]
    kind.until_pods(6)


@fact(
    "lws.restart",
    "A worker of a running group with `RecreateGroupOnPodRestart` is deleted.",
    result="All pods of that group are deleted and made again; the other group stays.",
    consequence="A group starts again as a whole: a new start with a new quorum, and its room stays its own meanwhile.",
    slow=True,
    for_users=True,
)
def test_a_group_restarts_whole(kind: Kind) -> None:
    shape = leader_worker_set("restarted")
    shape["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "RecreateGroupOnPodRestart"
    kind.create(shape)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kind.until_pods(6)}
    kind.delete_pod("restarted-0-1")
    of_group = {name for name in before if name.startswith("restarted-0")}
    renewed = kind.until_pods(
        6, lambda pod: pod["metadata"]["name"] not in of_group or pod["metadata"]["uid"] not in before.values()
    )
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in renewed}
    assert {name for name in after if after[name] != before[name]} == of_group
