"""RayCluster and RayJob: the head, a podset of workers for each group, and later the submitter of a RayJob."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from extender.kube.kinds.kind import Kind, Object, Template, UnreadableJobError, count_in, deadline_in, found, part_of
from extender.kube.kinds.plan import MOST_PODS
from extender.kube.reading.numbering import RAY_HEAD, series_of_ray
from extender.kube.reading.objects import Meta

_WAITS_FOR_HEAD: Object = {"name": "wait-gcs-ready", "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}}}
"""The init container that ray-operator v1.6.0 adds to workers, unless ENABLE_INIT_CONTAINER_INJECTION disables it."""
_AUTOSCALER: Object = {"requests": {"cpu": "500m", "memory": "512Mi"}}
_SUBMITTER: Object = {"name": "ray-job-submitter", "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}
"""The container that ray-operator adds to the head of a RayJob with submissionMode SidecarMode."""


def _of_cluster(obj: Object) -> Iterator[Template]:
    yield from _cluster(part_of(obj, "spec"))


def _of_job(obj: Object) -> Iterator[Template]:
    deadline_s = deadline_in(obj, "spec.activeDeadlineSeconds")
    return (replace(template, deadline_s=deadline_s) for template in _of_all_pods(obj))


def _of_all_pods(obj: Object) -> Iterator[Template]:
    spec = part_of(obj, "spec")
    mode = spec.get("submissionMode") or "K8sJobMode"
    yield from _cluster(part_of(spec, "rayClusterSpec"), *((_SUBMITTER,) if mode == "SidecarMode" else ()))
    if mode == "K8sJobMode" and spec.get("submitterPodTemplate") is not None:
        # The controller makes the submitter's Job when the cluster is ready. The default submitter has no template to
        # write on.
        yield Template("", part_of(spec, "submitterPodTemplate"), ("",), 1, indexed=False, wave=1)


def _cluster(spec: Object, *sidecars: Object) -> Iterator[Template]:
    scales = spec.get("enableInTreeAutoscaling") is True
    if scales:
        own = next(found(spec, "autoscalerOptions.resources"), None)
        sidecars = (*sidecars, {"name": "autoscaler", "resources": own or _AUTOSCALER})
    head = series_of_ray(RAY_HEAD)
    pods, labels = part_of(spec, "headGroupSpec", "template"), _labels("head", RAY_HEAD)
    yield Template(RAY_HEAD, pods, (head,), 1, indexed=False, sidecars=sidecars, meta=labels)
    named = {RAY_HEAD}
    for group in found(spec, "workerGroupSpecs.*"):
        if not isinstance(group, dict) or not isinstance(name := group.get("groupName"), str) or not name:
            raise UnreadableJobError("its workerGroupSpecs cannot be read")
        if name in named:
            raise UnreadableJobError("two groups of its workerGroupSpecs have the same groupName, or that of the head")
        named.add(name)
        yield _workers(group, name, scales)


def _labels(node_type: str, group: str) -> Meta:
    """The labels that ray-operator gives the pods; spread and affinity may select by them."""
    return Meta(labels={"ray.io/node-type": node_type, "ray.io/group": group, "ray.io/is-ray-node": "yes"})


def _workers(group: Object, name: str, scales: bool) -> Template:
    """The template of a worker group.

    Pods that the autoscaler adds later come from the same template, and must not be steered to the planned nodes.
    """
    replicas, hosts = _replicas(group), max(1, count_in(group, "numOfHosts", 1))
    pods, added = part_of(group, "template"), (_WAITS_FOR_HEAD,)
    if hosts == 1:
        least = min(count_in(group, "minReplicas", 0), replicas) if scales else None
        only = (series_of_ray(name),)
        led, labels = not scales, _labels("worker", name)
        return Template(name, pods, only, replicas, indexed=False, added=added, led=led, minimum=least, meta=labels)
    if replicas > MOST_PODS:
        raise UnreadableJobError(f"it has more than {MOST_PODS:,} replicas, and no more pods can be planned together")
    # A replica is one machine of several hosts. Only the planned replicas have indexes that steer them to nodes.
    series = tuple(series_of_ray(name, at) for at in range(replicas))
    labels = _labels("worker", name)
    return Template(name, pods, series, hosts, affinity=not scales, added=added, grows=True, meta=labels)


def _replicas(group: Object) -> int:
    """The number of replicas, bounded as ray-operator bounds it."""
    if group.get("suspend") is True:
        return 0
    least, most = count_in(group, "minReplicas", 0), count_in(group, "maxReplicas", (1 << 31) - 1)
    return min(max(count_in(group, "replicas", 0), least), most)


def _shuts_down(obj: Object) -> bool:
    """Whether ray-operator allows to suspend the RayJob. Any other one would fail its validation permanently."""
    return True in found(obj, "spec.shutdownAfterJobFinishes") and not any(found(obj, "spec.clusterSelector"))


RAY_CLUSTER = Kind(
    version="ray.io/v1",
    name="RayCluster",
    plural="rayclusters",
    templates=_of_cluster,
    suspend="spec.suspend",
    # A RayCluster serves until it is deleted.
    finished=(),
    active=(),
    ran=("HeadPodReady", "status.availableWorkerReplicas"),
    managed_by="spec.managedBy",
    managers=("ray.io/kuberay-operator",),
    stopped="RayClusterSuspended",
    # ray-operator first handles every cluster, and then stops the suspended ones.
    began=("metadata.uid",),
    # With upgradeStrategy Recreate each change of a template remakes all pods.
    frozen=True,
)
_STATUS = "status.jobDeploymentStatus"
RAY_JOB = Kind(
    version="ray.io/v1",
    name="RayJob",
    plural="rayjobs",
    templates=_of_job,
    suspend="spec.suspend",
    finished=(f"{_STATUS}=Complete", f"{_STATUS}=Failed"),
    active=(),
    ran=(f"{_STATUS}=Running", "status.rayClusterStatus.availableWorkerReplicas"),
    managed_by="spec.managedBy",
    managers=("ray.io/kuberay-operator",),
    stopped=f"{_STATUS}=Suspended",
    # As for RayCluster.
    began=("metadata.uid",),
    suspendable=_shuts_down,
)
