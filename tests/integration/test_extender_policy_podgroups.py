"""On a real API server: the allowed and the refused writes of the extender's account on PodGroups of Volcano."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.crds import CRDS
from devcluster.muster import install
from extender.core.effects import Enqueue, Report
from policies.model import Dialect, GroupKey
from tests.integration.extender import MERGE, Extender
from tests.integration.team import Team
from tests.integration.test_volcano_jobs import VOLCANO_JOB
from tests.integration.volcano import GROUPS, JOBS, JobController, install_volcano

STATUS = {"phase": "Pending", "conditions": [{"type": "Unschedulable", "status": "True"}]}


@pytest.fixture(scope="module", params=[False, True], ids=["as Volcano's", "with a status subresource"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_volcano(running.api, subresource=request.param)
        yield running


class Group:
    """The PodGroup of a Volcano Job."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = cluster.api
        self.team = Team(cluster)
        made = JobController(cluster.api).create(self.team.name, yaml.safe_load(VOLCANO_JOB))
        self.path = f"/apis/{GROUPS}/namespaces/{self.team.name}/podgroups/{made['metadata']['name']}"
        self.key, self.uid = GroupKey(self.team.name, made["metadata"]["name"]), made["metadata"]["uid"]

    def now(self) -> Object:
        return self._api.get(self.path)

    def phase(self) -> str:
        phase: str = self.now().get("status", {}).get("phase", "")
        return phase

    def written_to(self) -> str:
        """The path to which its status is written."""
        crd = self._api.get(f"{CRDS}/podgroups.scheduling.volcano.sh")
        return f"{self.path}/status" if "subresources" in crd["spec"]["versions"][0] else self.path


@pytest.fixture
def group(cluster: Cluster) -> Group:
    return Group(cluster)


def test_it_is_taken_up_and_its_phase_follows_its_gang(extender: Extender, group: Group) -> None:
    spec = group.now()["spec"]
    extender.write(Enqueue(group.key, group.uid))
    assert group.phase() == "Inqueue"
    for code, phase in (("Running", "Running"), ("NoRoom", "Inqueue"), ("Ended", "Completed")):
        extender.write(Report(group.key, group.uid, None, code, "told", warning=False, dialect=Dialect.VOLCANO))
        assert (group.phase(), group.now()["spec"]) == (phase, spec)


FORBIDDEN: dict[str, Any] = {
    "minMember": {"spec": {"minMember": 1}},
    "a field more": {"spec": {"priorityClassName": "first"}},
    "a field less": {"spec": {"minTaskMember": None}},
    "labels": {"metadata": {"labels": {"app": "other"}}},
    "annotations": {"metadata": {"annotations": {"muster.dev/required-topology": "block"}}},
    "finalizers": {"metadata": {"finalizers": ["example.com/held"]}},
    "owner": {"metadata": {"ownerReferences": []}},
    "conditions": {"status": {"phase": "Inqueue", "conditions": []}},
    "counts": {"status": {"phase": "Inqueue", "running": 3}},
    "phase that keeps it waiting": {"status": {"phase": "Pending"}},
    "phase that policies of the job act on": {"status": {"phase": "Unknown"}},
    "no phase": {"status": {"phase": None}},
    "no status": {"status": None},
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_else_of_it_can_be_changed(cluster: Cluster, extender: Extender, group: Group, what: str) -> None:
    cluster.api.patch(group.written_to(), {"status": {**STATUS, "phase": "Running"}})
    before, change = group.now(), FORBIDDEN[what]
    extender.refused("PATCH", group.written_to() if "status" in change else group.path, change, MERGE)
    assert group.now() == before


def test_a_podgroup_that_no_volcano_job_has_made_is_its_authors(
    cluster: Cluster, extender: Extender, group: Group
) -> None:
    collection = group.path.rpartition("/")[0]
    body = {"apiVersion": GROUPS, "kind": "PodGroup", "spec": {"minMember": 2}}
    for name, owners in (
        ("alone", []),
        ("of-a-job", [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1"}]),
        ("of-a-cron-job", [{"apiVersion": JOBS, "kind": "CronJob", "name": "train", "uid": "1"}]),
    ):
        cluster.api.create(collection, {**body, "metadata": {"name": name, "ownerReferences": owners}})
        path = group.written_to().replace(group.key.name, name)
        extender.refused("PATCH", path, {"status": {"phase": "Inqueue"}}, MERGE)


def test_everybody_else_may_do_as_before(cluster: Cluster, group: Group) -> None:
    cluster.api.patch(group.path, {"spec": {"minMember": 1}, "metadata": {"labels": {"app": "other"}}})
    assert (group.now()["spec"]["minMember"], group.now()["metadata"]["labels"]) == (1, {"app": "other"})
