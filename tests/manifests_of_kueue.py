"""Objects of Kueue's v1beta1 with every field that has another name or place in v1beta2, written as people write."""

from __future__ import annotations

EVERY_CHANGE = """\
# The queues of two teams.
apiVersion: kueue.x-k8s.io/v1beta1   # of Kueue 0.15
kind: ClusterQueue
metadata: {name: research}
spec:
  # who lends to whom
  cohort: 'all'   # by name
  admissionChecks:   # in this order
  - gpus-there   # first

  # then
  - "other-cluster"
  namespaceSelector: {}
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: "Preempt"}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: any
      resources:
      - {name: cpu, nominalQuota: 9}
# between
---
{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "json"},
 "spec": {"cohort": "all", "admissionChecks": ["gpus-there"], "admissionChecksStrategy": {}}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: by-flavor}
spec:
  admissionChecks: []
  admissionChecksStrategy:
    admissionChecks: [{name: gpus-there, onFlavors: [any]}]   # only there
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: AdmissionCheck
metadata: {name: gpus-there}
spec:
  retryDelayMinutes: 15   # means nothing
  controllerName: kueue.x-k8s.io/provisioning-request
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: MultiKueueCluster
metadata: {name: other}
spec:
  kubeConfig:
    locationType: Secret   # in kueue-system
    location: other-cluster
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: MultiKueueCluster
metadata: {name: by-profile}
spec:
  kubeConfig: {location: "", locationType: Secret}
  clusterProfileRef: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched}
data: {cohort: "stays",   twice: 'as it is'}
---
apiVersion: v1
kind: List
items:
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: Workload
  metadata: {name: one, namespace: default}
  spec:
    priorityClassName: high
    priority: 7   # its value
    priorityClassSource: kueue.x-k8s.io/workloadpriorityclass
    podSets:
    - name: main
      count: 2
      template:
        spec:
          containers: [{name: main, image: "train:1"}]
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: LocalQueue
  metadata: {name: team, namespace: default}
  spec: {clusterQueue: research}
  status:
    flavorUsage: []
    flavors:   # of older versions
    - name: any
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
metadata: {name: all}
spec: {parentName: root}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/rack}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: high}
value: 7
description: before others
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: MultiKueueConfig
metadata: {name: all}
spec: {clusters: [other, by-profile]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ProvisioningRequestConfig
metadata: {name: gpus}
spec: {provisioningClassName: queued-provisioning.gke.io}
"""

CONVERTED = """\
# The queues of two teams.
apiVersion: kueue.x-k8s.io/v1beta2   # of Kueue 0.15
kind: ClusterQueue
metadata: {name: research}
spec:
  # who lends to whom
  cohortName: 'all'   # by name
  admissionChecksStrategy:
    admissionChecks:   # in this order
    - name: gpus-there   # first

    # then
    - name: "other-cluster"
  namespaceSelector: {}
  flavorFungibility: {whenCanBorrow: MayStopSearch, whenCanPreempt: "MayStopSearch"}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: any
      resources:
      - {name: cpu, nominalQuota: 9}
# between
---
{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "json"},
 "spec": {"cohortName": "all", "admissionChecksStrategy": {"admissionChecks": [{"name": "gpus-there"}]}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: by-flavor}
spec:
  admissionChecksStrategy:
    admissionChecks: [{name: gpus-there, onFlavors: [any]}]   # only there
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: gpus-there}
spec:
  controllerName: kueue.x-k8s.io/provisioning-request
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: other}
spec:
  clusterSource:
    kubeConfig:
      locationType: Secret   # in kueue-system
      location: other-cluster
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: by-profile}
spec:
  clusterSource:
    clusterProfileRef: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched}
data: {cohort: "stays",   twice: 'as it is'}
---
apiVersion: v1
kind: List
items:
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Workload
  metadata: {name: one, namespace: default}
  spec:
    priorityClassRef:
      group: kueue.x-k8s.io
      kind: WorkloadPriorityClass
      name: high
    priority: 7   # its value
    podSets:
    - name: main
      count: 2
      template:
        spec:
          containers: [{name: main, image: "train:1"}]
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: LocalQueue
  metadata: {name: team, namespace: default}
  spec: {clusterQueue: research}
  status:
    flavorsUsage: []
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
spec: {parentName: root}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/rack}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 7
description: before others
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: all}
spec: {clusters: [other, by-profile]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ProvisioningRequestConfig
metadata: {name: gpus}
spec: {provisioningClassName: queued-provisioning.gke.io}
"""
