"""On a real API server: pods are tried as an account of its own, which can create nothing that stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.muster import APPLY, install, install_job_admission, install_pod_trials
from extender.core.effects import TryPod
from extender.kube.api.connection import ApiError as Refusal
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.trials import NAME, account_in
from extender.kube.writer import KubeApi
from extender.runtime.requests import Response
from tests.integration.extender import Extender
from tests.integration.team import GANG, Team

PODS = "/api/v1/namespaces/default/pods"
ACCOUNT = account_in("kube-system")


def pod(name: str) -> Object:
    containers = [{"name": "main", "image": "none"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


OTHERS = ("system:serviceaccount:kube-system:default", "system:serviceaccount:default:muster-trials", "admin")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_job_admission(running)
        yield running


def tried(extender: Extender, team: Team, job: Object | None = None) -> Response:
    job = team.create(job or team.job(labels=GANG))
    effect = TryPod(Reader().read(JOB, job), "", "S")
    answer: Response = extender.do(lambda kube: KubeApi(kube).send(effect, 10.0))
    return answer


def test_without_the_component_nothing_is_tried(extender: Extender, team: Team) -> None:
    assert tried(extender, team).status == 412


def test_a_pod_that_has_the_name_since_before_keeps_jobs_of_its_namespace(
    cluster: Cluster, extender: Extender, team: Team
) -> None:
    cluster.api.create(team.pods, pod(NAME))
    install_pod_trials(cluster)
    answer = tried(extender, team)
    assert (answer.status, "there is a pod muster-trial" in answer.detail) == (403, True)


def test_a_pod_is_tried_and_does_not_stay(cluster: Cluster, extender: Extender, team: Team) -> None:
    install_pod_trials(cluster)
    answer = tried(extender, team)
    assert answer.pod is not None, answer
    assert dict(answer.pod.requests) == {"pods": 1}
    assert answer.pod.gates == (), "no policy of ours has gated it"
    assert cluster.api.list(team.pods) == []


def test_the_account_creates_nothing_that_stays(cluster: Cluster) -> None:
    install_pod_trials(cluster)
    for path in (f"{PODS}/{NAME}", f"/api/v1/namespaces/kube-system/pods/{NAME}"):
        with pytest.raises(ApiError, match="for dry runs only"):
            cluster.api.patch(f"{path}?fieldManager=a", pod(NAME), APPLY, user=ACCOUNT)
        assert cluster.api.patch(f"{path}?fieldManager=a&dryRun=All", pod(NAME), APPLY, user=ACCOUNT)
    for query in ("", "?dryRun=All"):
        for name in (NAME, "other"):
            with pytest.raises(ApiError, match="cannot create"):
                cluster.api.create(f"{PODS}{query}", pod(name), user=ACCOUNT)
        with pytest.raises(ApiError, match="cannot patch"):
            cluster.api.patch(f"{PODS}/other{query or '?a=b'}&fieldManager=a", pod("other"), APPLY, user=ACCOUNT)
    for path, body in (
        ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "one"}}),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}),
    ):
        with pytest.raises(ApiError, match="cannot create"):
            cluster.api.create(path, body, user=ACCOUNT)


@pytest.mark.parametrize("other", OTHERS)
def test_the_extender_impersonates_nobody_else(cluster: Cluster, extender: Extender, other: str) -> None:
    install_pod_trials(cluster)
    query = {"dryRun": "All"}
    with pytest.raises(Refusal, match="cannot impersonate"):
        extender.do(lambda kube: kube.call("POST", PODS, query=query, body=pod("a"), impersonate=other))


def test_nobody_takes_the_name_to_have_no_pod_tried(cluster: Cluster) -> None:
    """Otherwise a job whose pods are refused would evict others for them."""
    install_pod_trials(cluster)
    with pytest.raises(ApiError, match="for dry runs only"):
        cluster.api.create(PODS, pod(NAME))
    assert cluster.api.create(f"{PODS}?dryRun=All", pod("own"))


def test_a_template_that_names_a_variable_twice_is_tried(cluster: Cluster, extender: Extender, team: Team) -> None:
    install_pod_trials(cluster)
    job = team.job(labels=GANG)
    job["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A"}]
    assert tried(extender, team, job).pod is not None
