"""On a real API server: the allowed and the refused writes of the extender's account on jobs."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds
from devcluster.muster import install, install_job_admission
from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.kube.api.connection import ApiError
from extender.kube.keys import FLAVORS
from extender.kube.kinds.change import merge_patch
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from policies.model import Job, NodeWait, PlannedNodes, Toleration
from tests.integration.extender import MERGE, Extender
from tests.integration.team import PLAN, QUEUE, REQUIRED, WORKLOAD, Team, named


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_job_admission(running)
        install_crds(running, "jobset")
        yield running


def seen(job: Object) -> Job:
    """The job as the extender's core sees it."""
    return Reader().read(JOB, job)


def starting(team: Team, nodes: tuple[str, ...], name: str = "train") -> StartJob:
    job = seen(team.now(name))
    plan: PlannedNodes = {podset.name: nodes for podset in job.podsets.podsets}
    return StartJob(job, plan, len(nodes))


def until_stopped(team: Team, name: str = "train") -> Job:
    path = f"{team.jobs}/{name}"
    return seen(team.api.wait_for(path, lambda job: job is not None and seen(job).stopped))


# The writes of Muster's own code.

ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
SPOT = Toleration("spot", "Exists", "", "NoSchedule")
OWN_AFFINITY = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}}


@pytest.mark.parametrize("affinity", [None, OWN_AFFINITY], ids=["none of its own", "its own affinity"])
@pytest.mark.parametrize("count", [2, 12])
def test_a_job_is_started_suspended_and_given_back(
    team: Team, extender: Extender, count: int, affinity: Object | None
) -> None:
    pod = {} if affinity is None else {"affinity": affinity}
    size = {"completions": count, "parallelism": count}
    before = team.create(team.job(pod=pod, spec=size))["spec"]["template"]
    extender.write(starting(team, tuple(f"node-{at}" for at in range(count))))
    started = team.now()
    assert not started["spec"]["suspend"]
    assert PLAN in started["metadata"]["annotations"]
    assert started["spec"]["template"] != before
    team.api.wait_for(f"{team.jobs}/train", lambda job: job["status"].get("active") == count)
    extender.write(SuspendJob(seen(team.now()), "a node is lost"))
    assert team.now()["spec"]["suspend"]
    extender.write(CleanJob(until_stopped(team)))
    after = team.now()
    assert after["spec"]["template"] == before
    assert not any(key.startswith("muster.dev/") for key in after["metadata"].get("annotations", {}))


@pytest.mark.parametrize("own", [None, [{"key": "own", "operator": "Exists"}]], ids=["none of its own", "its own"])
def test_a_flavor_brings_its_tolerations_and_takes_them_along(
    team: Team, extender: Extender, own: list[Object] | None
) -> None:
    before = team.create(team.job(pod={} if own is None else {"tolerations": own}))["spec"]["template"]
    start = starting(team, ("node-0", "node-1"))
    extender.write(replace(start, flavors={"": {"nvidia.com/gpu": "spot"}}, tolerations={"": (SPOT,)}))
    started_job = team.now()
    assert seen(started_job).flavors == {"": {"nvidia.com/gpu": "spot"}}
    tolerated = started_job["spec"]["template"]["spec"]["tolerations"]
    assert tolerated == [*(own or ()), {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]
    team.api.wait_for(f"{team.jobs}/train", lambda job: job["status"].get("active") == 2)
    extender.write(SuspendJob(seen(team.now()), "a node is lost"))
    extender.write(CleanJob(until_stopped(team)))
    after = team.now()
    assert after["spec"]["template"] == before
    assert not any(key.startswith("muster.dev/") for key in after["metadata"].get("annotations", {}))


@pytest.mark.parametrize("own", [{}, {"disk": "fast"}], ids=["none of its own", "its own"])
def test_one_that_is_started_without_nodes_asks_for_the_nodes_of_its_flavor_until_it_is_given_back(
    team: Team, extender: Extender, own: dict[str, str]
) -> None:
    before = team.create(team.job(pod={"nodeSelector": own} if own else {}))["spec"]["template"]
    start = replace(starting(team, ()), flavors={"": {"nvidia.com/gpu": "spot"}}, minimum=2)
    until = NodeWait(4_000_000_000.0, 1)
    extender.write(replace(start, plan={}, node_wait=until, labels={"": (("pool", "spot"),)}))
    assert team.now()["spec"]["template"]["spec"]["nodeSelector"] == own | {"pool": "spot"}
    team.api.wait_for(f"{team.jobs}/train", lambda job: job["status"].get("active") == 2)
    extender.write(replace(start, plan={"": ("a", "b")}))
    assert seen(team.now()).plan == {"": ("a", "b")}
    extender.write(SuspendJob(seen(team.now()), "a node is lost"))
    extender.write(CleanJob(until_stopped(team)))
    after = team.now()
    assert after["spec"]["template"] == before
    assert not any(key.startswith("muster.dev/") for key in after["metadata"].get("annotations", {}))


def test_no_other_labels_of_nodes_can_be_asked_for(team: Team, extender: Extender) -> None:
    team.create(team.job(pod={"nodeSelector": {"disk": "fast"}}))
    flavors = {FLAVORS: "{}"}
    node_wait = {**flavors, PLAN: "nodes are awaited until 2026-11-26T02:30:00Z, attempt 1"}
    added, changed, removed = template(nodeSelector={"a": "b"}), {"disk": "slow"}, {"disk": None}
    for marks in (None, flavors, {PLAN: node_wait[PLAN]}, {**flavors, PLAN: "{}"}):
        extender.refused("PATCH", f"{team.jobs}/train", {"metadata": {"annotations": marks}, **added}, MERGE)
    for labels in (changed, removed):
        body = {"metadata": {"annotations": node_wait}, **template(nodeSelector=labels)}
        extender.refused("PATCH", f"{team.jobs}/train", body, MERGE)
    extender.patch(f"{team.jobs}/train", {"metadata": {"annotations": node_wait}, **added})


def test_the_tolerations_of_its_users_stay(team: Team, extender: Extender) -> None:
    own = {"key": "own", "operator": "Exists"}
    team.create(team.job(pod={"tolerations": [own]}))
    flavors = {"metadata": {"annotations": {FLAVORS: "{}"}}}
    for tolerations in (None, [], [{"key": "other", "operator": "Exists"}]):
        extender.refused("PATCH", f"{team.jobs}/train", template(tolerations=tolerations), MERGE)
        extender.refused("PATCH", f"{team.jobs}/train", {**flavors, **template(tolerations=tolerations)}, MERGE)


def test_what_is_ours_comes_off_a_job_that_is_managed_no_more(team: Team, extender: Extender) -> None:
    team.create(team.job(labels={"muster.dev/gang": "true"}))
    extender.write(starting(team, ("a", "b")))
    team.patch({"metadata": {"labels": {"muster.dev/gang": "false"}}})
    extender.write(SuspendJob(seen(team.now()), "it is managed no more"))
    extender.write(CleanJob(until_stopped(team)))
    assert WORKLOAD not in team.now()["spec"]["template"]["metadata"].get("annotations", {})


def test_an_elastic_job_starts_with_fewer_pods(team: Team, extender: Extender) -> None:
    team.create(team.job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"}))
    extender.patch(f"{team.jobs}/train", {"spec": {"parallelism": 1}})
    assert team.now()["spec"]["parallelism"] == 1


# Writes that a holder of its token may not do.


def template(**spec: object) -> Object:
    return {"spec": {"template": {"spec": spec}}}


FORBIDDEN: dict[str, Object] = {
    "resources": template(
        containers=[{"name": "main", "image": "train", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]
    ),
    "tolerations": template(tolerations=[{"operator": "Exists"}]),
    "node selector": template(nodeSelector={"a": "b"}),
    "gate": template(schedulingGates=[{"name": "muster.dev/gang"}]),
    "labels of nodes": template(affinity=OWN_AFFINITY),
    "preferred nodes": template(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [ZONE]}}
                ]
            }
        }
    ),
    "label of the template": {"spec": {"template": {"metadata": {"labels": {"app": "other"}}}}},
    "annotation of the template": {"spec": {"template": {"metadata": {"annotations": {"example.com/a": "b"}}}}},
    "annotation of the template taken off": {"spec": {"template": {"metadata": {"annotations": {"kept": None}}}}},
    "label": {"metadata": {"labels": {"app": "other"}}},
    "queue": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}},
    "annotation": {"metadata": {"annotations": {"example.com/a": "b"}}},
    "annotation of users": {"metadata": {"annotations": {"muster.dev/hold": "true"}}},
    "annotation taken off": {"metadata": {"annotations": {"kept": None}}},
    "owner": {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": "1"}]}},
    "finalizers": {"metadata": {"finalizers": ["example.com/held"]}},
    "parallelism": {"spec": {"parallelism": 1}},
    "retries": {"spec": {"backoffLimit": 0}},
    "deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "deletion": {"spec": {"ttlSecondsAfterFinished": 0}},
}
"""The forbidden changes of a template. The rest, such as an image, Kubernetes itself makes immutable."""
START = {"metadata": {"annotations": {PLAN: "{}"}}, "spec": {"suspend": False}}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_else_of_a_job_can_be_changed(team: Team, extender: Extender, what: str) -> None:
    manifest = team.job(annotations={"kept": "yes"})
    manifest["spec"]["template"]["metadata"] = {"annotations": {"kept": "yes"}}
    before = team.create(manifest)
    extender.refused("PATCH", f"{team.jobs}/train", FORBIDDEN[what], MERGE)
    # A change that is allowed does not carry another one with it.
    both = merge_patch({}, deepcopy(FORBIDDEN[what]))
    both["spec"] = both.get("spec", {}) | START["spec"]
    extender.refused("PATCH", f"{team.jobs}/train", both, MERGE)
    assert team.now()["metadata"]["generation"] == before["metadata"]["generation"]


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {}},
        {"labels": QUEUE | {"muster.dev/gang": "false"}},
        {"labels": {}, "annotations": {"muster.dev/hold": "true"}},
    ],
    ids=["names nothing", "left alone", "held"],
)
def test_nothing_of_a_job_that_is_not_managed_can_be_changed(team: Team, extender: Extender, meta: Object) -> None:
    team.create(team.job(**meta, spec={"suspend": True}))
    marks = {"spec": {"template": {"metadata": {"annotations": {WORKLOAD: "uid"}}}}}
    for body in (START, {"spec": {"suspend": False}}, marks):
        extender.refused("PATCH", f"{team.jobs}/train", body, MERGE)
    assert team.now()["spec"]["suspend"]


def test_nor_of_the_jobs_of_a_jobset(team: Team, extender: Extender) -> None:
    header = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    path = f"/apis/{header['apiVersion']}/namespaces/{team.name}/jobsets"
    jobs: Object = {"replicatedJobs": []}
    owner = team.api.create(path, {**header, "metadata": {"name": "owner"}, "spec": jobs})["metadata"]["uid"]
    team.create(team.job(ownerReferences=[{**header, "name": "owner", "uid": owner, "controller": True}]))
    extender.refused("PATCH", f"{team.jobs}/train", START, MERGE)


def test_a_required_affinity_of_its_users_stays(team: Team, extender: Extender) -> None:
    team.create(team.job(pod={"affinity": OWN_AFFINITY}))
    for affinity in (None, {"nodeAffinity": None}, named("a")):
        extender.refused("PATCH", f"{team.jobs}/train", template(affinity=affinity), MERGE)


def test_no_job_is_created_or_deleted(team: Team, extender: Extender) -> None:
    team.create(team.job())
    with pytest.raises(ApiError, match="forbidden"):
        extender.do(lambda kube: kube.call("POST", team.jobs, body=team.job("other")))
    with pytest.raises(ApiError, match="forbidden"):
        extender.do(lambda kube: kube.call("DELETE", f"{team.jobs}/train"))
