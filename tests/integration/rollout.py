"""Replicas of two releases beside each other, and workloads in every state that one takes over from the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from devcluster import Cluster
from devcluster.api import Object
from devcluster.documents import read_all
from devcluster.muster import (
    base,
    install,
    install_crds_of,
    install_gate,
    install_job_admission,
    start_release,
    with_components,
)
from devcluster.releases import Release
from policies.model import Pod
from tests.integration.preemption import ending_late, let_end
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.integration.tollgate import TollGate
from tests.scenarios.pods import bound, member, pod

SETTINGS = {"preemption": "on", "preemption_timeout_s": 120, "writes_at_once": 16, "bind_timeout_s": 60}
SCHEDULER = {
    "leaderElection": {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"},
    "podMaxBackoffSeconds": 3,
}
"""Shorter than as shipped, so that no deadline is waited for long. Releases up to fc9b1e5 have no more than twice
``writes_at_once`` + 8 connections, also for their watches: 4 are too few beside the CRDs of queues."""
PATIENCE_S = 60.0
RELEASED, AT = 8, 4
"""The size of the gang that is caught in its release, and the Binding at which it is."""
VICTIMS = ("victim-", "evicted-")
BARRED = ("held-3", "caught-1")
WAITING = {"short": "MembersMissing", "large": "NoRoom", "job-wide": "NoRoom", "job-poor": "NoQuota", "job-off": "Held"}
"""The waiting workloads, and their reasons; a job by the name of its gang."""
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: {name}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: {name}
          resources: [{{name: nvidia.com/gpu, nominalQuota: {gpus}}}, {{name: cpu, nominalQuota: 100}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team, namespace: default}}
spec: {{clusterQueue: {name}}}
"""


@dataclass(frozen=True)
class Running:
    """The facts that distinguish a pod that has run on from one that was started again."""

    uid: str
    node: str
    started: str
    restarts: int


class Replica:
    """A pod of Muster's Deployment: a kube-scheduler and an extender of one release, under a host name of its own."""

    def __init__(self, cluster: Cluster, release: Release, host: str, tollgate: TollGate, stack: ExitStack) -> None:
        self.host = host
        self.proxy = stack.enter_context(cluster.proxy())
        entry = {**tollgate.entry, "ignorable": False}
        shipped = read_all(cluster.kubectl("kustomize", str(base(release))))
        self.muster = start_release(
            cluster, release, shipped, SETTINGS, SCHEDULER, [entry], hostname=host, server=self.proxy.url
        )

    @property
    def leads(self) -> bool:
        return "muster_leader 1.0" in httpx.get(f"{self.muster.url}/metrics", trust_env=False).text

    def end(self, number: int) -> None:
        """End both containers: as the kubelet does (SIGTERM), or as a lost node does (SIGKILL)."""
        for process in (self.muster.scheduler, self.muster.extender):
            process.signal(number)


class Rollout:
    """Made with ``with``: a namespace whose workloads outlive one replica after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.tollgate = TollGate()
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> Self:
        self._stack.enter_context(self.tollgate)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, release: Release) -> Replica:
        """Start one more replica, which stands by while another leads."""
        self._count += 1
        return Replica(self.cluster, release, f"muster-{self._count}", self.tollgate, self._stack)

    def states(self, replica: Replica) -> States:
        """Return a namespace for workloads, which asks that replica. It ends with the cluster."""
        return States(RealStage(self.cluster, replica.muster).__enter__())

    def wait_leads(self, replica: Replica, *states: States) -> None:
        """Wait until this replica leads, which is asked from now on."""
        for state in states:
            state.stage.ask(replica.muster)
        states[0].stage.wait(lambda: replica.leads, bool)

    def upgrade_kubernetes(self, version: str, replica: Replica, *states: States) -> None:
        """Upgrade the control plane, then the kube-scheduler of the replica that leads; wait until it leads again.

        While the API server is away a kube-scheduler ends, because it cannot renew its Lease.
        """
        self.cluster.upgrade(version)
        replica.muster.restart_scheduler()
        self.wait_leads(replica, *states)
        for state in states:
            state.check()

    def install_base(self, release: Release) -> None:
        """Apply its CRDs, accounts, rights, and the policies on what Muster may write."""
        install_crds_of(self.cluster, "queues", release)
        folder = self.cluster.directory / f"overlay-{release.root.parent.name}"
        install(self.cluster, with_components(folder, "preemption", release=release), release)

    def install_admission(self, release: Release) -> None:
        """Apply its policies on pods, jobs and owners of gangs."""
        install_gate(self.cluster, release=release)
        install_job_admission(self.cluster, release)


class States:
    """Workloads in every state, in a namespace of their own, each with nodes of its own."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        self.jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        self._queues = Queues(stage)
        self._waiting = WAITING
        self._running: dict[str, Running] = {}
        self._started: dict[str, tuple[str, str]] = {}

    # The state before the other release takes over.

    def set_up(self) -> None:
        """Set up all states. Returns when everything is settled, except what waits at bind and what is released."""
        stage = self.stage
        self._queues.apply(QUEUE.format(name=stage.namespace, gpus=24))
        self._add_nodes(runs=4, works=2, queued=1, web=3, held=4, caught=2, releases=RELEASED, evicts=2, urgent=2)
        self._create("runs", 4)
        self._create("queued", 1, labels={"kueue.x-k8s.io/queue-name": "team"})
        self._create_job("works", 2, queue="team")
        self._create_set("web", 2)
        self._create("victim", 2, case="evicts", priorityClassName="dev", late=True)
        self._create_job("evicted", 2, case="urgent", priorityClassName="dev", late=True)
        self.until_bound("runs", 4)
        self.until_bound("queued", 1)
        self.until_bound("victim", 2)
        self.until_on("works", 2)
        self.until_on("web", 2)
        self.until_on("evicted", 2)
        self._create("short", 3, min_member=4)
        self._create("large", 2)
        self._create_job("wide", 2)
        self._create_job("poor", 2, queue="team")
        self._create_job("off", 2, annotations={"muster.dev/hold": "true"})
        self._create("evicts", 2, priorityClassName="inference")
        self._create_job("urgent", 2, priorityClassName="inference")
        stage.until(lambda pods: all(victim.deleting for victim in pods if victim.name.startswith(VICTIMS)))
        self.check_waiting()
        self._remember()

    def set_up_held(self) -> None:
        """Return when all members but one of a gang, and one of a started job, are held at bind."""
        self._create("held", 4)
        self._create_job("caught", 2)
        self.check_held()

    # How each has to stand after it.

    def check(self) -> None:
        """Check that nothing was restarted, and that waiting workloads wait for the same reason."""
        running, started = self.running(), self.started()
        assert {name: running.get(name) for name in self._running} == self._running
        assert {name: started.get(name) for name in self._started} == self._started
        self.check_waiting()

    def check_waiting(self) -> None:
        for name, code in self._waiting.items():
            self.stage.until_told(name, lambda seen, code=code: seen.state == code)  # type: ignore[misc]

    def check_held(self) -> None:
        """All members but one are held, and none is bound."""
        for name, size in (("held", 4), ("job-caught", 2)):
            seen = self.stage.until_told(name, lambda seen, size=size: seen.held == size - 1)  # type: ignore[misc]
            assert seen.bound == 0

    def check_evicting(self) -> None:
        """Check that the preemptors wait for their victims, and that no other pod is evicted."""
        pods = self.stage.pods()
        assert all(victim.deleting for victim in pods if victim.name.startswith(VICTIMS))
        assert not [
            preemptor.name for preemptor in pods if preemptor.node and preemptor.name.startswith(("evicts", "urgent"))
        ]

    def check_released(self) -> None:
        """The gang whose release broke off is whole, in one release."""
        pods = self.until_bound("releases", RELEASED)
        assert len({stamped.stamp.release for stamped in pods if stamped.stamp}) == 1

    def let_start(self) -> None:
        """Give every waiting workload what it lacks, and see it start."""
        stage = self.stage
        let_end(stage, *(victim.name for victim in stage.pods() if victim.name.startswith(VICTIMS)))
        self._add_nodes(short=4, large=2, wide=2, off=2)
        self._create("short", 1, min_member=4, first=3)
        stage.api.patch(f"{self.jobs}/off", {"metadata": {"annotations": {"muster.dev/hold": None}}})
        for name, size in {"held": 4, "short": 4, "large": 2, "evicts": 2}.items():
            self.until_bound(name, size)
        for name in ("caught", "wide", "off", "urgent"):
            self.until_on(name, 2)
        assert stage.api.get(f"{self.jobs}/evicted")["spec"]["suspend"]
        # A pod that its controller makes again takes the room of the one that has gone.
        stage.delete("web-1")
        self.until_on("web", 2)
        self._waiting = {"job-poor": "NoQuota", "job-evicted": "NoRoom"}
        self.check_waiting()
        self._remember()

    # Views.

    def _remember(self) -> None:
        self.stage.until(
            lambda pods: all(live_pod.phase == "Running" for live_pod in pods if live_pod.node and live_pod.live)
        )
        self._running, self._started = self.running(), self.started()

    def running(self) -> dict[str, Running]:
        """Every pod that runs, by its name."""
        pods = [obj for obj in self.stage.api.list(self.stage.pods_path) if "deletionTimestamp" not in obj["metadata"]]
        return {obj["metadata"]["name"]: _running(obj) for obj in pods if obj["status"].get("phase") == "Running"}

    def started(self) -> dict[str, tuple[str, str]]:
        """The start of every job that runs, by its name."""
        jobs = [job for job in self.stage.api.list(self.jobs) if not job["spec"].get("suspend")]
        began = {job["metadata"]["name"]: (job["metadata"]["uid"], job["status"].get("startTime", "")) for job in jobs}
        return {name: start for name, start in began.items() if start[1]}

    def until_bound(self, gang: str, size: int) -> list[Pod]:
        return bound(self.stage.until(lambda pods: len(bound(pods, gang)) == size), gang)

    def until_on(self, prefix: str, size: int) -> None:
        def runs(pods: Sequence[Pod]) -> bool:
            return len([own for own in pods if own.node and own.live and own.name.startswith(f"{prefix}-")]) == size

        self.stage.until(runs)

    # How it is written.

    def create_released(self) -> None:
        self._create("releases", RELEASED)

    def _add_nodes(self, **counts: int) -> None:
        """Add nodes for each case, as many as it counts, on which only its pods may go."""
        cases = [case for case, count in counts.items() for _ in range(count)]
        prefix = f"{self.stage.namespace}-{next(iter(counts))}-node"
        self.stage.cluster.add_nodes(
            len(cases), prefix=prefix, labels=lambda at: {"case": f"{self.stage.namespace}-{cases[at]}"}
        )

    def _home(self, case: str) -> Object:
        return {"nodeSelector": {"case": f"{self.stage.namespace}-{case}"}}

    def _create(
        self,
        name: str,
        size: int,
        *,
        min_member: int = 0,
        case: str = "",
        first: int = 0,
        labels: dict[str, str] | None = None,
        late: bool = False,
        **facts: Any,
    ) -> None:
        """Create a gang. ``late``: its pods end only when ``let_end`` ends them."""
        members = [
            member(f"{name}-{at}", name, min_member or size, **self._home(case or name), **facts)
            for at in range(first, first + size)
        ]
        for obj in members:
            obj["metadata"]["labels"] = labels or {}
        self.stage.create(*(ending_late(members) if late else members))

    def _create_job(
        self,
        name: str,
        size: int,
        *,
        case: str = "",
        queue: str = "",
        annotations: dict[str, str] | None = None,
        late: bool = False,
        **facts: Any,
    ) -> None:
        template = {
            "metadata": {},
            "spec": pod(name, **self._home(case or name), restartPolicy="Never", **facts)["spec"],
        }
        if late:
            ending_late([template])
        spec = {"completions": size, "parallelism": size, "completionMode": "Indexed", "template": template}
        labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {"muster.dev/gang": "true"}
        meta = {"name": name, "labels": labels, "annotations": annotations or {}}
        self.stage.api.create(self.jobs, {"metadata": meta, "spec": spec})

    def _create_set(self, name: str, size: int) -> None:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": pod(name, **self._home(name))["spec"]}
        spec = {"replicas": size, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.stage.namespace}/statefulsets"
        meta = {"name": name, "labels": {"muster.dev/gang": "true"}}
        self.stage.api.create(path, {"metadata": meta, "spec": spec})


def _running(pod: Object) -> Running:
    status = pod["status"]
    restarts = sum(container.get("restartCount", 0) for container in status.get("containerStatuses", ()))
    return Running(pod["metadata"]["uid"], pod["spec"]["nodeName"], status.get("startTime", ""), restarts)
