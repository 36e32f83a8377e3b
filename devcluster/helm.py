"""The real helm, built from its Go module like the programs of the cluster."""

import os
import subprocess
from pathlib import Path

from devcluster.builds import Module
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.progress import Progress, silent

_MODULE = Module(Path(__file__).parent / "helm", {"helm": "helm.sh/helm/v4/cmd/helm"})


def build_helm(progress: Progress = silent) -> Path:
    """Return the program. Builds it, if it is not there, which takes two to four minutes."""
    return _MODULE.programs(["helm"], progress)["helm"]


class Helm:
    """Runs helm without the user's own settings, repositories and plugins; for a cluster if there is one."""

    def __init__(self, directory: Path, cluster: Cluster | None = None) -> None:
        self.program = build_helm()
        folders = {name: str(directory / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HELM_")},
            **{f"HELM_{name}_HOME": folder for name, folder in folders.items()},
            # It asks twice for each object, and five times a second from the hundredth request on.
            "HELM_BURST_LIMIT": "1000",
            "KUBECONFIG": str(cluster.kubeconfig if cluster is not None else directory / "no-cluster"),
        }

    def __call__(self, *args: str | Path) -> str:
        """Return helm's output. Raises ClusterError with helm's complaint."""
        argv = [str(self.program), *map(str, args)]
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"helm {' '.join(argv[1:])} failed:\n{done.stderr.strip()}\n{done.stdout.strip()}")
        return done.stdout
