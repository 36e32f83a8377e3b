"""The command line of every component, and why each flag that differs from the default does."""

from dataclasses import dataclass
from pathlib import Path

from devcluster import binaries
from devcluster.certificates import KeyPair

KWOK_CONFIG = Path(__file__).with_name("kwok.yaml")
AUDIT_POLICY = Path(__file__).with_name("audit-policy.yaml")

MUTATING_POLICIES = (1, 36)
"""The first minor version that serves MutatingAdmissionPolicies as v1, and does so by itself."""
MUTATING_POLICIES_BEFORE = "v1beta1"
"""The version of them that 1.34 and 1.35 serve if one turns it on, as devcluster does."""
# How long a node may be silent and still count as Ready: longer than the pause between the heartbeats in kwok.yaml.
NODE_GRACE_PERIOD = "1h"


@dataclass(frozen=True)
class Files:
    """The files that components share: their certificates, keys and kubeconfigs."""

    directory: Path
    authority: Path
    front_proxy_authority: Path
    serving: KeyPair
    etcd_client: KeyPair
    service_account_key: Path

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    def kubeconfig(self, name: str) -> Path:
        return self.directory / "kubeconfigs" / f"{name}.yaml"


def etcd(files: Files, port: int) -> list[str]:
    url = f"https://127.0.0.1:{port}"
    return [
        f"--data-dir={files.directory / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",  # a cluster of one member has no peers: any port will do
        f"--trusted-ca-file={files.authority}",
        f"--cert-file={files.serving.certificate}",
        f"--key-file={files.serving.key}",
        "--client-cert-auth",
        "--unsafe-no-fsync",  # the data is deleted with the cluster
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def apiserver(files: Files, port: int, etcd_port: int, *, audited: bool = False) -> list[str]:
    audit = [f"--audit-policy-file={AUDIT_POLICY}", f"--audit-log-path={files.audit_log}"]
    return [
        *(audit if audited else ()),
        f"--etcd-servers=https://127.0.0.1:{etcd_port}",
        f"--etcd-cafile={files.authority}",
        f"--etcd-certfile={files.etcd_client.certificate}",
        f"--etcd-keyfile={files.etcd_client.key}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # The endpoint of the Service `kubernetes` may not be on loopback, and no pod runs that could use it.
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
        f"--client-ca-file={files.authority}",
        # No extension server exists, but without an authority for their proxy components keep logging an error.
        f"--requestheader-client-ca-file={files.front_proxy_authority}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged",
        "--event-ttl=1h",
        # It taints every new node until the controller manager has seen it Ready; ours are Ready when they are created,
        # and thousands of writes that take the taint away again are a minute of waiting.
        "--disable-admission-plugins=TaintNodesByCondition",
        *(_mutating_policies() if binaries.minor() < MUTATING_POLICIES else ()),
    ]


def _mutating_policies() -> list[str]:
    return [
        "--feature-gates=MutatingAdmissionPolicy=true",
        f"--runtime-config=admissionregistration.k8s.io/{MUTATING_POLICIES_BEFORE}=true",
    ]


def controller_manager(files: Files, port: int) -> list[str]:
    kubeconfig = files.kubeconfig("kube-controller-manager")
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
        f"--root-ca-file={files.authority}",
        f"--service-account-private-key-file={files.service_account_key}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--controllers=*,-ttl-controller",  # writes to every node, for kubelets alone
        f"--node-monitor-grace-period={NODE_GRACE_PERIOD}",
        # The default of 20 requests a second would take minutes to untaint thousands of new nodes.
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
    ]


def kwok(files: Files, port: int) -> list[str]:
    return [
        f"--kubeconfig={files.kubeconfig('kwok')}",
        f"--config={KWOK_CONFIG}",
        f"--server-address=127.0.0.1:{port}",
    ]


def scheduler(files: Files, port: int, config: Path) -> list[str]:
    # Who may read /metrics is asked with the stock identity, so that it does not depend on the rights under test.
    delegated = files.kubeconfig("kube-scheduler")
    return [
        f"--config={config}",
        f"--authentication-kubeconfig={delegated}",
        f"--authorization-kubeconfig={delegated}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={files.serving.certificate}",
        f"--tls-private-key-file={files.serving.key}",
    ]
