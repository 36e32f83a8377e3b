"""A control plane of one's own: starts with the `with` block, and nothing of it is left behind it."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devcluster import binaries, components, kubeconfig, nodes, platforms, scheduler
from devcluster.api import Api
from devcluster.boot import ControlPlane, boot
from devcluster.certificates import KeyPair
from devcluster.errors import ClusterError
from devcluster.health import start_on_free_port, wait_until_healthy
from devcluster.ports import free_port
from devcluster.process import Process, Supervised
from devcluster.profiles import PROFILES, Profile
from devcluster.progress import Progress, silent
from devcluster.proxy import Proxy
from devcluster.scheduler import Scheduler
from devcluster.tls import client_context
from extender.platforms import nodes as catalogue

TOKEN_LIFETIME_S = 24 * 3600


class Cluster:
    """etcd, kube-apiserver, kube-controller-manager and kwok on loopback; kube-scheduler when asked for.

    `progress` is called with what happens while programs are built (minutes, once) and started (seconds).
    """

    directory: Path  # temporary; logs/ holds one file per process
    server: str  # the API server's URL
    kubeconfig: Path  # the administrator's
    api: Api  # as the administrator
    profile: Profile
    ready_after_s: float  # how long the control plane took to start, builds not counted

    def __init__(
        self,
        progress: Progress | None = None,
        *,
        profile: str = "plain",
        audited: bool = False,
        flags: Mapping[str, Sequence[str]] | None = None,
        kubernetes: str = "",
    ) -> None:
        """Make a cluster.

        ``profile``: how the API server is run, as in `devcluster.profiles`.
        ``audited``: whether the API server records the requests of ServiceAccounts, for `audit()`.
        ``flags``: the additional command line of each component, by its name; the last of two equal flags counts.
        ``kubernetes``: the minor version to begin with, where `upgrade` is to follow.
        """
        self._kubernetes = kubernetes
        self._progress = progress or silent
        self.profile = PROFILES[profile]()
        self._audited = audited or self.profile.audited
        given = flags or {}
        self._flags = {
            name: [*self.profile.flags.get(name, ()), *given.get(name, ())]
            for name in dict.fromkeys((*self.profile.flags, *given))
        }

    def __enter__(self) -> Self:
        self._binaries = binaries.locate(self._progress)
        if self._kubernetes:
            self._binaries |= binaries.locate_kubernetes(self._kubernetes, self._progress)
        began = time.monotonic()
        self._supervised = Supervised()
        try:
            plane = boot(self._supervised, self._binaries, self._progress, self._flags, audited=self._audited)
            self._adopt(plane)
            self.profile.prepare(self.api, self.start_server)
        except BaseException:
            self._supervised.stop()
            raise
        self.ready_after_s = time.monotonic() - began
        self._progress(f"control plane ready, {self.ready_after_s:.1f} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.api.close()
        self._supervised.stop()

    def _adopt(self, plane: ControlPlane) -> None:
        self._files = plane.files
        self._admin = plane.admin
        self.directory = plane.files.directory
        self.server = plane.server
        self.api = plane.api
        self.kubeconfig = plane.files.kubeconfig("admin")

    def binary(self, name: str) -> Path:
        """The program of that name, as in "kubectl"."""
        return self._binaries[name]

    @property
    def processes(self) -> list[Process]:
        """Every process of the cluster that runs now."""
        return self._supervised.running()

    def free_port(self) -> int:
        """A port on 127.0.0.1 for a process that is to be started."""
        return free_port()

    def process(self, name: str) -> Process:
        """The running process of that name, as in "kube-apiserver"."""
        return next(process for process in self.processes if process.name == name)

    def again(self, ended: Process) -> Process:
        """Run a component once more, as it was, after its process was killed; it may not be well yet."""
        return self._supervised.again(ended)

    def upgrade(self, kubernetes: str) -> None:
        """Continue with another minor version of Kubernetes, on the same data and under the same address.

        The API server comes first, then the controller manager, each as it was run before. A running kube-scheduler
        keeps its version, and the next one that is started has the new one.
        """
        programs = binaries.locate_kubernetes(kubernetes, self._progress)
        for name in ("kube-apiserver", "kube-controller-manager"):
            process = self.process(name)
            # On SIGTERM an API server waits for its clients for up to a minute.
            process.kill()
            process.request["argv"][0] = str(programs[name])
            self._wait_until_healthy(self.again(process))
        self._binaries |= programs

    def _wait_until_healthy(self, process: Process) -> None:
        port = next(flag.partition("=")[2] for flag in process.request["argv"] if flag.startswith("--secure-port="))
        wait_until_healthy(
            process, f"https://127.0.0.1:{port}/healthz", client_context(self._files.authority, self._admin)
        )

    def start(
        self,
        name: str,
        argv: Sequence[str | os.PathLike[str]],
        env: Mapping[str, str] | None = None,
        hostname: str = "",
    ) -> Process:
        """Run any further process; it ends with the cluster at the latest. Its output goes to logs/<name>.log.

        With a `hostname` it sees that as the name of its host.
        """
        return self._supervised.start(name, argv, env, hostname=hostname)

    def start_scheduler(
        self,
        config: Path | dict[str, Any] | None = None,
        kubeconfig: Path | None = None,
        name: str = "kube-scheduler",
        hostname: str = "",
        flags: Sequence[str] = (),
    ) -> Scheduler:
        """Run a kube-scheduler with these flags, and those of the cluster, and wait until it is healthy.

        Without a config it is the stock one. In a config only `clientConnection.kubeconfig` is replaced: by the given
        file, or by the certificate of the user system:kube-scheduler.
        """
        identity = kubeconfig or self._files.kubeconfig("kube-scheduler")
        written = scheduler.write_configuration(config, identity, self.directory / f"{name}.yaml")

        def start(port: int) -> Scheduler:
            more = *flags, *self._flags.get("kube-scheduler", ())
            arguments = [*components.scheduler(self._files, port, written), *more]
            argv = [str(self.binary("kube-scheduler")), *arguments]
            return self._supervised.start(name, argv, kind=Scheduler, hostname=hostname)

        tls = client_context(self._files.authority, self._admin)
        started, port = start_on_free_port(start, "https://127.0.0.1:{port}/healthz", tls)
        started.port, started.tls = port, tls
        return started

    def start_server(self, name: str, argv: Callable[[int, KeyPair], Sequence[str]]) -> tuple[int, str]:
        """Run a server of webhooks that answers GET /healthz over TLS, with a certificate of this cluster.

        Returns its port, and the authority that its clients trust.
        """
        pair = self._files.serving
        _, port = start_on_free_port(
            lambda port: self._supervised.start(name, argv(port, pair)),
            "https://127.0.0.1:{port}/healthz",
            client_context(self._files.authority, self._admin),
        )
        return port, base64.b64encode(self._files.authority.read_bytes()).decode()

    def service_account_kubeconfig(self, namespace: str, name: str, server: str = "") -> Path:
        """A kubeconfig that is this ServiceAccount, which has to exist: its holder has the rights RBAC gives it.

        ``server``: the URL of a proxy before the API server, if there is one.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.api.create(path, {"spec": {"expirationSeconds": TOKEN_LIFETIME_S}})
        target = self._files.kubeconfig(f"{namespace}.{name}" + (f".{server.rpartition(':')[2]}" if server else ""))
        return kubeconfig.with_token(
            target, server or self.server, self._files.authority, answer["status"]["token"], namespace
        )

    def proxy(self) -> Proxy:
        """Make a proxy that can be put between a client and the API server; it runs from its `with` on."""
        return Proxy(self.server, str(self._files.authority))

    def audit(self) -> list[dict[str, Any]]:
        """Every request so far that is to be written down, as the API server's audit events tell of it."""
        complete, _, _ = self._files.audit_log.read_text().rpartition("\n")  # the last line may still be written
        return [json.loads(line) for line in complete.splitlines()]

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its output; ClusterError with its complaint if it fails."""
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.directory / "kubectl")}
        argv = [str(self.binary("kubectl")), *args]
        done = subprocess.run(argv, env=env, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(args)} failed ({done.returncode}):\n{done.stderr.strip()}")
        return done.stdout

    def add_namespace(self, name: str, labels: Mapping[str, str] | None = None, *, node_selector: str = "") -> None:
        """Create a namespace as the administrator of this profile does, and return when pods can be created in it.

        `labels` go over those of the profile. `node_selector`: for all pods in it, as in "pool=a", where
        `profile.selects_nodes`.
        """
        meta = {"name": name, "labels": {**self.profile.labels(), **(labels or {})}}
        meta |= {"annotations": self.profile.annotations(node_selector)}
        self.api.create("/api/v1/namespaces", {"metadata": meta})
        # Without this account the API server refuses pods; the controller makes it a moment after the namespace.
        self.api.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
        self.profile.furnish(self.api, name)

    def add_nodes(
        self,
        count: int,
        *,
        prefix: str = "",
        platform: str = "",
        gpus: int = 8,
        cpu: str = "96",
        memory: str = "1Ti",
        pods: int = 110,
        labels: nodes.Labels = None,
        timeout_s: float = 300.0,
    ) -> list[str]:
        """Add nodes PREFIX-0, PREFIX-1, ... and wait until they can be scheduled to; returns their names.

        With a `platform` their amounts and labels are those of that platform, whose name is the usual prefix.
        `labels` are the same for all, or a function of the node's number. Raises UnknownPlatformError.
        """
        prefix = prefix or platform or "node"
        own = [(labels(i) if callable(labels) else labels) or {} for i in range(count)]
        if platform:
            made = catalogue.nodes(platform, count, name=lambda i: f"{prefix}-{i}", now=nodes.now())
            new = platforms.for_kwok(made)
            for node, more in zip(new, own, strict=True):
                node["metadata"]["labels"] |= more
        else:
            resources = {"cpu": cpu, "memory": memory, "pods": str(pods)}
            if gpus:
                resources["nvidia.com/gpu"] = str(gpus)
            version = binaries.kubernetes_version()
            new = [nodes.node(f"{prefix}-{i}", resources, own[i], version) for i in range(count)]
            if taints := self.profile.taints(resources):
                for node in new:
                    node["spec"] = {"taints": taints}
        return self.create_nodes(new, timeout_s)

    def create_nodes(self, new: list[dict[str, Any]], timeout_s: float = 300.0) -> list[str]:
        """Create these Node objects and wait until they can be scheduled to; returns their names."""
        nodes.add(self.api, new, timeout_s)
        return [node["metadata"]["name"] for node in new]
