"""kube-controller-manager's controller of ResourceClaims: it makes claims from templates, and deallocates unused ones.

It removes the reservation of a pod that has ended or is gone, and with the last reservation the allocation. If
kube-scheduler has removed the last reservation, the allocation stays (controller.go of 1.37, ``syncClaim``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from extender.simulation.clock import Clock
from policies.model import Pod
from policies.model.devices import EXTENDED_USE, ClaimTemplate, DeviceClaim
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.devices import claims_of


class ClaimController:
    """The controller. ``lag`` gives the seconds until it looks at a change."""

    def __init__(self, api: ApiServer, clock: Clock, lag: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._lag = lag
        api.listeners[Kind.PODS].append(self._pod_changed)
        api.listeners[Kind.DEVICES].append(self._thing_changed)
        api.listeners[Kind.CLAIMS].append(self._claim_changed)

    def _pod_changed(self, change: Change) -> None:
        pod = change.value
        assert isinstance(pod, Pod)
        if pod.device_claims:
            self._clock.after(self._lag(), lambda: self._look_at(pod))

    def _thing_changed(self, change: Change) -> None:
        if isinstance(change.value, ClaimTemplate):
            for pod in self._api.pods.values():
                if pod.device_claims:
                    self._clock.after(self._lag(), lambda pod=pod: self._look_at(pod))  # type: ignore[misc]

    def _claim_changed(self, change: Change) -> None:
        """Look at the pods of a claim that lack it or its reservation, and at reservations of pods that have ended."""
        claim = change.value
        assert isinstance(claim, DeviceClaim)
        users = [pod for pod in self._api.pods.values() if pod.device_claims and claim in claims_of(pod, [claim])]
        lacking = [pod for pod in users if change.gone or (pod.node and pod.uid not in claim.reserved_for)]
        for pod in lacking:
            self._clock.after(self._lag(), lambda pod=pod: self._look_at(pod))  # type: ignore[misc]
        for uid in () if change.gone else claim.reserved_for:
            if (known := self._api.pods.get(uid)) is None or known.terminal:
                self._clock.after(self._lag(), lambda uid=uid: self._release(uid))  # type: ignore[misc]

    def _look_at(self, pod: Pod) -> None:
        known = self._api.pods.get(pod.uid)
        if known is None or known.terminal:
            self._release(pod.uid)
        else:
            self._make(known)
            if known.node:
                self._reserve(known)

    def _make(self, pod: Pod) -> None:
        """Make the claims of its templates, where the template is there."""
        for use, claim in zip(pod.device_claims, claims_of(pod, self._api.claims.values()), strict=True):
            template = self._api.things.get(f"ClaimTemplate/{use.template}")
            if claim is None and use.name != EXTENDED_USE and isinstance(template, ClaimTemplate):
                name = f"{pod.uid}-{use.name}"
                made = DeviceClaim(pod.namespace, name, f"claim {name}", template.spec, owner=pod.uid, use=use.name)
                self._api.set_claim(made)

    def _reserve(self, pod: Pod) -> None:
        """Reserve the claims of a bound pod again that has lost its reservation, if they still have their devices."""
        for claim in claims_of(pod, self._api.claims.values()):
            if claim is not None and claim.allocation is not None and pod.uid not in claim.reserved_for:
                self._api.set_claim(replace(claim, reserved_for=(*claim.reserved_for, pod.uid)))

    def _release(self, uid: str) -> None:
        for claim in list(self._api.claims.values()):
            if uid in claim.reserved_for:
                left = tuple(user for user in claim.reserved_for if user != uid)
                self._api.set_claim(replace(claim, reserved_for=left, allocation=claim.allocation if left else None))
            if claim.owner == uid:
                self._api.remove_claim(claim.uid)
