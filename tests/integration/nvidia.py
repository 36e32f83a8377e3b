"""NVIDIA's quick-starts of its DRA driver (0.4 and 0.5), as its documents print them, reduced to scheduling.

Images, commands and namespaces are left out. ``QUICKSTARTS`` are plain pods, to which tests add an annotation of
Muster.
"""

from __future__ import annotations

from typing import Any

import yaml

Object = dict[str, Any]

_GPU = "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}"
_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec: {{spec: {{devices: {devices}}}}}
---
"""
_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: pod}}}}
spec:
  containers: {containers}
  resourceClaims: {claims}
  tolerations:
  - {{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}
---
"""
_CONTAINER = "{{name: {}, image: 'ubuntu:22.04', resources: {{claims: [{}]}}}}"
_DOMAIN = """
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {{name: {name}}}
spec: {{numNodes: {nodes}, channel: {{resourceClaimTemplate: {{name: {template}}}{mode}}}}}
---
"""


def _pod(name: str, *containers: str, claims: str) -> str:
    made = [_CONTAINER.format(f"ctr{at}", claim) for at, claim in enumerate(containers)]
    return _POD.format(name=name, containers=f"[{', '.join(made)}]", claims=claims)


def _channel(name: str, mode: str = "") -> str:
    """A domain of one node, and a pod with a channel of it on a node that has a clique."""
    domain = _DOMAIN.format(name=name, nodes=1, template=f"{name}-0", mode=mode)
    pod = _pod(
        name, "{name: imex-channel-0}", claims=f"[{{name: imex-channel-0, resourceClaimTemplateName: {name}-0}}]"
    )
    clique = """  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: nvidia.com/gpu.clique, operator: Exists}
---
"""
    return domain + pod.replace("---\n", clique)


_OF_TEMPLATE = "[{name: gpu, resourceClaimTemplateName: single-gpu}]"
_MIG = [("mig-1g-5gb-0", "1g.5gb"), ("mig-1g-5gb-1", "1g.5gb"), ("mig-2g-10gb", "2g.10gb"), ("mig-3g-20gb", "3g.20gb")]
_PROFILE = "device.attributes['gpu.nvidia.com'].profile == '{}'"


def _mig_deployment() -> str:
    """gpu-test4: four containers, a partition each, all of one GPU; as a Deployment, of two pods here."""
    requests = [
        {
            "name": name,
            "exactly": {
                "deviceClassName": "mig.nvidia.com",
                "selectors": [{"cel": {"expression": _PROFILE.format(profile)}}],
            },
        }
        for name, profile in _MIG
    ]
    devices = {
        "requests": requests,
        "constraints": [{"requests": [], "matchAttribute": "gpu.nvidia.com/parentUUID"}],
    }
    containers = [
        {
            "name": f"ctr{at}",
            "image": "ubuntu:22.04",
            "resources": {"claims": [{"name": "mig-devices", "request": name}]},
        }
        for at, (name, _) in enumerate(_MIG)
    ]
    pod = {
        "metadata": {"labels": {"app": "gpu-test4"}},
        "spec": {
            "containers": containers,
            "resourceClaims": [{"name": "mig-devices", "resourceClaimTemplateName": "mig-devices"}],
        },
    }
    selector = {"matchLabels": {"app": "gpu-test4"}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-test4"},
        "spec": {"replicas": 2, "selector": selector, "template": pod},
    }
    return _TEMPLATE.format(
        name="mig-devices", devices=yaml.safe_dump(devices, default_flow_style=True)
    ) + yaml.safe_dump(deployment)


_SHARED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: single-gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
---
"""
_SHARING = """{requests: [{name: ts-gpu, exactly: {deviceClassName: gpu.nvidia.com}},
  {name: mps-gpu, exactly: {deviceClassName: gpu.nvidia.com}}],
  config: [
  {requests: [ts-gpu], opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1,
    kind: GpuConfig, sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}}}},
  {requests: [mps-gpu], opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1,
    kind: GpuConfig, sharing: {strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50}}}}}]}"""
_EXTENDED = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  containers:
  - name: cuda-container
    image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0
    resources: {limits: {%s: "1"}}
  tolerations:
  - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
---
"""
_MIG_CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig-1g-12gb.gpu.nvidia.com}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig' &&
      device.attributes['gpu.nvidia.com'].profile == '1g.12gb'"}
  extendedResourceName: nvidia.com/mig-1g.12gb
---
"""

QUICKSTARTS: dict[str, str] = {
    "channel-injection": _channel("imex-channel-injection"),
    "channel-injection-all": _channel("imex-channel-injection-all", ", allocationMode: All"),
    "gpu-test1": _TEMPLATE.format(name="single-gpu", devices=f"{{requests: [{_GPU}]}}")
    + _pod("pod1", "{name: gpu}", claims=_OF_TEMPLATE)
    + _pod("pod2", "{name: gpu}", claims=_OF_TEMPLATE),
    "gpu-test2": _TEMPLATE.format(name="single-gpu", devices=f"{{requests: [{_GPU}]}}")
    + _pod("pod", "{name: gpu}", "{name: gpu}", claims=_OF_TEMPLATE),
    "gpu-test3": _SHARED
    + _pod("pod1", "{name: gpu}", claims="[{name: gpu, resourceClaimName: single-gpu}]")
    + _pod("pod2", "{name: gpu}", claims="[{name: gpu, resourceClaimName: single-gpu}]"),
    "gpu-test4": _mig_deployment(),
    "gpu-test5": _TEMPLATE.format(name="multiple-gpus", devices=_SHARING)
    + _pod(
        "pod0",
        "{name: shared-gpus, request: ts-gpu}",
        "{name: shared-gpus, request: mps-gpu}",
        claims="[{name: shared-gpus, resourceClaimTemplateName: multiple-gpus}]",
    ),
    "extended-resource-gpu-full": _EXTENDED % ("gpu-full-pod", "nvidia.com/gpu"),
    "extended-resource-mig": _MIG_CLASS + _EXTENDED % ("mig-1g12gb-pod", "nvidia.com/mig-1g.12gb"),
}
"""In gpu-test4 the profiles are those of an A100. The MIG class has a resource of its own: with that of whole GPUs, as
printed, kube-scheduler gives either to any pod that asks."""

NVBANDWIDTH = (
    _DOMAIN.format(name="nvbandwidth", nodes=2, template="nvbandwidth-channel", mode="")
    + """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: nvbandwidth-test}
spec:
  slotsPerWorker: 4
  launcherCreationPolicy: WaitForWorkersReady
  runPolicy: {cleanPodPolicy: Running}
  sshAuthMountPath: /home/mpiuser/.ssh
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        metadata: {labels: {nvbandwidth-test-replica: mpi-launcher}}
        spec:
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - {key: node-role.kubernetes.io/control-plane, operator: Exists}
          tolerations:
          - {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
          containers:
          - {image: nvbandwidth, name: mpi-launcher, command: [mpirun]}
    Worker:
      replicas: 2
      template:
        metadata: {labels: {nvbandwidth-test-replica: mpi-worker}}
        spec:
          containers:
          - image: nvbandwidth
            name: mpi-worker
            resources: {limits: {nvidia.com/gpu: 4}, claims: [{name: compute-domain-channel}]}
          resourceClaims:
          - {name: compute-domain-channel, resourceClaimTemplateName: nvbandwidth-channel}
"""
)
