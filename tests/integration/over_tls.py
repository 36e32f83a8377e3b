"""Muster as it ships, except that kube-scheduler and Muster show each other certificates."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.certificates import Authority, KeyPair
from devcluster.muster import MANIFESTS, NAMESPACE

MUSTER = Path(sys.executable).with_name("muster")
PATIENCE_S = 60.0


def start_over_tls(cluster: Cluster, authority: Authority) -> None:
    """Muster with mutual TLS, and the kube-scheduler whose certificate it accepts."""
    server, client = authority.serving("muster"), authority.client("kube-scheduler", "kube-scheduler")
    port = cluster.free_port()
    settings = yaml.safe_load((MANIFESTS / "base" / "muster.yaml").read_text()) | {
        "listen_port": port,
        "tls_cert_file": str(server.certificate),
        "tls_key_file": str(server.key),
        "tls_client_ca_file": str(authority.certificate),
        # The probe shows the server's own certificate, which names the server.
        "tls_client_names": ["kube-scheduler", "muster"],
    }
    config = cluster.directory / "muster.yaml"
    config.write_text(yaml.safe_dump(settings))
    identity = start_token(cluster)
    cluster.start("muster", [MUSTER, "serve", f"--config={config}", f"--kubeconfig={identity}"])
    deadline = time.monotonic() + PATIENCE_S
    while subprocess.run([MUSTER, "check", f"--config={config}"], capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, "the probe never said that Muster is ready"

    scheduler = yaml.safe_load((MANIFESTS / "base" / "kube-scheduler-config.yaml").read_text())
    for entry in scheduler["extenders"]:
        entry["urlPrefix"] = f"https://127.0.0.1:{port}"
        entry["enableHTTPS"] = True
        entry["tlsConfig"] = tls_config(authority, client)
    cluster.start_scheduler(scheduler, cluster.service_account_kubeconfig(NAMESPACE, "muster-scheduler"))


def start_token(cluster: Cluster) -> Path:
    """The extender's identity, as the pod gets it: a file that kube-scheduler's account keeps fresh."""
    broker = shipped_broker(cluster)
    directory = cluster.directory / "token"
    directory.mkdir()
    command = [
        f"--directory={directory}" if argument.startswith("--directory=") else argument
        for argument in broker["command"][1:]
    ]
    own = cluster.service_account_kubeconfig(NAMESPACE, "muster-scheduler")
    cluster.start("extender-token", [MUSTER, *command, f"--kubeconfig={own}"])
    deadline = time.monotonic() + PATIENCE_S
    while not (directory / "token").exists():
        assert time.monotonic() < deadline, "no token was ever written"
    return with_token_file(cluster, directory / "token")


def shipped_broker(cluster: Cluster) -> Object:
    [template] = [manifest["spec"]["template"] for manifest in shipped(cluster) if manifest["kind"] == "Deployment"]
    [broker] = template["spec"]["initContainers"]
    assert broker["command"][0] == "muster"
    return dict(broker)


def with_token_file(cluster: Cluster, token: Path) -> Path:
    """A kubeconfig with the token in that file."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    [user] = config["users"]
    user["user"] = {"tokenFile": str(token)}
    path = token.with_suffix(".kubeconfig")
    path.write_text(yaml.safe_dump(config))
    return path


def tls_config(authority: Authority, client: KeyPair) -> dict[str, str]:
    files = {"caFile": authority.certificate, "certFile": client.certificate, "keyFile": client.key}
    return {key: str(path) for key, path in files.items()}


def shipped(cluster: Cluster) -> list[Object]:
    """The objects of manifests/base."""
    return list(yaml.safe_load_all(cluster.kubectl("kustomize", str(MANIFESTS / "base"))))
