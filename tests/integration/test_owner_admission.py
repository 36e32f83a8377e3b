"""On a real API server: writes of the admission policies on owners of gangs, and on the pods of their controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds
from devcluster.errors import ClusterError
from devcluster.muster import install_gate, install_job_admission
from tests.integration.team import GANG, Team, is_gated
from tests.kube.kinds.manifests import DEPLOYMENT, LEADER_WORKER_SET, REPLICA_SET, STATEFUL_SET

pytestmark = pytest.mark.xdist_group("owner-admission")

MANIFESTS = {
    "StatefulSet": STATEFUL_SET,
    "Deployment": DEPLOYMENT,
    "ReplicaSet": REPLICA_SET,
    "LeaderWorkerSet": LEADER_WORKER_SET,
}
LEFT_ALONE = {"muster.dev/gang": "false"}
MANAGE = {"manage_jobs": "true"}
LEADER = {"spec": {"containers": [{"name": "main", "image": "leader"}], "schedulerName": "volcano"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_gate(running)
        install_job_admission(running)
        install_crds(running, "lws")
        yield running


class Written:
    """An object of that kind as it is in the end, in a namespace of its own."""

    def __init__(self, cluster: Cluster, kind: str, meta: Object, namespace: Object | None = None) -> None:
        self._api, self._kubectl = cluster.api, cluster.kubectl
        self.team = Team(cluster, **(namespace or {}))
        obj = yaml.safe_load(MANIFESTS[kind])
        obj["metadata"] |= meta
        if kind == "LeaderWorkerSet":
            obj["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = LEADER
        plural = f"{kind.lower()}s"
        self.path = f"/apis/{obj['apiVersion']}/namespaces/{self.team.name}/{plural}/{obj['metadata']['name']}"
        self.manifest = obj
        self._api.create(self.path.rpartition("/")[0], obj)

    def now(self) -> Object:
        return self._api.get(self.path)

    def patch(self, patch: Object) -> None:
        self._api.patch(self.path, patch, "application/merge-patch+json")

    def replace(self) -> None:
        """Replace the object, again while its controller writes to it, as a user of kubectl would."""
        while True:
            try:
                self._kubectl("--namespace", self.team.name, "replace", "-f", "-", stdin=json.dumps(self.manifest))
            except ClusterError as error:
                if "Conflict" not in str(error):
                    raise
            else:
                return

    @property
    def templates(self) -> list[Object]:
        spec = self.now()["spec"]
        both = spec.get("leaderWorkerTemplate", {})
        return [both["leaderTemplate"], both["workerTemplate"]] if both else [spec["template"]]

    @property
    def marked(self) -> bool:
        """Whether the label is on it and on every template; it is on all or on none."""
        places = [self.now(), *self.templates]
        labelled = [place.get("metadata", {}).get("labels", {}).get("muster.dev/gang") == "true" for place in places]
        assert len(set(labelled)) == 1
        is_marked: bool = labelled[0]
        return is_marked

    @property
    def schedulers(self) -> list[str]:
        return [template["spec"].get("schedulerName", "default-scheduler") for template in self.templates]


def served(kind: str) -> list[str]:
    return ["volcano", "muster"] if kind == "LeaderWorkerSet" else ["muster"]


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("meta", [{"labels": GANG}, {"annotations": GANG}], ids=["label", "annotation"])
def test_whose_author_asks_for_it_has_its_templates_say_so(cluster: Cluster, kind: str, meta: Object) -> None:
    written = Written(cluster, kind, meta)
    assert written.marked
    assert written.schedulers == served(kind)
    before = written.templates
    written.patch({"spec": {"replicas": 7}})
    assert written.templates == before


@pytest.mark.parametrize("kind", MANIFESTS)
def test_others_stay_as_they_are(cluster: Cluster, kind: str) -> None:
    refused = {"labels": GANG, "annotations": LEFT_ALONE}
    for meta in ({}, {"labels": {"muster.dev/gang": "yes"}}, refused):
        written = Written(cluster, kind, meta)
        assert all(
            "muster.dev/gang" not in template.get("metadata", {}).get("labels", {}) for template in written.templates
        )
        assert "muster" not in written.schedulers


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("kind", [*MANIFESTS, "Job"])
def test_who_writes_neither_true_nor_false_is_warned(cluster: Cluster, kind: str, place: str) -> None:
    team = Team(cluster)
    manifest = team.job(labels={}) if kind == "Job" else yaml.safe_load(MANIFESTS[kind])
    arguments = ("create", "--dry-run=server", "--warnings-as-errors", "--namespace", team.name, "-f", "-")
    manifest["metadata"][place] = {"muster.dev/gang": "false", "muster.dev/hold": "false"}
    cluster.kubectl(*arguments, stdin=json.dumps(manifest))
    manifest["metadata"][place] = {"muster.dev/gang": "True", "muster.dev/hold": "false"}
    with pytest.raises(ClusterError, match="gang: write true or false; other values do not count"):
        cluster.kubectl(*arguments, stdin=json.dumps(manifest))


@pytest.mark.parametrize("kind", MANIFESTS)
def test_the_label_of_a_namespace_means_stateful_and_leader_worker_sets_alone(cluster: Cluster, kind: str) -> None:
    means = kind in ("StatefulSet", "LeaderWorkerSet")
    written = Written(cluster, kind, {}, MANAGE)
    assert written.marked == means
    assert ("muster" in written.schedulers) == means
    assert "muster" not in Written(cluster, kind, {"labels": LEFT_ALONE}, MANAGE).schedulers
    owner = {"apiVersion": "example.com/v1", "kind": "Other", "name": "x", "uid": "x", "controller": True}
    assert not Written(cluster, kind, {"ownerReferences": [owner]}, MANAGE).marked


@pytest.mark.parametrize("kind", MANIFESTS)
def test_the_same_manifest_written_again_changes_nothing(cluster: Cluster, kind: str) -> None:
    for meta, namespace in (({"labels": GANG}, None), ({}, MANAGE)):
        written = Written(cluster, kind, meta, namespace)
        before = written.marked, written.templates
        written.replace()
        assert (written.marked, written.templates) == before


@pytest.mark.parametrize("kind", MANIFESTS)
def test_it_can_be_asked_for_later_and_taken_back(cluster: Cluster, kind: str) -> None:
    written = Written(cluster, kind, {})
    assert not written.marked
    written.patch({"metadata": {"labels": GANG}})
    assert written.marked
    assert written.schedulers == served(kind)
    written.patch({"metadata": {"labels": {"muster.dev/gang": None}}})
    assert not written.marked


def test_pods_of_a_gang_by_its_owner_are_gated_and_no_others(cluster: Cluster) -> None:
    team = Team(cluster)

    def made(kind: str, version: str = "apps/v1", **meta: Any) -> Object:
        owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": "x", "controller": True}
        body = {"metadata": {"name": "pod", "ownerReferences": [owner], **meta}, "spec": {"schedulerName": "muster"}}
        body["spec"]["containers"] = [{"name": "main", "image": "web"}]
        return cluster.api.create(f"{team.pods}?dryRun=All", body)

    for kind in ("StatefulSet", "ReplicaSet"):
        assert is_gated(made(kind, labels=GANG))
        assert is_gated(made(kind, annotations=GANG))
        assert not is_gated(made(kind))
        assert not is_gated(made(kind, labels=GANG, annotations=LEFT_ALONE))
    assert not is_gated(made("DaemonSet", labels=GANG))
    assert not is_gated(made("StatefulSet", "example.com/v1", labels=GANG))
