"""What there is to know of each controller: its module, its manifests, its command line, its webhooks.

Versions are pinned by the go.mod of each, in the folder of its name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.errors import ClusterError

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """Where one running controller keeps and finds things, and where it listens."""

    certificates: Path
    config: Path
    webhook_port: int
    health_port: int


@dataclass(frozen=True)
class Webhooks:
    """Its admission webhooks, as its manifests have them before kustomize gives them their names.

    `pods`: the label of the pods that its webhooks for pods are about.
    """

    manifests: str
    service: str
    validating: str
    mutating: str
    pods: str


@dataclass(frozen=True)
class Controller:
    """One project. Patterns of files are relative to the source of its module."""

    name: str
    module: str
    package: str
    namespace: str
    crds: str
    configuration: str
    webhooks: Webhooks

    def config(self, place: Place) -> dict[str, Any]:
        """Its configuration file: no leader election, and everything on loopback."""
        return {
            "apiVersion": self.configuration,
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": place.webhook_port, "host": "127.0.0.1", "certDir": str(place.certificates)},
            "internalCertManagement": {"enable": False},
        }

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def version(self) -> str:
        """As pinned by its go.mod."""
        pinned = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", (self.folder / "go.mod").read_text(), re.MULTILINE)
        if pinned is None:
            raise ClusterError(f"{self.folder / 'go.mod'} does not name {self.module}")
        return pinned[1]


CATALOGUE = {
    one.name: one
    for one in (
        Controller(
            "jobset",
            "sigs.k8s.io/jobset",
            "sigs.k8s.io/jobset",
            "jobset-system",
            "config/components/crd/bases/*.yaml",
            "config.jobset.x-k8s.io/v1alpha1",
            Webhooks(
                "config/components/webhook/manifests.yaml",
                "jobset-webhook-service",
                "jobset-validating-webhook-configuration",
                "jobset-mutating-webhook-configuration",
                "jobset.sigs.k8s.io/jobset-name",
            ),
        ),
        Controller(
            "lws",
            "sigs.k8s.io/lws",
            "sigs.k8s.io/lws/cmd",
            "lws-system",
            "config/crd/bases/*.yaml",
            "config.lws.x-k8s.io/v1alpha1",
            Webhooks(
                "config/webhook/manifests.yaml",
                "lws-webhook-service",
                "lws-validating-webhook-configuration",
                "lws-mutating-webhook-configuration",
                "leaderworkerset.sigs.k8s.io/name",
            ),
        ),
    )
}
