"""Muster on a cluster as it ships: the manifests' rights, identities and settings, with only addresses replaced."""

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import httpx
import yaml

from devcluster.admission import PATIENCE_S, until_created_so
from devcluster.api import ApiError
from devcluster.binaries import minor
from devcluster.cluster import Cluster
from devcluster.components import MUTATING_POLICIES, MUTATING_POLICIES_BEFORE
from devcluster.crds import until_established
from devcluster.documents import read_all, write_all
from devcluster.errors import ClusterError
from devcluster.health import wait_until_healthy
from devcluster.process import Process
from devcluster.releases import Release
from devcluster.scheduler import Scheduler
from extender.config.reading import UnreadableYamlError, read_mapping
from extender.config.settings import Settings, SettingsError, load
from extender.core.gate.advisory import Mode
from extender.core.limits import Preempts

CURRENT = Release(Path(__file__).parent.parent, Path(sys.executable).with_name("muster"))
MANIFESTS = CURRENT.manifests
NAMESPACE = "kube-system"
POLL_EVERY_S = 0.05  # nothing reports that a policy is in force

Tree = dict[str, Any]

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_TRIAL = "muster-trial"
APPLY = "application/apply-patch+yaml"
_CONTAINERS = [
    {
        "name": "main",
        "image": "none",
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
]
_PROBED = {
    "containers": _CONTAINERS,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
"""Neither a quota nor PodSecurity refuses such pods."""
_LAST_POLICY = "muster-extender-events"
_FORGED: Tree = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "muster-probe", "namespace": NAMESPACE},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "muster.dev/somebody-else",
    "reportingInstance": "probe",
    "action": "Probing",
    "type": "Normal",
    "reason": "Probing",
    "regarding": {"kind": "Namespace", "name": NAMESPACE, "namespace": NAMESPACE},
}
"""An Event that the admission policy refuses the extender. That policy is the one that is written last."""


class RunningMuster:
    """The extender and the kube-scheduler that calls it, each under its own ServiceAccount.

    Either may be killed through its `Process` at any time and started again with the methods here.
    """

    extender: Process
    scheduler: Scheduler
    url: str  # of the extender

    def __init__(
        self,
        cluster: Cluster,
        settings: Tree,
        scheduler_config: Tree,
        scheduler_flags: Sequence[str],
        other_extenders: Sequence[Tree] = (),
        *,
        hostname: str = "",
        server: str = "",
        namespace: str = NAMESPACE,
        port: int = 0,
        program: Path = CURRENT.program,
    ) -> None:
        """``namespace``: where the two ServiceAccounts are. ``port``: the extender's; 0: a free one."""
        self._cluster = cluster
        self._hostname = hostname
        self._suffix = f"-{hostname}" if hostname else ""
        self._port = port or cluster.free_port()
        # The extender looks at the Lease if kube-scheduler elects a leader.
        elected = bool(scheduler_config["leaderElection"]["leaderElect"])
        election = {**settings.get("leader_election", {}), "enabled": elected}
        self._values = settings | {"leader_election": election}
        if "failures_file" in settings:
            self._values["failures_file"] = str(cluster.directory / f"failures{self._suffix}.json")
        self._settings = cluster.directory / f"muster{self._suffix}.yaml"
        self._settings.write_text(yaml.safe_dump(self._values))
        self._scheduler_config = _ask_at(f"http://127.0.0.1:{self._port}", scheduler_config, settings)
        self._scheduler_config["extenders"] += other_extenders
        self._scheduler_flags = scheduler_flags
        self._extender_identity = cluster.service_account_kubeconfig(namespace, "muster-extender", server)
        self._scheduler_identity = cluster.service_account_kubeconfig(namespace, "muster-scheduler")
        self.url = f"http://127.0.0.1:{self._port}"
        self.program: Sequence[str | Path] = (program,)
        """The program of the extender. A test may put another one in its place before a restart."""
        self._start_extender()
        self._start_scheduler()

    def restart_extender(self, settings: Tree | None = None) -> None:
        """Start the extender again on its port, after killing it (-9) if it still runs; returns when it is ready.

        `settings` go over those it was first started with, for this time.
        """
        if self.extender.running:
            self.extender.kill()
        self._settings.write_text(yaml.safe_dump({**self._values, **(settings or {})}))
        self._start_extender()

    def restart_scheduler(self) -> None:
        """Start kube-scheduler again, after killing it (-9) if it still runs.

        As in production it then waits for the Lease of the one before it, up to 15 s, before it schedules.
        """
        if self.scheduler.running:
            self.scheduler.kill()
        self._start_scheduler()

    def stop(self) -> None:
        """End both, kube-scheduler first so that it meets no closed port."""
        self.scheduler.terminate()
        self.extender.terminate()

    def _start_extender(self) -> None:
        self.extender = self._cluster.start(
            f"muster{self._suffix}",
            [
                *(*self.program, "serve", f"--config={self._settings}"),
                *(f"--kubeconfig={self._extender_identity}", f"--port={self._port}"),
            ],
            hostname=self._hostname,
        )
        wait_until_healthy(self.extender, f"{self.url}/readyz")

    def _start_scheduler(self) -> None:
        self.scheduler = self._cluster.start_scheduler(
            self._scheduler_config,
            kubeconfig=self._scheduler_identity,
            name=f"kube-scheduler-muster{self._suffix}",
            hostname=self._hostname,
            flags=self._scheduler_flags,
        )


def base(release: Release = CURRENT) -> Path:
    """Return the kustomization of Muster for the version of Kubernetes that is run."""
    return release.manifests / ("base" if minor() >= (1, 35) else "examples/kubernetes-1.34")


def scheduler_flags(pod: Tree) -> list[str]:
    """Return the flags of kube-scheduler in the spec of Muster's pods, but for its configuration."""
    command = next(container["command"] for container in pod["containers"] if container["name"] == "kube-scheduler")
    return [flag for flag in command[1:] if not flag.startswith("--config=")]


def start_muster(
    cluster: Cluster,
    settings: Tree | None = None,
    scheduler_config_patch: Tree | None = None,
    other_extenders: Sequence[Tree] = (),
    *,
    hostname: str = "",
    server: str = "",
    manifests: Path | None = None,
) -> RunningMuster:
    """Install the manifests, start the extender and its kube-scheduler, and return when the extender is ready.

    `settings` go over those of manifests/base/muster.yaml, and `scheduler_config_patch` is merged into
    manifests/base/kube-scheduler-config.yaml. The bind entry's httpTimeout follows the setting `bind_timeout_s`.
    kube-scheduler asks `other_extenders` (entries of its configuration) after Muster. Each of several replicas needs a
    `hostname` of its own. `server`: what stands between the extender and the API server, if something does.
    `manifests`: a kustomization over `base()`, of which everything but the settings is installed.
    """
    shipped = install(cluster, manifests)
    return start_release(
        cluster, CURRENT, shipped, settings, scheduler_config_patch, other_extenders, hostname=hostname, server=server
    )


def start_release(
    cluster: Cluster,
    release: Release,
    shipped: Iterable[Tree],
    settings: Tree | None,
    scheduler_config_patch: Tree | None,
    other_extenders: Sequence[Tree],
    *,
    hostname: str,
    server: str,
) -> RunningMuster:
    """Start a replica of that release, of whose kustomization these are the objects, on whatever is installed.

    The other parameters are those of `start_muster`.
    """
    shipped_config = yaml.safe_load((release.manifests / "base" / "kube-scheduler-config.yaml").read_text())
    config = merged(shipped_config, scheduler_config_patch or {})
    chosen = {**shipped_settings(release), **(settings or {})}
    deployment = next(
        manifest for manifest in shipped if (manifest["kind"], manifest["metadata"]["name"]) == ("Deployment", "muster")
    )
    flags = scheduler_flags(deployment["spec"]["template"]["spec"])
    return RunningMuster(
        cluster, chosen, config, flags, other_extenders, hostname=hostname, server=server, program=release.program
    )


def read_settings(config: Path | None) -> Settings:
    """Return the shipped settings with those of the file over them. Raises SettingsError, as `muster serve` says it."""
    try:
        values = read_mapping(config) if config is not None else {}
    except UnreadableYamlError as error:
        raise SettingsError(str(error)) from None
    with NamedTemporaryFile("w", suffix=".yaml") as merged_file:
        yaml.safe_dump({**shipped_settings(), **values}, merged_file)
        merged_file.flush()
        return load(Path(merged_file.name))


def shipped_settings(release: Release = CURRENT) -> Tree:
    """Return the content of manifests/base/muster.yaml."""
    shipped: Tree = yaml.safe_load((release.manifests / "base" / "muster.yaml").read_text())
    return shipped


def start_muster_with(cluster: Cluster, settings: Settings, more: Iterable[str]) -> RunningMuster:
    """Start Muster as a user with these settings installs it.

    It gets the components that the settings need, and a profile of kube-scheduler for each name that it serves. A
    Muster that only advises gates no pod and suspends no job. ``more``: further components to install.
    """
    components = (
        [*more]
        + (["preemption"] if settings.preemption is not Preempts.OFF else [])
        + (["elastic"] if settings.elastic.flavors else [])
    )
    first, *others = settings.scheduler_names
    profiles = [{"schedulerName": name} for name in settings.scheduler_names]
    running = start_muster(
        cluster,
        settings.model_dump(mode="json", exclude_unset=True),
        {"profiles": profiles},
        manifests=with_components(cluster.directory / "manifests", *components),
    )
    if settings.mode is Mode.ENFORCE:
        install_gate(cluster, *(name for name in (first, *others) if name != "muster"))
        install_job_admission(cluster)
        install_pod_trials(cluster)
    return running


def with_components(folder: Path, *components: str, release: Release = CURRENT) -> Path:
    """Write a kustomization of the base with these components into the folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = (base(release), *(release.manifests / "components" / name for name in components))
    own, *added = (os.path.relpath(path, folder) for path in parts)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [own], "components": added}))
    return folder


def install(cluster: Cluster, manifests: Path | None = None, release: Release = CURRENT) -> list[Tree]:
    """Apply the CRD and everything of the kustomization except the Deployment: its two containers are processes here.

    Returns the kustomization's objects when the policies on the extender's writes are in force.
    """
    install_crds_of(cluster, "podgroup-crd", release)
    shipped = list(read_all(cluster.kubectl("kustomize", str(manifests or base(release)))))
    wanted = [doc for doc in shipped if doc["kind"] != "Deployment"]
    # The API server takes policies up in the order in which they were written: when the last one is in force, all are.
    last = [doc for doc in wanted if doc["metadata"]["name"] == _LAST_POLICY]
    for docs in ([doc for doc in wanted if doc not in last], last):
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=write_all(docs))
    _wait_for_policies(cluster)
    return shipped


def install_crds_of(cluster: Cluster, component: str, release: Release = CURRENT) -> None:
    """Apply the CRDs of a component, and return when they are served."""
    crds = cluster.kubectl("kustomize", str(release.manifests / "components" / component))
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=crds)
    for crd in read_all(crds):
        until_established(cluster.api, crd["metadata"]["name"])


def _wait_for_policies(cluster: Cluster) -> None:
    """Wait for the policies, which the API server does not report: try what the last one refuses, writing nothing."""
    extender = f"system:serviceaccount:{NAMESPACE}:muster-extender"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            cluster.api.create(f"{_EVENTS}?dryRun=All", _FORGED, user=extender)
        except ApiError as refusal:
            if _LAST_POLICY in str(refusal):
                return
            raise
        time.sleep(POLL_EVERY_S)
    raise ClusterError(f"the policies on the extender were not in force after {PATIENCE_S:.0f} s")


def install_gate(cluster: Cluster, *others: str, release: Release = CURRENT) -> None:
    """Apply the admission policy that gates members of gangs, and return when it is in force. ``others``: the names of
    schedulers that are served besides."""
    _apply_component(cluster, "admission-gate", release)
    until_gated(cluster)
    if others:
        gate = f"/apis/admissionregistration.k8s.io/{mutating_version()}/mutatingadmissionpolicies/muster-gang-gate"
        conditions = cluster.api.get(gate)["spec"]["matchConditions"]
        for condition in conditions:
            condition["expression"] = condition["expression"].replace("['muster']", str(["muster", *others]))
        cluster.api.patch(gate, {"spec": {"matchConditions": conditions}})
    for name in others:
        until_gated(cluster, name)


def until_gated(cluster: Cluster, scheduler: str = "muster") -> None:
    """Return when the admission policy that gates members of gangs is in force for pods of that scheduler."""
    until_created_so(cluster.api, _PODS, _pod({"muster.dev/pod-group": "probe"}, scheduler), _is_gated)


def install_job_admission(cluster: Cluster, release: Release = CURRENT) -> None:
    """Apply the admission policies for jobs, owners of gangs and pods, and return when they are in force."""
    _apply_component(cluster, "job-admission", release)
    until_jobs_are_admitted(cluster)


def until_jobs_are_admitted(cluster: Cluster) -> None:
    """Return when the admission policies for jobs, owners of gangs and pods are in force."""
    meta = {"name": "muster-probe", "labels": {"muster.dev/gang": "true"}}
    template = {"spec": {"restartPolicy": "Never", **_PROBED}}
    job = {"metadata": meta, "spec": {"template": template}}
    until_created_so(
        cluster.api, f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job, lambda made: bool(made["spec"]["suspend"])
    )
    labels = {"app": "muster-probe"}
    pods: Tree = {"metadata": {"labels": labels}, "spec": _PROBED}
    owner: Tree = {"metadata": meta, "spec": {"selector": {"matchLabels": labels}, "template": pods}}
    until_created_so(
        cluster.api,
        f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets",
        owner,
        lambda made: "muster.dev/gang" in made["spec"]["template"]["metadata"]["labels"],
    )
    until_created_so(cluster.api, _PODS, _pod({"muster.dev/workload": "probe"}), _is_gated)


def install_pod_trials(cluster: Cluster) -> None:
    """Apply the account as which pods are tried, and its policy, and return when the policy is in force."""
    _apply_component(cluster, "pod-trials", CURRENT)
    account, deadline = f"system:serviceaccount:{NAMESPACE}:muster-trials", time.monotonic() + PATIENCE_S
    path, pod = f"{_PODS}/{_TRIAL}", {"apiVersion": "v1", "kind": "Pod", **_pod({}), "metadata": {"name": _TRIAL}}
    while time.monotonic() < deadline:
        try:
            cluster.api.patch(f"{path}?fieldManager=muster", pod, APPLY, user=account)
            cluster.api.delete(path)
        except ApiError as refusal:
            if "for dry runs only" in str(refusal):
                return
            if refusal.code not in (httpx.codes.FORBIDDEN, httpx.codes.CONFLICT):
                raise
        time.sleep(POLL_EVERY_S)
    raise ClusterError(f"the policy on the account that tries pods was not in force after {PATIENCE_S:.0f} s")


def keep_managed_fields(cluster: Cluster) -> None:
    """Take the policy away that drops them from pods of started jobs, and return when it is gone."""
    cluster.kubectl("delete", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "muster-untracked-pods")
    led = _pod({})
    led["metadata"]["labels"] = {"muster.dev/led": "true"}
    until_created_so(cluster.api, _PODS, led, lambda pod: "managedFields" in pod["metadata"])


def _apply_component(cluster: Cluster, name: str, release: Release) -> None:
    """Apply it in the version in which the API server serves mutating policies."""
    manifests = list(read_all(cluster.kubectl("kustomize", str(release.manifests / "components" / name))))
    for manifest in manifests:
        if manifest["kind"].startswith("MutatingAdmissionPolicy"):
            manifest["apiVersion"] = f"admissionregistration.k8s.io/{mutating_version()}"
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=write_all(manifests))


def mutating_version() -> str:
    """Return the version in which the API server serves mutating policies."""
    return MUTATING_POLICIES_BEFORE if minor() < MUTATING_POLICIES else "v1"


def _pod(annotations: Tree, scheduler: str = "muster") -> Tree:
    meta = {"name": "muster-probe", "annotations": annotations}
    return {"metadata": meta, "spec": {"schedulerName": scheduler, **_PROBED}}


def _is_gated(pod: Tree) -> bool:
    return "schedulingGates" in pod["spec"]


def merged(tree: Tree, patch: Mapping[str, Any]) -> Tree:
    """A copy of the tree with the patch's leaves in it; lists are replaced as a whole."""
    result = dict(tree)
    for key, value in patch.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return result


def _ask_at(url: str, config: Tree, settings: Tree) -> Tree:
    """The configuration with the extender's address of this cluster, and the hold as long as its settings say."""
    entries = [{**entry, "urlPrefix": url} for entry in config["extenders"]]
    for entry in entries:
        if entry.get("bindVerb"):
            entry["httpTimeout"] = f"{settings['bind_timeout_s']}s"
    return {**config, "extenders": entries}
