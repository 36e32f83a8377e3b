"""Random small clusters on the real control plane: gangs that can start are bound as planned first, all others wait.

``python -m tests.integration.exact [--count N] [--first SEED]`` plays the related cases of ``tests.policies.exact``,
each gang as a whole. The exhaustive search there says which gangs can start.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from types import TracebackType
from typing import Self

from devcluster import Cluster, binaries
from devcluster.muster import RunningMuster, start_muster
from policies.model import GANG_GATE, Pod, Selection, Toleration
from tests.integration.stage import RealStage
from tests.integration.written import STAYS, Pods, node_object
from tests.policies.exact import broken, can_start, seeds
from tests.policies.filters import lets_in
from tests.policies.mixed import ELSEWHERE, KEYS, LEVELS, TIER, Mixed, mixed
from tests.scenarios.stage import Object

PATIENCE_S = 20.0
SETTINGS = {"topology_levels": [f"{name}={key}" for name, key in zip(LEVELS, KEYS, strict=True)]}
NODES = "/api/v1/nodes"
ALONE = "default-scheduler"
ANYWHERE = Selection(tolerations=(Toleration("", "Exists", "", ""),))


class Outcome(StrEnum):
    STARTED = "can start, and bound by the first plan"
    WAITED = "cannot start, and waits"
    WRONG = "not as expected"


class Table:
    """A control plane with Muster, and a stock kube-scheduler beside it; one case is played after the other."""

    def __init__(self, cluster: Cluster, muster: RunningMuster) -> None:
        self._cluster, self._api = cluster, cluster.api
        self._stage = RealStage(cluster, muster)
        cluster.start_scheduler(name="kube-scheduler-alone")
        self.left_alone = 0
        """Cases that cannot start, and that kube-scheduler alone was given, too."""

    def __enter__(self) -> Self:
        self._stage.__enter__()
        self._elsewhere = f"{self._stage.namespace}-{ELSEWHERE}"
        self._api.create("/api/v1/namespaces", {"metadata": {"name": self._elsewhere, "labels": dict([TIER])}})
        self._api.wait_for(f"/api/v1/namespaces/{self._elsewhere}/serviceaccounts/default", bool)
        self._pods = Pods({"default": self._stage.namespace, ELSEWHERE: self._elsewhere})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stage.__exit__(kind, error, trace)

    def play(self, case: Mixed) -> tuple[Outcome, str]:
        """Play the case; returns its outcome, and the fault of it. Nothing is left of it afterwards."""
        case = replace(case, needed=len(case.pods))
        try:
            self._furnish(case)
            gang = f"gang-{case.seed}"
            gates = (GANG_GATE,) if case.seed // 2 % 2 else ()
            names = {pod.uid: f"{gang}-{pod.name}" for pod in case.pods}
            members = [
                self._pods.member(pod, names[pod.uid], gang, case.needed, number, gates)
                for number, role in enumerate(case.roles)
                for pod in role
            ]
            self._create(members)
            if can_start(case):
                wrong = self._started(case, gang, names)
                return (Outcome.WRONG, wrong) if wrong else (Outcome.STARTED, "")
            wrong = self._waited(case, gang, names)
            return (Outcome.WRONG, wrong) if wrong else (Outcome.WAITED, "")
        finally:
            self._clear(case)

    def _furnish(self, case: Mixed) -> None:
        """Create the nodes and the pods on them; returns when Muster and its kube-scheduler have seen them all.

        Both show it by binding a pod to the node that was created last. Each of them hears of nodes in the order of
        their creation, and of pods as well.
        """
        probe = Pod("", ELSEWHERE, f"probe-{case.seed}", selection=ANYWHERE)
        last = next((candidate for candidate in case.nodes if lets_in(probe, candidate, case.nodes, case.there)), None)
        for node in sorted(case.nodes, key=lambda candidate: candidate is last):
            self._api.create(NODES, node_object(node, _name(case, node.name)))
        for pod, where in case.there:
            name = f"{pod.name}-{case.seed}"
            written = self._pods.pod(pod, name, nodeName=_name(case, where.name))
            written["metadata"]["finalizers"] = [STAYS] if pod.deleting else []
            self._create([written])
            if pod.deleting:
                self._api.delete(f"{_home(written)}/{name}", {"gracePeriodSeconds": 0})
        if last is not None:
            selected = {"kubernetes.io/hostname": _name(case, last.name)}
            written = self._pods.pod(probe, probe.name, schedulerName="muster", nodeSelector=selected)
            self._create([written])
            path = f"{_home(written)}/{probe.name}"
            self._api.wait_for(path, lambda seen: bool(seen and seen["spec"].get("nodeName")), PATIENCE_S)
            self._api.delete(path, {"gracePeriodSeconds": 0})

    def _started(self, case: Mixed, gang: str, names: dict[str, str]) -> str:
        """The fault of a gang that can start."""
        wanted = set(names.values())

        def all_bound(pods: Sequence[Object]) -> bool:
            return wanted <= {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}

        try:
            pods = self._api.wait_for(self._stage.pods_path, all_bound, PATIENCE_S)
        except TimeoutError:
            return f"it does not start: {self._told(gang)}"
        on = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
        by_name = {_name(case, node.name): node for node in case.nodes}
        wrong = list(broken(case, [(pod, by_name[on[names[pod.uid]]]) for pod in case.pods]))
        if "forgotten" in (story := self._told(gang)).lower():
            wrong.append(f"a plan was given up: {story}")
        return "; ".join(wrong)

    def _waited(self, case: Mixed, gang: str, names: dict[str, str]) -> str:
        """The fault of a gang that cannot start."""
        try:
            self._stage.wait(
                self._stage.gangs, lambda gangs: gang in gangs and gangs[gang].state == "NoRoom", PATIENCE_S
            )
        except TimeoutError:
            return f"it cannot start, and does not wait for room: {self._told(gang)}"
        if any(pod.node for pod in self._stage.pods() if pod.name in names.values()):
            return "members are bound of a gang that cannot start"
        if any(pod.topology.required in LEVELS or pod.topology.slice_size for pod in case.pods):
            return ""  # kube-scheduler alone knows of no levels
        self.left_alone += 1
        self._stage.delete(*names.values())
        return self._alone(case)

    def _alone(self, case: Mixed) -> str:
        """Give its pods to kube-scheduler alone, as single pods, in the order of the ranks."""
        pods = {f"alone-{case.seed}-{pod.name}": pod for pod in case.pods}
        for name, pod in pods.items():
            self._create([self._pods.pod(pod, name, schedulerName=ALONE)])
        tried = self._api.wait_for(
            self._stage.pods_path,
            lambda seen: sum(pod["metadata"]["name"] in pods and _was_tried(pod) for pod in seen) == len(pods),
            PATIENCE_S,
        )
        on = {tried_pod["metadata"]["name"]: tried_pod["spec"].get("nodeName") for tried_pod in tried}
        return f"kube-scheduler starts all of it: {on}" if all(on[name] for name in pods) else ""

    def _told(self, gang: str) -> str:
        seen = self._stage.gangs().get(gang)
        return "nothing is known of it" if seen is None else f"{seen.state}: {seen.message}; {seen.story}"

    def _create(self, objects: Sequence[Object]) -> None:
        for obj in objects:
            self._api.create(_home(obj), obj)

    def _clear(self, case: Mixed) -> None:
        for namespace in (self._stage.namespace, self._elsewhere):
            path = f"/api/v1/namespaces/{namespace}/pods"
            self._api.delete(path, {"gracePeriodSeconds": 0})
            for pod in self._api.list(path):
                self._api.patch(f"{path}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
            self._api.wait_for(path, lambda pods: not pods)
        for node in case.nodes:
            self._api.delete(f"{NODES}/{_name(case, node.name)}")


def _name(case: Mixed, node: str) -> str:
    return f"case-{case.seed}-{node}"


def _home(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


def _was_tried(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    refused = any(condition["type"] == "PodScheduled" and condition["status"] == "False" for condition in conditions)
    return bool(pod["spec"].get("nodeName")) or refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    outcomes: Counter[str] = Counter()
    with Cluster() as cluster, Table(cluster, start_muster(cluster, SETTINGS)) as table:
        began = time.monotonic()
        for seed in seeds(arguments.first, arguments.count, "related"):
            case = mixed(seed)
            outcome, wrong = table.play(case)
            outcomes[outcome] += 1
            if wrong:
                print(f"case {seed}: {case.told()}: {wrong}", flush=True)  # noqa: T201
        took = time.monotonic() - began
    for what, number in sorted(outcomes.items()):
        print(f"{number} {what}")  # noqa: T201
    print(f"{table.left_alone} of those that cannot start were given to kube-scheduler alone")  # noqa: T201
    print(f"Kubernetes {binaries.kubernetes_version()}, {took / arguments.count:.2f} s for each case")  # noqa: T201
    return 1 if outcomes[Outcome.WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
