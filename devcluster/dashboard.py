"""The dashboard on a cluster as it ships: its own identity and rights, with only addresses and tokens replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster
from devcluster.health import wait_until_healthy
from devcluster.muster import CURRENT, NAMESPACE
from devcluster.process import Process
from extender.config.values import DASHBOARD_AUDIENCE

VIEWER = "dashboard-viewer"
"""A ServiceAccount that may list all pods, for `muster ui --account`: the administrator has no token."""
_TOKEN_S = 24 * 3600


class RunningDashboard:
    """A running dashboard, and the extender's settings for it (``settings``).

    Its rights have to be installed, in ``namespace``.
    """

    def __init__(self, cluster: Cluster, namespace: str = NAMESPACE) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._port = cluster.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._identity = cluster.service_account_kubeconfig(namespace, "muster-dashboard")
        self.process = self.start()

    def start(self) -> Process:
        """Start it, also once more after it was killed."""
        self.process = self._cluster.start(
            "muster-dashboard",
            [CURRENT.program, "dashboard", f"--kubeconfig={self._identity}", f"--port={self._port}"],
            {"MUSTER_DASHBOARD_EXTENDER": f"system:serviceaccount:{self._namespace}:muster-scheduler"},
        )
        wait_until_healthy(self.process, f"{self.url}/readyz")
        return self.process

    @property
    def settings(self) -> dict[str, Any]:
        """The settings with which the extender connects."""
        return {"dashboard_url": self.url, "dashboard_token_file": str(self._token())}

    def _token(self) -> Path:
        """Write a token of Muster's pods for the dashboard into a file, as the kubelet does. Returns the file."""
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/muster-scheduler/token"
        spec = {"audiences": [DASHBOARD_AUDIENCE], "expirationSeconds": _TOKEN_S}
        file = self._cluster.directory / "dashboard-token"
        file.write_text(self._cluster.api.create(path, {"spec": spec})["status"]["token"])
        return file


def make_viewer(cluster: Cluster) -> str:
    """Make the ServiceAccount that sees everything. Returns its name for `muster ui --account`."""
    cluster.kubectl("create", "serviceaccount", VIEWER, f"--namespace={NAMESPACE}")
    binding = ["--clusterrole=view", f"--serviceaccount={NAMESPACE}:{VIEWER}"]
    cluster.kubectl("create", "clusterrolebinding", VIEWER, *binding)
    return f"{NAMESPACE}/{VIEWER}"
