"""Brings the control plane up, component by component, in the order in which they need each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import components, kubeconfig
from devcluster.api import Api
from devcluster.certificates import Authority, KeyPair, service_account_key
from devcluster.components import Files
from devcluster.health import start_on_free_port
from devcluster.process import Supervised
from devcluster.progress import Progress
from devcluster.tls import client_context

# The users whose rights Kubernetes itself defines, and kwok, whose rights are below.
IDENTITIES = {
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kwok": "devcluster:kwok",
}
KWOK_RULES = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch", "patch", "update", "delete"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
]


@dataclass(frozen=True)
class ControlPlane:
    """A control plane that answers: where it is and how to be its administrator."""

    files: Files
    server: str
    api: Api
    admin: KeyPair


def boot(
    supervised: Supervised,
    binaries: dict[str, Path],
    progress: Progress,
    flags: Mapping[str, Sequence[str]],
    *,
    audited: bool,
) -> ControlPlane:
    directory = supervised.directory
    authority = Authority(directory / "pki")
    admin = authority.client("admin", "devcluster:admin", "system:masters")
    files = Files(
        directory=directory,
        authority=authority.certificate,
        front_proxy_authority=Authority(directory / "front-proxy-pki").certificate,
        serving=authority.serving("serving"),
        etcd_client=authority.client("etcd-client", "kube-apiserver"),
        service_account_key=service_account_key(directory / "pki"),
    )
    tls = client_context(authority.certificate, admin)

    def component(name: str, arguments: Any, health: str, env: dict[str, str] | None = None) -> int:
        progress(f"starting {name}")
        _, port = start_on_free_port(
            lambda port: supervised.start(name, [binaries[name], *arguments(port), *flags.get(name, ())], env),
            health,
            tls,
        )
        return port

    etcd_port = component("etcd", lambda port: components.etcd(files, port), "https://127.0.0.1:{port}/health")
    port = component(
        "kube-apiserver",
        lambda port: components.apiserver(files, port, etcd_port, audited=audited),
        "https://127.0.0.1:{port}/readyz",
    )
    server = f"https://127.0.0.1:{port}"
    api = Api(server, authority.certificate, admin)
    kubeconfig.with_certificate(files.kubeconfig("admin"), server, authority.certificate, admin)
    for name, user in IDENTITIES.items():
        kubeconfig.with_certificate(files.kubeconfig(name), server, authority.certificate, authority.client(name, user))
    _grant_kwok(api)
    component(
        "kube-controller-manager",
        lambda port: components.controller_manager(files, port),
        "https://127.0.0.1:{port}/healthz",
    )
    # By default kwok would also read the configuration in the home folder of the person whose machine this is.
    own_folder = {"KWOK_WORKDIR": str(directory)}
    component("kwok", lambda port: components.kwok(files, port), "http://127.0.0.1:{port}/healthz", own_folder)
    progress("waiting for the ServiceAccount that pods need")
    api.wait_for("/api/v1/namespaces/default/serviceaccounts/default", lambda account: account is not None)
    return ControlPlane(files, server, api, admin)


def _grant_kwok(api: Api) -> None:
    group, name = "rbac.authorization.k8s.io", "devcluster:kwok"
    api.create(f"/apis/{group}/v1/clusterroles", {"metadata": {"name": name}, "rules": KWOK_RULES})
    api.create(
        f"/apis/{group}/v1/clusterrolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": IDENTITIES["kwok"]}],
        },
    )
