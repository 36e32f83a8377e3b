"""The catalogue of controllers: the module, manifests, command line and webhooks of each.

The go.mod in the folder of each controller pins its version. Two controllers listen on all interfaces and have no
option for it: mpi-operator for its health (port 8080), and training-operator for its webhooks.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.errors import ClusterError

FOLDER = Path(__file__).parent
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Place:
    """The folder and the ports of one running controller."""

    directory: Path
    kubeconfig: Path
    webhook_port: int
    free_port: int

    @property
    def certificates(self) -> Path:
        """The folder below TMPDIR in which controller-runtime looks for certificates by default."""
        return self.directory / "k8s-webhook-server" / "serving-certs"

    @property
    def config(self) -> Path:
        return self.directory / "config.yaml"


@dataclass(frozen=True)
class Webhooks:
    """The admission webhooks of a controller, as its manifests have them before kustomize gives them their names.

    ``pods``: the label of the pods that its webhooks for pods select.
    ``secret``: the Secret in which the controller keeps the certificate that it makes itself. The controller waits
      until the Secret is mounted.
    ``mounted``: where the Secret is mounted, if the controller has no option for the directory of its certificates.
    ``converts``: the CRDs that are converted through the same service.
    """

    manifests: str
    service: str
    validating: str
    mutating: str = ""
    pods: str = ""
    secret: str = ""
    mounted: Path | None = None
    converts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Controller:
    """A project. Patterns of files are relative to the source of its module.

    ``health``: the path of the health check, or its port and path.
    ``needs``: other controllers that have to run.
    """

    name: str
    module: str
    package: str
    namespace: str
    crds: str
    arguments: Callable[[Place], list[str]]
    config: Callable[[Place], dict[str, Any]] | None = None
    webhooks: Webhooks | None = None
    needs: tuple[str, ...] = ()
    health: str = "/readyz"
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def version(self) -> str:
        """The version that the go.mod of the controller pins."""
        pinned = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", (self.folder / "go.mod").read_text(), re.MULTILINE)
        if pinned is None:
            raise ClusterError(f"{self.folder / 'go.mod'} does not name {self.module}")
        return pinned[1]

    def health_url(self, place: Place) -> str:
        """The URL that answers 200 when the controller is ready."""
        return f"http://{LOOPBACK}" + (self.health if self.health[0] == ":" else f":{place.free_port}{self.health}")


def _by_file(place: Place) -> list[str]:
    return [f"--config={place.config}"]


def _configured(
    api_version: str, management: str = "internalCertManagement", *, names_certificates: bool = True
) -> Callable[[Place], dict[str, Any]]:
    """The configuration file, for controllers that have one: no leader election, and everything on loopback.

    ``management``: the field that lets the controller make its certificates itself.
    ``names_certificates``: whether the file has a field for the directory of the certificates.
    """

    def config(place: Place) -> dict[str, Any]:
        return {
            "apiVersion": api_version,
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "health": {"healthProbeBindAddress": f"{LOOPBACK}:{place.free_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": place.webhook_port, "host": LOOPBACK}
            | ({"certDir": str(place.certificates)} if names_certificates else {}),
            management: {"enable": False},
        }

    return config


_of_jobset = _configured("config.jobset.x-k8s.io/v1alpha1")


def _of_kueue(place: Place) -> dict[str, Any]:
    """Kueue elects a leader, because its Lease shows other programs that it runs. It manages only jobs of batch/v1."""
    election = {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io", "resourceNamespace": "kueue-system"}
    configured = _configured("config.kueue.x-k8s.io/v1beta2")(place)
    # With certificates that it does not make itself it looks for those of its metrics in /etc.
    made = {"internalCertManagement": {"enable": True}}
    return configured | made | {"leaderElection": election, "integrations": {"frameworks": ["batch/job"]}}


def _trainer(name: str) -> Controller:
    return Controller(
        name,
        "github.com/kubeflow/trainer/v2",
        "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
        "kubeflow-system",
        "manifests/base/crds/*.yaml",
        _by_file,
        _configured("config.trainer.kubeflow.org/v1alpha1", "certManagement", names_certificates=False),
        Webhooks(
            "manifests/base/webhook/manifests.yaml",
            "kubeflow-trainer-controller-manager",
            "validator.trainer.kubeflow.org",
            "defaulter.trainer.kubeflow.org",
        ),
        needs=("jobset",),
    )


CATALOGUE = {
    controller.name: controller
    for controller in (
        Controller(
            "jobset",
            "sigs.k8s.io/jobset",
            "sigs.k8s.io/jobset",
            "jobset-system",
            "config/components/crd/bases/*.yaml",
            _by_file,
            # The gate is alpha, and allows one Job of a JobSet to be restarted.
            lambda place: _of_jobset(place) | {"featureGates": {"RestartJob": True}},
            Webhooks(
                "config/components/webhook/manifests.yaml",
                "jobset-webhook-service",
                "jobset-validating-webhook-configuration",
                "jobset-mutating-webhook-configuration",
                "jobset.sigs.k8s.io/jobset-name",
            ),
        ),
        Controller(
            "lws",
            "sigs.k8s.io/lws",
            "sigs.k8s.io/lws/cmd",
            "lws-system",
            "config/crd/bases/*.yaml",
            _by_file,
            _configured("config.lws.x-k8s.io/v1alpha1"),
            Webhooks(
                "config/webhook/manifests.yaml",
                "lws-webhook-service",
                "lws-validating-webhook-configuration",
                "lws-mutating-webhook-configuration",
                "leaderworkerset.sigs.k8s.io/name",
            ),
        ),
        Controller(
            "training-operator",
            "github.com/kubeflow/training-operator",
            "github.com/kubeflow/training-operator/cmd/training-operator.v1",
            "kubeflow",
            # All but MPIJob, whose version v1 has the name of mpi-operator's kind.
            "manifests/base/crds/kubeflow.org_[!m]*.yaml",
            lambda place: [
                "--metrics-bind-address=0",
                f"--health-probe-bind-address={LOOPBACK}:{place.free_port}",
                f"--webhook-server-port={place.webhook_port}",
                *(f"--enable-scheme={kind}" for kind in ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")),
            ],
            webhooks=Webhooks(
                "manifests/base/webhook/manifests.yaml",
                "training-operator",
                "validator.training-operator.kubeflow.org",
                secret="training-operator-webhook-cert",  # noqa: S106 - the name of a Secret
                mounted=Path("/tmp/k8s-webhook-server/serving-certs/tls.crt"),  # noqa: S108 - it has no other
            ),
        ),
        Controller(
            "mpi-operator",
            "github.com/kubeflow/mpi-operator",
            "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
            "mpi-operator",
            "manifests/base/*_mpijobs.yaml",
            # Its own default is 5 requests a second, for all that it does.
            lambda _: ["--kube-api-qps=50", "--kube-api-burst=100"],
            health=":8080/healthz",
        ),
        Controller(
            "kuberay",
            "github.com/ray-project/kuberay/ray-operator",
            "github.com/ray-project/kuberay/ray-operator",
            "ray-system",
            "config/crd/bases/*.yaml",
            lambda place: [
                "--metrics-addr=0",
                f"--health-probe-bind-address={LOOPBACK}:{place.free_port}",
                "--enable-leader-election=false",
            ],
            # A RayCluster that is suspended before it has seen its new pods makes no pods in the first half minute
            # after its next start (ExpectationsTimeout). It looks again only after this period, which is 5 minutes by
            # default.
            environment={"RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "10"},
        ),
        _trainer("trainer"),
        _trainer("trainer-2.1"),
        Controller(
            "appwrapper",
            "github.com/project-codeflare/appwrapper",
            # Its own command has no option for the place of its webhooks.
            "muster.dev/devcluster/controllers/appwrapper",
            "appwrapper-system",
            "config/crd/bases/*.yaml",
            lambda place: [
                f"--host={LOOPBACK}",
                f"--webhook-port={place.webhook_port}",
                f"--cert-dir={place.certificates}",
                f"--health-probe-bind-address={LOOPBACK}:{place.free_port}",
            ],
            webhooks=Webhooks(
                "config/webhook/manifests.yaml",
                "appwrapper-webhook-service",
                "appwrapper-validating-webhook-configuration",
                "appwrapper-mutating-webhook-configuration",
            ),
        ),
        Controller(
            "kueue",
            "sigs.k8s.io/kueue",
            "sigs.k8s.io/kueue/cmd/kueue",
            "kueue-system",
            "config/components/crd/bases/*.yaml",
            # Its visibility server listens on all interfaces, and has no option for it.
            lambda place: [*_by_file(place), "--feature-gates=VisibilityOnDemand=false"],
            _of_kueue,
            Webhooks(
                "config/components/webhook/manifests.yaml",
                "kueue-webhook-service",
                "kueue-validating-webhook-configuration",
                "kueue-mutating-webhook-configuration",
                "kueue.x-k8s.io/managed",
                secret="kueue-webhook-server-cert",  # noqa: S106 - the name of a Secret
                converts=tuple(
                    f"{plural}.kueue.x-k8s.io"
                    for plural in ("clusterqueues", "cohorts", "localqueues", "workloads", "multikueueclusters")
                ),
            ),
        ),
    )
}
