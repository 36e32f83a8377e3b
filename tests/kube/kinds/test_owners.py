"""How many pods StatefulSets, Deployments, ReplicaSets and LeaderWorkerSets want, and in which order they come."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from extender.kube.dialects.naming import BAD_SIZE, TWO_SIZES
from extender.kube.kinds.kind import Object
from extender.kube.kinds.owners import OWNER_KINDS, TOO_MANY_PODS, owner_from, owners_of
from extender.kube.kinds.plan import MOST_PODS
from extender.kube.kinds.read import ANOTHER_SCHEDULER, Reader
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.plain import quoted
from extender.kube.reading.topology import LWS_EXCLUSIVE
from policies.model import Controller, GangOwner, GroupKey, Order, PodSets, Topology
from tests.kube.kinds.manifests import DEPLOYMENT, LEADER_WORKER_SET, REPLICA_SET, STATEFUL_SET


def stored(manifest: str, **spec: Any) -> Object:
    """The object as the API server keeps it."""
    obj: Object = yaml.safe_load(manifest)
    meta = {"namespace": "default", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z", **obj["metadata"]}
    return obj | {"metadata": meta, "spec": obj["spec"] | spec}


def read(obj: Object) -> GangOwner:
    kind = next(candidate for candidate in OWNER_KINDS if candidate.name == obj["kind"])
    return owner_from(kind, obj, Reader())


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        (STATEFUL_SET, "statefulset-web"),
        (DEPLOYMENT, "deployment-nginx-deployment"),
        (REPLICA_SET, "replicaset-frontend"),
    ],
)
def test_a_gang_is_as_large_as_its_owner_wants(manifest: str, name: str) -> None:
    obj = stored(manifest, podManagementPolicy="Parallel")
    kind, own = obj["kind"], obj["metadata"]["name"]
    assert read(obj) == GangOwner(GroupKey("default", name), Controller("apps/v1", kind, own, "uid-1"), 3)
    assert read(stored(manifest, replicas=5)).minimum == 5
    assert read(stored(manifest, replicas=None)).minimum == 1


@pytest.mark.parametrize("manifest", [STATEFUL_SET, DEPLOYMENT, REPLICA_SET])
def test_of_none_that_are_wanted_nothing_is_expected(manifest: str) -> None:
    owner = read(stored(manifest, replicas=0))
    assert (owner.minimum, owner.podset, owner.problem, owner.ends) == (1, None, "", True)


@pytest.mark.parametrize("manifest", [STATEFUL_SET, DEPLOYMENT, REPLICA_SET, LEADER_WORKER_SET])
def test_one_that_is_being_deleted_makes_no_pods_anew(manifest: str) -> None:
    obj = stored(manifest)
    assert not read(obj).ends
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read(obj).ends


def test_a_leader_worker_set_of_no_groups_makes_no_pods_anew() -> None:
    assert read(stored(LEADER_WORKER_SET, replicas=0)).ends


def test_a_stateful_set_makes_its_pods_one_by_one_unless_it_says_otherwise() -> None:
    podset = read(stored(STATEFUL_SET)).podset
    assert podset is not None
    assert (podset.count, podset.minimum, podset.order, podset.leader) == (3, 3, Order.ONE_BY_ONE, None)
    assert podset.template.owner == "uid-1"
    assert [pod.wave for pod in podset.pods()] == [0, 1, 2]
    assert read(stored(STATEFUL_SET, podManagementPolicy="Parallel")).podset is None


def test_its_ordinals_may_begin_anywhere() -> None:
    podset = read(stored(STATEFUL_SET, ordinals={"start": 5})).podset
    assert podset is not None
    podsets = PodSets(GroupKey("default", "statefulset-web"), (podset,))
    assert [pod.index for pod in podset.pods()] == [5, 6, 7]
    assert (podsets.minimum, podsets.first_wave, podsets.first) == (3, 1, 5)


def test_a_group_of_a_leader_worker_set_says_its_size_itself() -> None:
    owner = read(stored(LEADER_WORKER_SET))
    assert (owner.key.name, owner.minimum, owner.podset) == ("leaderworkerset-leaderworkerset-sample", None, None)


def test_of_a_group_fewer_may_be_enough() -> None:
    obj = stored(LEADER_WORKER_SET)
    obj["metadata"]["labels"] = {"muster.dev/min-member": "3"}
    assert read(obj).minimum == 3


def test_its_workers_may_come_when_the_leader_is_ready() -> None:
    obj = stored(LEADER_WORKER_SET, startupPolicy="LeaderReady")
    podset = read(obj).podset
    assert podset is not None
    assert (podset.count, podset.order, podset.leader) == (4, Order.LEADER_FIRST, None)
    assert [pod.wave for pod in podset.pods()] == [0, 1, 1, 1]
    obj["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    podset = read(obj).podset
    assert podset is not None
    assert [dict(pod.requests).get("cpu") for pod in podset.pods()] == [None, 50, 50, 50]


def test_with_a_domain_for_each_group_the_workers_come_when_the_leader_has_a_node() -> None:
    obj = stored(LEADER_WORKER_SET)
    obj["metadata"]["annotations"] = {LWS_EXCLUSIVE: "dc.example/pool"}
    obj["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {"annotations": {"kept": "yes"}}
    podset = read(obj).podset
    assert podset is not None
    assert [pod.wave for pod in podset.pods()] == [0, 1, 1, 1]
    assert {pod.topology for pod in podset.pods()} == {Topology("dc.example/pool")}
    assert obj["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] == {"annotations": {"kept": "yes"}}


def test_it_may_name_the_queue_of_its_pods() -> None:
    obj = stored(STATEFUL_SET)
    assert read(obj).queue == ""
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    assert read(obj).queue == "team"
    obj["metadata"] |= {"labels": {}, "annotations": {"scheduling.volcano.sh/queue-name": "test"}}
    assert read(obj).queue == "volcano/test"
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team", "muster.dev/queue-name": "other"}
    assert "name different queues" in read(obj).problem


@pytest.mark.parametrize(("said", "minimum"), [("2", 2), ("3", 3), ("1", 1), ("4", 3)])
def test_fewer_may_be_enough(said: str, minimum: int) -> None:
    obj = stored(STATEFUL_SET)
    obj["metadata"]["annotations"] = {"muster.dev/min-member": said}
    owner = read(obj)
    assert owner.podset is not None
    assert (owner.minimum, owner.podset.minimum, owner.podset.count) == (minimum, minimum, 3)


@pytest.mark.parametrize("said", ["0", "two", ""])
def test_a_minimum_that_is_none_is_a_problem(said: str) -> None:
    obj = stored(STATEFUL_SET)
    obj["metadata"]["annotations"] = {"muster.dev/min-member": said}
    assert read(obj).problem == f"StatefulSet web: {BAD_SIZE.format('muster.dev/min-member', quoted(said))}"
    obj["metadata"] |= {"annotations": {"muster.dev/min-member": "2"}, "labels": {"muster.dev/min-member": "3"}}
    assert read(obj).problem == f"StatefulSet web: {TWO_SIZES.format('muster.dev/min-member')}"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"replicas": "three"}, "its replicas is not a number of pods"),
        ({"replicas": -1}, "its replicas is not a number of pods"),
        ({"ordinals": {"start": "x"}}, "its start is not a number of pods"),
        ({"replicas": MOST_PODS + 1}, TOO_MANY_PODS.format("10,001")),
        ({"template": None}, "it has no spec.template"),
        ({"template": {"spec": {"schedulerName": "volcano"}}}, ANOTHER_SCHEDULER.format("volcano")),
    ],
)
def test_what_cannot_be_read_is_its_problem(spec: Object, problem: str) -> None:
    assert read(stored(STATEFUL_SET, **spec)).problem == f"StatefulSet web: {problem}"


def test_the_size_of_a_group_that_is_none_is_a_problem() -> None:
    obj = stored(LEADER_WORKER_SET, leaderWorkerTemplate={"size": "4", "workerTemplate": {}})
    assert read(obj).problem == "LeaderWorkerSet leaderworkerset-sample: its size is not a number of pods"
    del obj["spec"]["leaderWorkerTemplate"]
    assert "it has no spec.leaderWorkerTemplate" in read(obj).problem


def test_only_those_are_asked_for_that_carry_the_label() -> None:
    resources = {kind.name: owners_of(kind, Reader()) for kind in OWNER_KINDS}
    assert {resource.labels for resource in resources.values()} == {"muster.dev/gang=true"}
    obj = stored(REPLICA_SET)
    _, owner = resources["ReplicaSet"].read(msgspec.Raw(json.dumps(obj).encode()))
    assert owner is not None
    obj["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-2", "controller": True}
    ]
    assert resources["ReplicaSet"].read(msgspec.Raw(json.dumps(obj).encode()))[1] is None


def test_one_that_nobody_can_name_is_unreadable() -> None:
    obj = stored(STATEFUL_SET)
    del obj["metadata"]["uid"]
    with pytest.raises(UnreadableError, match="lacks its name, namespace or UID"):
        read(obj)


@pytest.mark.parametrize(("policy", "restarts"), [("RecreateGroupOnPodRestart", True), (None, True), ("None", False)])
def test_a_leader_worker_set_makes_a_group_anew_unless_it_says_otherwise(policy: str | None, restarts: bool) -> None:
    obj = stored(LEADER_WORKER_SET)
    obj["spec"]["leaderWorkerTemplate"] |= {"restartPolicy": policy} if policy else {}
    assert read(obj).restarts is restarts
    assert not read(stored(STATEFUL_SET)).restarts
