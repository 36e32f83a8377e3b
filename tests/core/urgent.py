"""A pod of no gang for which kube-scheduler would preempt."""

from __future__ import annotations

from extender.core.limits import Limits
from policies.model import Pod
from tests.builders import cluster, single
from tests.core.preempting import Cluster, running

OFF = Limits(preemption_s=60.0)


def urgent(gpus: int = 8, priority: int = 10, name: str = "urgent") -> Pod:
    return single(name, gpus=gpus, priority=priority)


class Asked:
    """Two nodes with a gang of two on them, and an urgent pod for which kube-scheduler would delete one of its pods."""

    def __init__(self, *, limits: Limits = OFF, writes: bool = True, priority: int = 10) -> None:
        self.script = Cluster(*cluster("a: 2x8"), limits=limits, writes=writes)
        self.low = running(self.script, "low", 2)
        self.pod = urgent(priority=priority)
        self.script.see(self.pod)
        self.node = self.script.pods[self.low[0].uid].node or ""
        self.other = self.script.pods[self.low[1].uid].node or ""

    def ask(self) -> dict[str, tuple[str, ...]]:
        return self.script.preempt(self.script.pods[self.pod.uid], {self.node: (self.low[0].uid,)})

    def restart(self) -> Cluster:
        """Another extender, which reads what is left."""
        return Cluster(*cluster("a: 2x8"), *self.script.pods.values(), limits=OFF)
