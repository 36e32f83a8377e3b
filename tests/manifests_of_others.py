"""Manifests of gangs, as the documents of other projects print them."""

from __future__ import annotations

VOLCANO = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: test
spec:
  minMember: 3
  minResources:
    cpu: "3"
    memory: "2048Mi"
  queue: default
"""
VOLCANO_POD = """
apiVersion: v1
kind: Pod
metadata:
  name: test-0
  annotations:
    scheduling.k8s.io/group-name: test
spec:
  schedulerName: volcano
  restartPolicy: Never
  containers:
    - name: main
      image: registry.k8s.io/pause:3.9
      resources:
        limits:
          nvidia.com/gpu: "1"
        requests:
          nvidia.com/gpu: "1"
"""
KAI = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: sample1
spec:
  queue: test
  priorityClassName: inference
  minSubGroup: 2
  subGroups:
    - name: subgroup-a
      minMember: 2
      topologyConstraint:
        topology: "cluster-topology"
        requiredTopologyLevel: "topology/rack"
    - name: subgroup-b
      minMember: 3
      topologyConstraint:
        topology: "cluster-topology"
        requiredTopologyLevel: "topology/rack"
"""
KAI_POD = """
apiVersion: v1
kind: Pod
metadata:
  name: pod-a1
  annotations:
    pod-group-name: sample1
  labels:
    kai.scheduler/subgroup-name: subgroup-a
spec:
  containers:
    - name: worker
      image: ubuntu
      command: ["sleep", "infinity"]
"""
YUNIKORN = """
apiVersion: batch/v1
kind: Job
metadata:
  name: gang-scheduling-job-example
spec:
  completions: 2
  parallelism: 2
  template:
    metadata:
      labels:
        app: sleep
        applicationId: "gang-scheduling-job-example"
        queue: root.sandbox
      annotations:
        yunikorn.apache.org/task-group-name: task-group-example
        yunikorn.apache.org/task-groups: |-
          [{
              "name": "task-group-example",
              "minMember": 2,
              "minResource": {
                "cpu": "100m",
                "memory": "50M"
              },
              "nodeSelector": {},
              "tolerations": [],
              "affinity": {},
              "topologySpreadConstraints": []
          }]
    spec:
      schedulerName: yunikorn
      restartPolicy: Never
      containers:
        - name: sleep30
          image: "alpine:latest"
          command: ["sleep", "30"]
          resources:
            requests:
              cpu: "100m"
              memory: "50M"
"""
KUEUE = """
apiVersion: v1
kind: Pod
metadata:
  generateName: sample-pod-
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    kueue.x-k8s.io/pod-group-name: "sample-group"
  annotations:
    kueue.x-k8s.io/pod-group-total-count: "2"
spec:
  containers:
  - name: sleep
    image: busybox
    command:
      - sleep
    args:
      - 3s
    resources:
      requests:
        cpu: 3
"""
KOORDINATOR = """
apiVersion: v1
kind: Pod
metadata:
  name: pod-example1
  annotations:
    gang.scheduling.koordinator.sh/name: "gang-example"
    gang.scheduling.koordinator.sh/min-available: "2"
spec:
  schedulerName: koord-scheduler
  containers:
  - command:
    - sleep
    - 365d
    image: busybox
    imagePullPolicy: IfNotPresent
    name: curlimage
    resources:
      limits:
        cpu: 40m
        memory: 40Mi
      requests:
        cpu: 40m
        memory: 40Mi
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  restartPolicy: Always
"""
