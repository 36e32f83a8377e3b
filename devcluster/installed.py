"""A Muster that a user installs on a cluster of simulated nodes: runs its pods as a kubelet would."""

from typing import Any

import httpx
import yaml

from devcluster.api import ApiError
from devcluster.cluster import Cluster
from devcluster.dashboard import RunningDashboard
from devcluster.errors import ClusterError
from devcluster.muster import RunningMuster, scheduler_flags
from devcluster.process import Process

_OF_MUSTER = "app.kubernetes.io/name=muster"
_CONFIGS = ("muster-config", "scheduler-config")
"""The volumes with Muster's settings and with the configuration of kube-scheduler."""
_DASHBOARD = "dashboard-token"
"""The volume that Muster's pods have where the component `dashboard` is installed."""
_PROCESSES = ("kube-scheduler-muster", "muster", "muster-dashboard")
"""kube-scheduler ends first, so that it meets no closed port."""


class InstalledMuster:
    """Runs the containers of Muster's Deployment as processes of this machine, in any namespace.

    One pair of processes stands for all replicas, and one process for the dashboard if it is installed. They have the
    ConfigMaps, the flags and the accounts of the pods, and the code of this checkout, whatever image the pods name.
    ``dashboard``: None where there is none.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._port = cluster.free_port()
        self._played = ""
        self.url = f"http://127.0.0.1:{self._port}"
        self.dashboard: RunningDashboard | None = None

    def play(self, watched: list[Process]) -> list[str]:
        """Start the processes of the newest pods in place of the earlier ones, and end them when no pods are left.

        ``watched``: gets each started process, and loses each ended one.

        Returns a text on each change.
        """
        try:
            pod = self._newest()
        except httpx.HTTPError:  # the API server has ended, which is reported
            return []
        wanted = "" if pod is None else _revision(pod)
        if wanted == self._played:
            return []
        self._end(watched)
        self._played = wanted
        if pod is None:
            return ["Muster's pods are gone, and its processes have ended"]
        try:
            watched += self._started(pod)
        except (ClusterError, ApiError) as error:
            self._end(watched)
            return [f"Muster does not run as {wanted}: {error}"]
        texts = [f"Muster runs as {wanted}"]
        if self.dashboard is not None:
            texts.append(f"its dashboard: muster ui --url {self.dashboard.url} --account NAMESPACE/NAME")
        return texts

    def _newest(self) -> dict[str, Any] | None:
        pods = self._cluster.api.list("/api/v1/pods", labelSelector=_OF_MUSTER)
        alive = [
            pod
            for pod in pods
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return max(alive, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)

    def _end(self, watched: list[Process]) -> None:
        for name in _PROCESSES:
            for process in self._cluster.processes:
                if process.name == name:
                    process.terminate()
        watched[:] = [process for process in watched if process.name not in _PROCESSES]
        self.dashboard = None

    def _started(self, pod: dict[str, Any]) -> list[Process]:
        namespace = pod["metadata"]["namespace"]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        settings, config = (self._config(namespace, volumes[name]["configMap"]["name"]) for name in _CONFIGS)
        self.dashboard = RunningDashboard(self._cluster, namespace) if _DASHBOARD in volumes else None
        if self.dashboard is not None:
            settings |= self.dashboard.settings
        running = RunningMuster(
            self._cluster, settings, config, scheduler_flags(pod["spec"]), namespace=namespace, port=self._port
        )
        return [running.extender, running.scheduler, *([] if self.dashboard is None else [self.dashboard.process])]

    def _config(self, namespace: str, name: str) -> Any:
        stored = self._cluster.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        (text,) = stored["data"].values()
        return yaml.safe_load(text)


def _revision(pod: dict[str, Any]) -> str:
    """Return NAMESPACE/muster-HASH, where the Deployment changes the hash with each change of its pods."""
    return f"{pod['metadata']['namespace']}/muster-{pod['metadata']['labels']['pod-template-hash']}"
