"""The programs a cluster is made of: where each is found, and how the missing ones are built.

The first of these that has a program supplies it: the folder in MUSTER_DEVCLUSTER_BIN, the folder in
KUBEBUILDER_ASSETS, the cache of what was built before, a build now.

Each minor version of Kubernetes has a Go module of its own, in kubernetes/. The newest one builds
the programs that an older go.mod does not list: kwok, which serves all versions and does not build with each.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from devcluster.builds import Module, is_program
from devcluster.errors import ClusterError
from devcluster.progress import Progress, silent

# In this order: the quick ones first, so that a broken build environment is noticed early.
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
FOLDERS_FROM = ("MUSTER_DEVCLUSTER_BIN", "KUBEBUILDER_ASSETS")

REFERENCE = "1.37"
"""The minor version of Kubernetes that is run where nothing else is asked for."""
ASKED_BY = "MUSTER_DEVCLUSTER_KUBERNETES"
"""The environment variable that names another one, for tests and benchmarks."""
KUBERNETES = Path(__file__).parent / "kubernetes"
"""A folder with a Go module for each minor version."""


def locate(progress: Progress = silent) -> dict[str, Path]:
    """Return every program by name. Builds the missing ones, which takes minutes the first time."""
    programs = {name: path for name in PACKAGES if (path := _named_by_user(name)) is not None}
    missing = [name for name in PACKAGES if name not in programs]
    version = _wanted_version()
    own = [name for name in missing if PACKAGES[name] in (_module(version) / "go.mod").read_text()]
    others = [name for name in missing if name not in own]
    programs |= _built(own, version, progress)
    return programs | Module(KUBERNETES / REFERENCE, PACKAGES).programs(others, progress)


def locate_kubernetes(version: str, progress: Progress) -> dict[str, Path]:
    """Return the programs that Kubernetes releases, of that minor version, as in "1.36". Builds the missing ones."""
    return _built([name for name in PACKAGES if name.startswith("kube-")], version, progress)


def _built(names: Sequence[str], version: str, progress: Progress) -> dict[str, Path]:
    return Module(_module(version), PACKAGES, _linker_flags(version)).programs(names, progress)


def minors() -> list[str]:
    """Return the minor versions of Kubernetes that can be run, the newest first."""
    known = [folder.name for folder in KUBERNETES.iterdir()]
    return sorted(known, key=lambda name: [int(number) for number in name.split(".")], reverse=True)


def kubernetes_version(version: str = "") -> str:
    """Return the release that is run, as in "v1.37.2": the one that go.mod of the minor version pins."""
    module = _module(version or _wanted_version()) / "go.mod"
    pinned = re.search(r"k8s\.io/kubernetes (v\S+)", module.read_text())
    if pinned is None:
        raise ClusterError(f"{module} does not name k8s.io/kubernetes")
    return pinned[1]


def minor() -> tuple[int, int]:
    """Return the minor version of Kubernetes that is run, as in (1, 37)."""
    major, minor, *_ = kubernetes_version().removeprefix("v").split(".")
    return int(major), int(minor)


def _wanted_version() -> str:
    return os.environ.get(ASKED_BY) or REFERENCE


def _module(version: str) -> Path:
    """Return the folder with the go.mod of that minor version."""
    if version not in minors():
        raise ClusterError(f"Kubernetes {version} cannot be run: choose {', '.join(minors())}")
    return KUBERNETES / version


def _named_by_user(name: str) -> Path | None:
    for variable in FOLDERS_FROM:
        folder = os.environ.get(variable)
        if folder and is_program(path := Path(folder).absolute() / name):
            return path
    return None


def _linker_flags(version: str) -> str:
    """No symbols, and the version that the programs report: without it Kubernetes calls itself v0.0.0."""
    major, minor_of_it = version.split(".")
    release = kubernetes_version(version)
    settings = {"gitVersion": release, "gitMajor": major, "gitMinor": minor_of_it, "gitTreeState": "clean"}
    named = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in settings.items()]
    return " ".join(["-s", "-w", *named])
