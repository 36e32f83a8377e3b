"""A cluster that Muster has written on, and `muster release --all` on it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from extender.cli.main import main
from extender.kube.kinds.change import suspend
from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Object
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import SUSPENDED, started, stored
from tests.kube.test_tokens import kubeconfig

JOBS, PODS = "/apis/batch/v1/jobs", "/api/v1/pods"
PATH = "/apis/batch/v1/namespaces/team/jobs/indexed-job"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"


def waiting(**metadata: Any) -> Object:
    """A job that the admission policy has suspended."""
    obj = stored(INDEXED)
    obj["metadata"] |= metadata
    obj["spec"]["template"]["spec"]["schedulerName"] = "muster"
    return obj


def stopped() -> Object:
    """Started once and suspended again, before Muster could clean it."""
    obj = started(JOB, waiting())
    suspend(JOB, obj)
    return obj | {"status": SUSPENDED}


def pod(name: str, *, gated: bool = False, nominated: str = "", gang: bool = True, node: str = "") -> Object:
    keys = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"} if gang else {}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": keys}
    gates = {"schedulingGates": [{"name": "muster.dev/gang"}]} if gated else {}
    spec = {"schedulerName": "muster", "containers": [{"name": "main"}], **gates}
    status = {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})}
    return {"metadata": meta, "spec": spec | ({"nodeName": node} if node else {}), "status": status}


def listed(*items: Object) -> Answer:
    return Answer(body={"metadata": {"resourceVersion": "9"}, "items": list(items)})


def lease(renewed: datetime) -> Answer:
    spec = {"holderIdentity": "muster-0_1", "leaseDurationSeconds": 15, "renewTime": renewed.isoformat()}
    return Answer(body={"spec": spec})


class Cluster:
    """The objects of an API server, and `muster release --all` on it."""

    def __init__(self, tmp_path: Path, *jobs: Object, pods: tuple[Object, ...] = ()) -> None:
        self._kubeconfig = tmp_path / "config"
        self.answers = {("GET", JOBS): listed(*jobs), ("GET", PODS): listed(*pods), ("GET", "/version"): OK}
        for path in (f"/api/v1/namespaces/team/pods/{made['metadata']['name']}" for made in pods):
            self.answers |= {("PATCH", path): OK, ("PATCH", f"{path}/status"): OK}
        self.answers["PATCH", PATH] = OK
        self.leases: list[Answer] = []

    def release(self, *flags: str) -> tuple[Result, FakeApi]:
        async def scenario() -> tuple[Result, FakeApi]:
            async with fake_api() as (api, _):
                for (method, path), answer in self.answers.items():
                    api.on(method, path, answer)
                api.on("GET", LEASE, *(self.leases or [refused(404, "NotFound")]))
                argv = ["release", "--all", f"--kubeconfig={kubeconfig(self._kubeconfig, api.url, {})}", *flags]
                return await asyncio.to_thread(CliRunner().invoke, main, argv), api

        return asyncio.run(scenario())
