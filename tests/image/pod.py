"""The container `muster` of the Deployment, run from an image as a kubelet runs it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from devcluster import Cluster
from tests.image.roots import Image, Root, cache, merged, namespace, within

ROOT = Path(__file__).parents[2]
IDENTITY = "/var/run/secrets/kubernetes.io/serviceaccount"
PATIENCE_S = 60.0


def container() -> Any:
    """The one of the manifests."""
    deployment = yaml.safe_load((ROOT / "manifests" / "base" / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    [ours] = [entry for entry in pod["containers"] if entry["name"] == "muster"]
    assert ours["securityContext"]["readOnlyRootFilesystem"] is True
    return ours


def identity_of(cluster: Cluster, namespace: str, name: str, at: Path) -> Path:
    """A folder with the token and the authority of a ServiceAccount."""
    users = yaml.safe_load(cluster.service_account_kubeconfig(namespace, name).read_text())
    (at / "token").write_text(users["users"][0]["user"]["token"])
    shutil.copy(users["clusters"][0]["cluster"]["certificate-authority"], at / "ca.crt")
    for path in (at, *at.iterdir()):
        path.chmod(0o755)  # for the pod's user: files made here are for root alone
    return at


@dataclass(frozen=True)
class Pod:
    """``server``: HOST:PORT of the API server. ``identity``: a folder with the ServiceAccount's token and ca.crt."""

    image: Image
    server: str
    identity: Path
    port: int

    def _command(self, argv: Sequence[str], top: Path, root: Root) -> str:
        """The script that runs a program in the container; mount points are made in ``top``, a layer of the root."""
        mounts = {"/etc/muster": ROOT / "manifests" / "base", IDENTITY: self.identity}
        memory = ["/var/lib/muster"]
        for place in (*mounts, *memory, "/proc", "/dev"):
            (top / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for folder in (top, *top.rglob("*")):
            folder.chmod(0o755)  # temporary folders are for root alone
        host, _, port = self.server.rpartition(":")
        env = {**self.image.env, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        env["MUSTER_LISTEN_PORT"] = str(self.port)
        user, _, group = self.image.user.partition(":")
        drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
        drop += ["--bounding-set=-all", "--inh-caps=-all", "env", "--ignore-environment"]
        drop += [f"{name}={value}" for name, value in env.items()]
        lines = [f"mount --bind --options ro {source} {root.path}{place}" for place, source in mounts.items()]
        lines.append(f"exec chroot {root.path} {shlex.join([*drop, *argv])}")
        return within(root, writable=memory) + "\n".join(lines)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program in a container of this pod to its end, as probes are."""
        with self._script(argv) as script:
            return subprocess.run(namespace(script), capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[str]]:
        """The container with the image's entry point and the manifest's arguments. It is killed at the end."""
        with (
            self._script([*self.image.entrypoint, *container()["args"]]) as script,
            subprocess.Popen(
                namespace(script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()  # and with it all of its namespace

    def until(self, probe: str, process: subprocess.Popen[str]) -> str:
        """Wait until one of the manifest's probes succeeds, and return its output."""
        command = container()[probe]["exec"]["command"]
        deadline = time.monotonic() + PATIENCE_S
        output = ""
        while time.monotonic() < deadline and process.poll() is None:
            probed = self.run(*command)
            output = f"{probed.stdout}{probed.stderr}".strip()
            if probed.returncode == 0:
                return output
        process.kill()
        raise AssertionError(f"{probe}: {output}\n{process.communicate()[0]}")

    @contextmanager
    def _script(self, argv: Sequence[str]) -> Iterator[str]:
        with (
            TemporaryDirectory(dir=cache(), prefix=".making-") as directory,
            merged(self.image, top=Path(directory)) as root,
        ):
            yield self._command(argv, Path(directory), root)


def end(process: subprocess.Popen[str]) -> int:
    """Send SIGTERM to the first process of the container, and return the exit code."""
    [first] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(first), signal.SIGTERM)
    return process.wait(PATIENCE_S)
