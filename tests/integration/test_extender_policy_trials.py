"""On a real API server: pods are tried as an account of its own, which can create nothing that stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import ApiError
from devcluster.muster import install, install_job_admission, install_pod_trials
from extender.core.effects import TryPod
from extender.kube.api.connection import ApiError as Refusal
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.trials import ACCOUNT
from extender.kube.writer import KubeApi
from extender.runtime.requests import Response
from tests.integration.extender import Extender
from tests.integration.team import GANG, Team

POD = {"metadata": {"name": "real"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
OTHERS = ("system:serviceaccount:kube-system:default", "system:serviceaccount:default:muster-trials", "admin")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_job_admission(running)
        yield running


def tried(extender: Extender, team: Team) -> Response:
    job = team.create(team.job(labels=GANG))
    effect = TryPod(Reader().read(JOB, job), "", "S")
    answer: Response = extender.do(lambda kube: KubeApi(kube).send(effect, 10.0))
    return answer


def test_without_the_component_nothing_is_tried(extender: Extender, team: Team) -> None:
    assert tried(extender, team).status == 412


def test_a_pod_is_tried_and_does_not_stay(cluster: Cluster, extender: Extender, team: Team) -> None:
    install_pod_trials(cluster)
    answer = tried(extender, team)
    assert answer.pod is not None, answer
    assert dict(answer.pod.requests) == {"pods": 1}
    assert answer.pod.gates == (), "no policy of ours has gated it"
    assert cluster.api.list(team.pods) == []


def test_the_account_creates_nothing_that_stays(cluster: Cluster) -> None:
    install_pod_trials(cluster)
    for path in ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/kube-system/pods"):
        with pytest.raises(ApiError, match="by a dry run only"):
            cluster.api.create(path, POD, user=ACCOUNT)
        assert cluster.api.create(f"{path}?dryRun=All", POD, user=ACCOUNT)
    for path, body in (
        ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "one"}}),
        ("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}),
    ):
        with pytest.raises(ApiError, match="cannot create"):
            cluster.api.create(path, body, user=ACCOUNT)


@pytest.mark.parametrize("other", OTHERS)
def test_the_extender_impersonates_nobody_else(cluster: Cluster, extender: Extender, other: str) -> None:
    install_pod_trials(cluster)
    path, query = "/api/v1/namespaces/default/pods", {"dryRun": "All"}
    with pytest.raises(Refusal, match="cannot impersonate"):
        extender.do(lambda kube: kube.call("POST", path, query=query, body=POD, impersonate=other))
