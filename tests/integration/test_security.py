"""On a real API server: mutual TLS between kube-scheduler and Muster, the token, and a pod that is restricted."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import httpx
import pytest
import yaml

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.certificates import Authority
from devcluster.muster import NAMESPACE, install
from devcluster.tls import client_context
from extender.kube.api.connection import ApiError as Refused
from extender.kube.api.connection import Connection
from extender.kube.client import Kube
from tests.integration.over_tls import PATIENCE_S, shipped, start_over_tls, with_token_file

pytestmark = pytest.mark.xdist_group("security")

PODS = "/api/v1/pods"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority for the certificates that Muster and its kube-scheduler show each other."""
    return Authority(tmp_path_factory.mktemp("muster") / "pki")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        start_over_tls(running, authority)
        yield running


def test_the_extenders_token_lasts_half_an_hour_and_is_its_own(cluster: Cluster) -> None:
    token = (cluster.directory / "token" / "token").read_text()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = cluster.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:muster-extender"
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] == 1800


def test_whoever_makes_it_can_make_no_other(cluster: Cluster) -> None:
    own = cluster.service_account_kubeconfig(NAMESPACE, "muster-scheduler")

    async def ask(name: str) -> None:
        connection = await Connection.open(own)
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
        try:
            await connection.call("POST", path, body={"spec": {"expirationSeconds": 600}})
        finally:
            await connection.close()

    asyncio.run(ask("muster-extender"))
    with pytest.raises(Refused, match="403"):
        asyncio.run(ask("default"))


async def ask_on(kube: Kube) -> NoReturn:
    while True:
        await kube.call("GET", PODS)


def test_an_invalid_token_is_replaced_without_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    """Tokens bound to an object end with it: a client meets the same as when their time is over."""
    api = cluster.api
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/muster-extender/token"
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    api.create(secrets, {"metadata": {"name": "bound"}})
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "bound"}
    first = api.create(account, {"spec": {"expirationSeconds": 600, "boundObjectRef": bound}})["status"]["token"]
    token = tmp_path / "token"
    token.write_text(first)

    async def script() -> None:
        kube = await Kube.connect(with_token_file(cluster, token))
        try:
            await kube.call("GET", PODS)
            api.delete(f"{secrets}/bound")
            with pytest.raises(Refused, match="401"):
                await asyncio.wait_for(ask_on(kube), PATIENCE_S)  # the API server remembers tokens for some seconds
            token.unlink()
            token.write_text(api.create(account, {"spec": {"expirationSeconds": 600}})["status"]["token"])
            await kube.call("GET", PODS)
        finally:
            await kube.close()

    asyncio.run(script())


def test_nobody_else_gets_an_answer(cluster: Cluster, authority: Authority) -> None:
    """Not without a certificate, and not with one of the same authority that bears another name."""
    settings = yaml.safe_load((cluster.directory / "muster.yaml").read_text())
    url = f"https://127.0.0.1:{settings['listen_port']}/gangs"
    nameless = ssl.create_default_context(cafile=str(authority.certificate))
    neighbour = client_context(authority.certificate, authority.client("neighbour", "neighbour"))
    scheduler = client_context(authority.certificate, authority.client("scheduler", "kube-scheduler"))
    for stranger in (nameless, neighbour):
        with pytest.raises((httpx.NetworkError, httpx.RemoteProtocolError)):
            httpx.get(url, verify=stranger, trust_env=False)
    assert httpx.get(url, verify=scheduler, trust_env=False).status_code == httpx.codes.OK


def test_the_pod_is_admitted_where_pod_security_is_restricted(cluster: Cluster) -> None:
    [template] = [obj["spec"]["template"] for obj in shipped(cluster) if obj["kind"] == "Deployment"]
    enforce = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "v1.37",
    }
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": enforce}})
    cluster.api.create("/api/v1/namespaces/strict/serviceaccounts", {"metadata": {"name": "muster-scheduler"}})
    path = "/api/v1/namespaces/strict/pods?dryRun=All"

    def create(spec: Object) -> Object:
        return cluster.api.create(path, {"metadata": {"name": "muster"}, "spec": spec})

    assert create(template["spec"])["metadata"]["name"] == "muster"
    careless = {**template["spec"], "hostNetwork": True}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        create(careless)
