"""A real Kubernetes control plane on loopback, for the demo, the tests and the benchmarks.

    with Cluster() as cluster:
        cluster.add_nodes(16, gpus=8)
        cluster.start_scheduler()

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok are the programs their projects release, built
once from the versions that `kubernetes/1.37/go.mod` pins, or another go.mod there. Nodes and containers are played by
kwok; everything else is as in production. When the creator of a cluster ends, however it ends, every process and file
of the cluster goes with it.
"""

from devcluster.api import Api, ApiError
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.process import Process
from devcluster.scheduler import Scheduler
from devcluster.watch import Watch

__all__ = ["Api", "ApiError", "Cluster", "ClusterError", "Process", "Scheduler", "Watch"]
