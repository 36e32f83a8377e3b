"""Kubelets, and the pods of lost nodes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from extender.simulation.clock import Clock
from policies.model import Node, Pod
from policies.model.devices import DeviceClaim
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.devices import claims_of, node_of
from tests.simulation.model.wire import Stage


class Kubelets:
    """Bound pods run after ``start_s``, deleted ones are gone after ``stop_s``, those of a lost node after both.

    ``dice``: they write statuses in pieces, as real ones do. A pod runs before it is ready, and one that is deleted
    has ended before it is gone.
    """

    def __init__(
        self, api: ApiServer, clock: Clock, start_s: float = 2.0, stop_s: float = 1.0, dice: Random | None = None
    ) -> None:
        self._api = api
        self._clock = clock
        self._start_s = start_s
        self._stop_s = stop_s
        self._dice = dice
        self.prepares: Callable[[Pod], bool] = lambda _: True
        """Whether the driver has prepared the node of a pod: else it is tried again when the node changes."""
        self.prepare_s = 0.0
        """How long the devices of a pod take to be prepared."""
        self._down: dict[str, None] = {}
        self._starting: dict[str, None] = {}
        self._stopping: dict[str, None] = {}
        api.listeners[Kind.PODS].append(self._pod_changed)
        api.listeners[Kind.NODES].append(self._node_changed)
        api.listeners[Kind.CLAIMS].append(self._claim_changed)

    def set_down(self, node: str, *, down: bool) -> None:
        """A node that is down neither starts nor ends a pod; when it is back it does both."""
        if down:
            self._down[node] = None
        elif self._down.pop(node, "up") is None:
            self._look_after_all(node)

    def _pod_changed(self, change: Change) -> None:
        if change.gone:
            self._starting.pop(change.uid, None)
            self._stopping.pop(change.uid, None)
        elif isinstance(change.value, Pod) and change.value.node:
            self._look_after(change.value)

    def _look_after_all(self, node: str) -> None:
        for pod in [pod for pod in self._api.pods.values() if pod.node == node]:
            self._look_after(pod)

    def _look_after(self, pod: Pod) -> None:
        uid = pod.uid
        if pod.deleting or pod.terminal:
            if pod.deleting and uid not in self._stopping:
                self._stopping[uid] = None
                if self._dice is not None:
                    self._clock.after(self._stop_s * self._dice.random(), lambda: self._end(uid))
                self._clock.after(self._stop_s, lambda: self._stop(uid))
        elif pod.phase == "Pending" and uid not in self._starting:
            self._starting[uid] = None
            if self._dice is not None:
                self._clock.after(self._start_s * self._dice.random(), lambda: self._report(uid, Stage.SEEN))
            prepare_s = self.prepare_s if pod.device_claims else 0.0
            self._clock.after(self._start_s + prepare_s, lambda: self._start(uid))

    def _start(self, uid: str) -> None:
        self._starting.pop(uid, None)
        pod = self._api.pods.get(uid)
        runs = pod is not None and pod.phase == "Pending" and not pod.deleting and self._has_devices(pod)
        there = pod is not None and pod.node in self._api.nodes and pod.node not in self._down
        if pod is not None and runs and there and self.prepares(pod):
            if self._dice is None:
                alone = pod.group_key is None and any(pod.run)
                self._api.change_pod(uid, phase="Running", began=self._clock.now if alone else None)
            else:
                self._start_in_pieces(uid, self._dice)

    def _has_devices(self, pod: Pod) -> bool:
        """Whether its claims are allocated here and reserved for it: else it is tried again when a claim changes."""
        for claim in claims_of(pod, self._api.claims.values()) if pod.device_claims else ():
            if claim is None or pod.uid not in claim.reserved_for or claim.allocation is None:
                return False
            if node_of(claim.allocation) != pod.node:
                return False
        return True

    def _claim_changed(self, change: Change) -> None:
        claim = change.value
        for uid in claim.reserved_for if isinstance(claim, DeviceClaim) and not change.gone else ():
            if (pod := self._api.pods.get(uid)) is not None and pod.node:
                self._look_after(pod)

    def _start_in_pieces(self, uid: str, dice: Random) -> None:
        """Report that the pod runs, has an address and is ready; some pods are unready again for a while."""
        self._api.report_pod(uid, Stage.RUNS, phase="Running")
        at_s = dice.random()
        stages = (Stage.HAS_ADDRESS, Stage.READY, *((Stage.UNREADY, Stage.READY) if dice.random() < 0.3 else ()))
        for stage in stages:
            self._clock.after(at_s, lambda stage=stage: self._report(uid, stage))  # type: ignore[misc]
            at_s += dice.choice((0.2, 2.0, 10.0)) * dice.random()

    def _report(self, uid: str, stage: Stage) -> None:
        pod = self._api.pods.get(uid)
        if pod is not None and pod.live and pod.node in self._api.nodes and pod.node not in self._down:
            self._api.report_pod(uid, stage)

    def _end(self, uid: str) -> None:
        """Report that the containers have ended; the object of the pod is removed later."""
        pod = self._api.pods.get(uid)
        if pod is not None and pod.deleting and not pod.terminal and pod.node not in self._down:
            self._api.change_pod(uid, phase="Failed")

    def _stop(self, uid: str) -> None:
        self._stopping.pop(uid, None)
        pod = self._api.pods.get(uid)
        if pod is not None and pod.node not in self._down:
            self._api.remove_pod(uid)

    def _node_changed(self, change: Change) -> None:
        if not isinstance(change.value, Node):
            return
        name = change.value.name
        if change.gone:
            self._clock.after(self._start_s + self._stop_s, lambda: self._collect(name))
        else:
            self._look_after_all(name)  # it may be back before its pods are collected

    def _collect(self, node: str) -> None:
        """The garbage collector: pods of a node that has no object any more. It writes that they have ended first."""
        if node not in self._api.nodes:
            for pod in [pod for pod in self._api.pods.values() if pod.node == node]:
                if self._dice is not None and not pod.terminal:
                    self._api.change_pod(pod.uid, phase="Failed")
                self._api.remove_pod(pod.uid)
