"""NVIDIA's driver for ComputeDomains: it labels a node for the domain of the pods that are bound there.

A node that is labelled for another domain is left as it is: pods of this domain do not start there until the label
is removed. That happens some time after the last pod of the other domain has ended or gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from extender.simulation.clock import Clock
from policies.model import Pod
from policies.model.devices import DOMAIN_LABEL, ClaimTemplate
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind


def domain_of(pod: Pod, api: ApiServer) -> str:
    """The UID of the pod's ComputeDomain, by its templates; empty for none."""
    templates = (api.things.get(f"ClaimTemplate/{use.template}") for use in pod.device_claims)
    return next(
        (
            template.spec.domain
            for template in templates
            if isinstance(template, ClaimTemplate) and template.spec.domain
        ),
        "",
    )


class DomainDriver:
    """``lag`` gives the seconds until it unprepares a node."""

    def __init__(self, api: ApiServer, clock: Clock, lag: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._lag = lag
        api.listeners[Kind.PODS].append(self._pod_changed)

    def prepares(self, pod: Pod) -> bool:
        """Whether the node of the pod is prepared for its domain. An unlabelled node is labelled now."""
        domain, node = domain_of(pod, self._api), self._api.nodes.get(pod.node or "")
        if not domain or node is None:
            return True
        labelled = node.labels.get(DOMAIN_LABEL)
        if labelled is None:
            self._api.set_node(replace(node, labels={**node.labels, DOMAIN_LABEL: domain}))
        return labelled in (None, domain)

    def _pod_changed(self, change: Change) -> None:
        pod = change.value
        if isinstance(pod, Pod) and pod.device_claims and pod.node and (change.gone or pod.terminal):
            self._clock.after(self._lag(), lambda: self._unprepare(pod.node or ""))

    def _unprepare(self, name: str) -> None:
        node = self._api.nodes.get(name)
        domain = None if node is None else node.labels.get(DOMAIN_LABEL)
        if node is None or domain is None:
            return
        there = (pod for pod in self._api.pods.values() if pod.node == name and not pod.terminal)
        if not any(domain_of(pod, self._api) == domain for pod in there):
            left = {key: value for key, value in node.labels.items() if key != DOMAIN_LABEL}
            self._api.set_node(replace(node, labels=left))
