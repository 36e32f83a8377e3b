"""`muster bench gangs` on a devcluster, held against the API server's audit log: `python -m benchmarks.gangs_audit`.

The audit log has an instant for each request, by the API server's clock, which is that of this machine. So it tells for
each pod when it was created, when its gate came off and when it was bound, without any watch.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from devcluster import Cluster
from devcluster.documents import write_all
from devcluster.muster import MANIFESTS, install_gate, install_job_admission, start_muster
from devcluster.progress import Terminal
from extender.cli.bench.measures import SHARES, Sample
from extender.cli.bench.plan import PREFIX
from extender.cli.terminal import console, grid

ACCOUNT = "load-tester"
NAMESPACE = "kube-system"
PROGRAM = Path(sys.executable).with_name("muster")
TOLERANCE = 0.05
JUDGED = ("bound", "gang.bound")
"""Metrics that have to agree with the audit log. The others are shown beside them.

created differs by the way of the answer, planned by the lag of the watch, at_bind by Muster's way to the API server.
"""

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A quantile of one metric, in ms: as the load test says, and by the audit log."""

    metric: str
    quantile: str
    told: float
    audited: float

    @property
    def share(self) -> float:
        """How far they are apart."""
        return abs(self.told - self.audited) / self.audited

    @property
    def agrees(self) -> bool:
        """Whether they are apart by 5 % at most, or do not have to agree."""
        return self.metric not in JUDGED or self.share <= TOLERANCE


def differences(document: Mapping[str, Any], audit: Sequence[Event]) -> Iterator[Difference]:
    """Compare the quantiles of a load test with those of the API server's audit log."""
    seen = instants(audit, f"{PREFIX}{document['run']}")
    dues = {pod["pod"]: _instant(pod["due"]) for pod in document["each_pod"]}
    latencies = {
        stage: {pod: (seen[stage][pod] - due) * 1000 for pod, due in dues.items() if pod in seen[stage]}
        for stage in ("created", "planned", "bound")
    }
    gangs: dict[str, list[str]] = {}
    for pod in document["each_pod"]:
        gangs.setdefault(pod["gang"], []).append(pod["pod"])
    samples = {stage: Sample.of(values.values()) for stage, values in latencies.items()}
    first = {gang: min(seen["asked"].get(pod, math.inf) for pod in pods) for gang, pods in gangs.items()}
    samples["at_bind"] = Sample.of((first[gang] - dues[pod]) * 1000 for gang, pods in gangs.items() for pod in pods)
    samples["gang.bound"] = Sample.of(max(latencies["bound"][pod] for pod in pods) for pods in gangs.values())
    for metric, sample in samples.items():
        figures = document["latency_ms"][metric]
        if sample.count != figures["count"] or figures["missing"]:
            raise ValueError(f"{metric}: {figures['count']} pods or gangs, and {sample.count} in the audit log")
        for name, percent in {**{f"p{share}": share for share in SHARES}, "max": 100}.items():
            yield Difference(metric, name, figures[name], sample.quantile(percent))


def instants(audit: Sequence[Event], namespace: str) -> dict[str, dict[str, float]]:
    """When each pod of the namespace was created, ungated, asked to be bound, and bound, by name, in seconds."""
    seen: dict[str, dict[str, float]] = {stage: {} for stage in ("created", "planned", "asked", "bound")}
    for event in audit:
        subject, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
        is_of_run = subject.get("resource") == "pods" and subject.get("namespace") == namespace
        if not is_of_run or code >= 300 or "name" not in subject:
            continue
        name, end = subject["name"], _instant(event["stageTimestamp"])
        match event["verb"], subject.get("subresource", ""):
            case "create", "":
                seen["created"].setdefault(name, end)
            case "patch", _ if event["user"]["username"].endswith(":muster-extender"):
                seen["planned"].setdefault(name, end)
            case "create", "binding":
                seen["asked"].setdefault(name, _instant(event["requestReceivedTimestamp"]))
                seen["bound"].setdefault(name, end)
    return seen


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def kubeconfig_of_tester(cluster: Cluster) -> Path:
    """The kubeconfig of an account that has the rights of the component bench-role, and no others."""
    role = MANIFESTS / "components" / "bench-role" / "role.yaml"
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-bench"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    cluster.kubectl("apply", "-f", str(role))
    cluster.kubectl("apply", "-f", "-", stdin=write_all([account, binding]))
    return cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT)


def main(
    gangs: Annotated[int, typer.Option(min=1, help="How many gangs.")] = 200,
    size: Annotated[int, typer.Option(min=1, help="Pods of a gang, of one GPU each.")] = 8,
    rate: Annotated[float, typer.Option(min=0.1, help="Pods a second.")] = 20,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of 8 GPUs.")] = 250,
) -> None:
    """Run `muster bench gangs` on a devcluster of its own, and compare its figures with the audit log.

    Exit code 0: they agree within 5 %. 1: they do not.
    """
    progress = Terminal()
    with Cluster(progress, audited=True) as cluster, tempfile.TemporaryDirectory() as directory:
        cluster.add_nodes(nodes, labels=lambda number: {"nvidia.com/gpu.clique": f"clique-{number // 16}"})
        muster = start_muster(cluster)
        install_gate(cluster)
        install_job_admission(cluster)
        progress.done()
        output = Path(directory) / "run.json"
        course = [f"--gangs={gangs}", f"--size={size}", f"--rate={rate}", "--yes", f"--output={output}"]
        where = [f"--kubeconfig={kubeconfig_of_tester(cluster)}", f"--url={muster.url}"]
        subprocess.run([PROGRAM, "bench", "gangs", *course, *where], check=True)
        document = json.loads(output.read_text())
        compared = list(differences(document, cluster.audit()))
    rows = [
        (pair.metric, pair.quantile, f"{pair.told:.1f}", f"{pair.audited:.1f}", f"{pair.share:.1%}")
        for pair in compared
    ]
    console().print(grid(("ms", "", "#bench", "#audit log", "#apart"), rows))
    raise typer.Exit(0 if all(pair.agrees for pair in compared) else 1)


if __name__ == "__main__":
    typer.run(main)
