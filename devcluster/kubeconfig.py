"""Kubeconfig files: the clients of this cluster, and their credentials."""

from pathlib import Path
from typing import Any

import yaml

from devcluster.certificates import KeyPair


def with_certificate(path: Path, server: str, authority: Path, pair: KeyPair) -> Path:
    """Write the kubeconfig of a component or of the administrator: a client certificate."""
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    return _write(path, server, authority, user)


def with_token(path: Path, server: str, authority: Path, token: str, namespace: str) -> Path:
    """Write the kubeconfig of a ServiceAccount: a bearer token."""
    return _write(path, server, authority, {"token": token}, namespace)


def _write(path: Path, server: str, authority: Path, user: dict[str, str], namespace: str = "default") -> Path:
    name = "devcluster"
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": path.stem, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": path.stem, "namespace": namespace}}],
        "current-context": name,
    }
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
    return path
