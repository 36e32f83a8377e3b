"""Additions of the API server to the pods of a shape when it creates them: sidecars, tolerations, node selectors.

A template does not show them. Created pods do, and so does a pod whose creation was tried by a dry run. From then on,
podsets of the shape are planned with the addition. It is kept in memory only, so a restart forgets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from extender.core.workload.shape import Flavoring
from policies.model import HostPort, Pod, PodSet, PodSets, Requests, Terms, Toleration
from policies.words import amount, listed, stated

_REMEMBERED = 10_000
"""Number of shapes. The one that was confirmed longest ago is forgotten first."""
_ON_EVERY_POD = tuple(
    Toleration(f"node.kubernetes.io/{key}", "Exists", "", "NoExecute") for key in ("not-ready", "unreachable")
)
"""Tolerations that DefaultTolerationSeconds adds. They make no difference to where a pod can be planned."""
_NODE_NAME = "metadata.name"

Source = tuple[str, int]
"""The UID of a job, and the number of its start."""
TRIED: Source = ("", 0)
"""Source of a dry run. Created pods count for more: a controller may add to them what a dry run cannot know."""


class PodDemand(NamedTuple):
    """Demands of a pod on its node, without what Muster writes on it. All fields but the requests are sorted."""

    requests: Requests
    node_selector: tuple[tuple[str, str], ...]
    affinity: Terms
    tolerations: tuple[Toleration, ...]
    ports: tuple[HostPort, ...]


@dataclass(frozen=True, slots=True)
class Addition:
    """An addition to pods of one shape.

    ``planned``: the demand of the template.
    ``real``: the demand of its pods.
    ``source``: the start that the pods are of.
    """

    planned: PodDemand
    real: PodDemand
    source: Source


class Additions:
    """Differences between pods and their template, by shape."""

    def __init__(self) -> None:
        self._known: dict[str, Addition] = {}

    def learn(self, podset: PodSet, pod: Pod, flavoring: Flavoring | None, source: Source) -> bool:
        """Record the demand of a created pod of a podset, as its job states it. Returns whether its shape plans
        differently.

        Pods of one start may differ among themselves: then all are planned like the largest. A later start corrects
        what was known.
        """
        if not podset.shape:
            return False
        planned, real = demand_of(podset.template), demand_of(pod, podset.template, flavoring)
        before = self._known.get(podset.shape)
        if before is not None and source == TRIED != before.source:
            return False
        self._known.pop(podset.shape, None)
        if before is not None and before.source == source:
            real = _largest(planned, before.real, real)
        after = None if real == planned else Addition(planned, real, source)
        if after is not None:
            self._known[podset.shape] = after
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        old, new = ((addition and (addition.planned, addition.real)) for addition in (before, after))
        return old != new

    def forget(self, shape: str) -> None:
        """Forget the addition of a shape, since the API server may add something else now."""
        self._known.pop(shape, None)

    def of(self, podsets: PodSets) -> Mapping[str, Addition]:
        """The known additions to pods of these podsets, by shape."""
        shapes = (podset.shape for podset in podsets.podsets)
        return {shape: self._known[shape] for shape in shapes if shape in self._known}

    def difference(self, podsets: PodSets) -> str:
        """A sentence that says what their pods ask for beyond their templates; empty if nothing is known."""
        known = (self._known.get(podset.shape) for podset in podsets.podsets)
        return next((_difference(addition) for addition in known if addition is not None), "")


def applied(podsets: PodSets, known: Mapping[str, Addition]) -> PodSets:
    """The podsets with the demands of their pods instead of their templates."""
    if not known:
        return podsets
    return PodSets(podsets.key, tuple(_applied(podset, known.get(podset.shape)) for podset in podsets.podsets))


def _applied(podset: PodSet, known: Addition | None) -> PodSet:
    if known is None:
        return podset
    template, planned, real = podset.template, known.planned, known.real
    selection = template.selection
    if planned.node_selector != real.node_selector:
        selection = replace(selection, node_selector=real.node_selector)
    if planned.affinity != real.affinity:
        selection = replace(selection, affinity=real.affinity or None)
    if planned.tolerations != real.tolerations:
        selection = replace(selection, tolerations=real.tolerations)
    constraints = template.constraints
    if planned.ports != real.ports:
        constraints = replace(constraints, ports=real.ports)
    made = replace(template, requests=real.requests, selection=selection, constraints=constraints)
    return replace(podset, template=made)


def carried_over(template: Pod, pod: Pod, made: Pod) -> Pod:
    """The template with what the API server has added to ``made``, a pod that was created as ``pod``.

    ``pod`` may come from another template of the same owner. What a template states itself stays, since the pod may be
    of an earlier version of it.
    """
    planned, real = demand_of(pod), demand_of(made, pod)
    if planned == real:
        return template
    requests, before, selection = dict(template.requests), dict(planned.requests), template.selection
    for name, much in real.requests:
        requests[name] = requests.get(name, 0) + max(0, much - before.get(name, 0))
    added = [label for label in real.node_selector if label not in planned.node_selector]
    tolerated = [
        toleration
        for toleration in real.tolerations
        if toleration not in (*planned.tolerations, *selection.tolerations)
    ]
    selection = replace(
        selection,
        node_selector=tuple(sorted({**dict(added), **dict(selection.node_selector)}.items())),
        tolerations=(*selection.tolerations, *tolerated),
    )
    return replace(template, requests=tuple(sorted(requests.items())), selection=selection)


def demand_of(pod: Pod, template: Pod | None = None, flavoring: Flavoring | None = None) -> PodDemand:
    """The demand of a pod, without what Muster wrote for its node and its flavors.

    ``template``: what the pod was made of.
    """
    selection = pod.selection
    ours = (*_ON_EVERY_POD, *(flavoring.tolerations if flavoring is not None else ()))
    of_template = template.selection.tolerations if template is not None else ()
    tolerations = {
        toleration for toleration in selection.tolerations if toleration in of_template or toleration not in ours
    }
    selector = dict(selection.node_selector)
    if flavoring is not None and template is not None:
        written = set(flavoring.labels) - set(template.selection.node_selector)
        selector = {key: value for key, value in selector.items() if (key, value) not in written}
    terms = (
        tuple(requirement for requirement in term if not (requirement.is_field and requirement.key == _NODE_NAME))
        for term in selection.affinity or ()
    )
    return PodDemand(
        stated(pod.requests),
        tuple(sorted(selector.items())),
        tuple(sorted({term for term in terms if term})),
        tuple(sorted(tolerations)),
        tuple(sorted(pod.constraints.ports)),
    )


def _largest(planned: PodDemand, pod_demand: PodDemand, other: PodDemand) -> PodDemand:
    """Both demands as one: of each resource the larger amount, and of the rest what differs from the template.

    Where both differ, the ``other``, which is newer, counts.
    """
    most = dict(pod_demand.requests)
    for name, much in other.requests:
        most[name] = max(most.get(name, 0), much)
    newer = {field: new for field, new in other._asdict().items() if new != getattr(planned, field)}
    return pod_demand._replace(**newer)._replace(requests=tuple(sorted(most.items())))


def _difference(addition: Addition) -> str:
    """A sentence that says the difference; empty if the pods can go wherever their template could."""
    requests, real = dict(addition.planned.requests), dict(addition.real.requests)
    names = [name for name in dict.fromkeys((*requests, *real)) if requests.get(name, 0) != real.get(name, 0)]
    parts: list[str] = []
    if names:
        of_pods, of_template = (
            listed(amount(name, amounts.get(name, 0), up=True) for name in names) for amounts in (real, requests)
        )
        parts.append(f"ask for {of_pods}, their template for {of_template}")
    parts += _rest(addition.planned, addition.real)
    return f"its pods {'; they '.join(parts)}" if parts else ""


def _rest(pod_demand: PodDemand, real: PodDemand) -> Iterator[str]:
    yield from _changed("have the node selector", _pairs(pod_demand.node_selector), _pairs(real.node_selector))
    fewer = [toleration for toleration in pod_demand.tolerations if toleration not in real.tolerations]
    yield from _changed("tolerate", _taints(fewer), ())
    yield from _changed("take the host port", _ports(pod_demand.ports), _ports(real.ports))
    if pod_demand.affinity != real.affinity:
        yield "have another node affinity than their template"


def _changed(verb: str, declared: Sequence[str], real: Sequence[str]) -> Iterator[str]:
    if more := [item for item in real if item not in declared]:
        yield f"{verb} {listed(more)}, which their template does not say"
    if fewer := [item for item in declared if item not in real]:
        yield f"do not {verb} {listed(fewer)}, which their template says"


def _pairs(selector: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{key}={value}" for key, value in selector]


def _taints(tolerations: Sequence[Toleration]) -> list[str]:
    return [
        f"{toleration.key or 'every taint'}{f'={toleration.value}' if toleration.value else ''}"
        for toleration in tolerations
    ]


def _ports(ports: Sequence[HostPort]) -> list[str]:
    return [f"{port.port}/{port.protocol}" for port in ports]
