"""A kube-scheduler that runs on the cluster: its configuration file, and a Process that has metrics."""

import ssl
from pathlib import Path
from typing import Any

import httpx
import yaml

from devcluster.process import Process, Supervised


class Scheduler(Process):
    """A kube-scheduler; `port` is its secure port on 127.0.0.1, where it serves /metrics and /healthz."""

    def __init__(self, owner: Supervised, ident: int, name: str, log: Path) -> None:
        super().__init__(owner, ident, name, log)
        self.port = 0
        self.tls: ssl.SSLContext | None = None

    def metrics(self) -> str:
        """The text of /metrics, read with the administrator's certificate."""
        assert self.tls is not None  # noqa: S101 - set by the cluster that started it
        answer = httpx.get(f"https://127.0.0.1:{self.port}/metrics", verify=self.tls, trust_env=False)
        answer.raise_for_status()
        return answer.text


def write_configuration(config: Path | dict[str, Any] | None, kubeconfig: Path, target: Path) -> Path:
    """Write the configuration as given, with this cluster's kubeconfig.

    Nothing else changes, because it is what is tested.
    """
    match config:
        case None:
            content: dict[str, Any] = {"leaderElection": {"leaderElect": False}}
        case Path():
            content = yaml.safe_load(config.read_text())
        case dict():
            content = dict(config)
    content.setdefault("apiVersion", "kubescheduler.config.k8s.io/v1")
    content.setdefault("kind", "KubeSchedulerConfiguration")
    content["clientConnection"] = {**content.get("clientConnection", {}), "kubeconfig": str(kubeconfig)}
    target.write_text(yaml.safe_dump(content))
    return target
