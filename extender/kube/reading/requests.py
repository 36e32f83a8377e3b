"""The requests of a pod, summed up as kube-scheduler does (component-helpers, ``PodRequests``)."""

from __future__ import annotations

from collections.abc import Iterable

from extender.kube.reading.objects import Amounts, Container, PodSpec, Resources
from extender.kube.reading.plain import plain
from extender.kube.reading.quantity import milli, whole
from policies.model import Requests

MOST = 1 << 55
"""The most that any amount counts for. No machine has as much (32 PiB), and sums over a node's pods stay within 64
bits.

The API server checks each amount, but not their sum, so users could ask for more.
"""


def requests_of(spec: PodSpec) -> Requests:
    """The requests of containers, init containers, sidecars, pod level and overhead, plus one of "pods".

    cpu is in millicores, everything else in its base unit; sorted by name, zeros left out, none above ``MOST``. Raises
    ValueError for an amount that is no quantity, or a negative one.
    """
    total = _containers(spec.containers or (), spec.init_containers or ())
    total |= _of_pod(spec.resources, total)
    _add(total, amounts_of(spec.overhead or {}))
    total["pods"] = 1
    return tuple(sorted((name, min(amount, MOST)) for name, amount in total.items() if amount))


def pod_level_of(spec: PodSpec) -> dict[str, int]:
    """The pod-level requests as the API server completes them from these containers. Raises ValueError."""
    return _of_pod(spec.resources, _containers(spec.containers or (), spec.init_containers or ()))


def fix_pod_level(spec: PodSpec, before: dict[str, int]) -> None:
    """Write the pod-level requests that the API server will write.

    Up to Kubernetes 1.36 it completes them when it decodes the pod, ``before`` a LimitRange adds to the containers.
    From 1.37 on it does so after all admission (feature gate PodLevelResourcesFixDefaulting). The larger amount holds
    the pod in both cases. Raises ValueError.
    """
    if spec.resources is None:
        return
    amounts = dict(before)
    _raise_to(amounts, pod_level_of(spec))
    requests: Amounts = {name: f"{much}m" if name == "cpu" else much for name, much in amounts.items()}
    spec.resources = Resources(requests=requests, limits=spec.resources.limits)


def amounts_of(amounts: Amounts) -> dict[str, int]:
    """Each amount as a whole number. Raises ValueError with the resource's name for one that is no quantity."""
    read = {}
    for name, amount in amounts.items():
        try:
            read[plain(name)] = number = milli(amount) if name == "cpu" else whole(amount)
            if number < 0:
                raise ValueError(f"{number} is negative")
        except ValueError as error:
            raise ValueError(f"{plain(name)[:80]}: {error}") from None
    return read


def _containers(containers: Iterable[Container], init_containers: Iterable[Container]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        _add(total, _amounts(container.resources))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        amounts = _amounts(container.resources)
        if container.restart_policy == "Always":
            # A sidecar keeps running beside the containers and beside every init container after it.
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _raise_to(peak, amounts)
    _raise_to(total, peak)
    return total


def _of_pod(resources: Resources | None, containers: dict[str, int]) -> dict[str, int]:
    """The pod-level requests, which replace the sum of the ``containers``.

    The API server completes them if the pod has a limit: by the containers if any asks for the resource, else by the
    limit. Huge pages cannot be overcommitted, so there the limit comes first.
    """
    if resources is None:
        return {}
    requests, limits = amounts_of(resources.requests or {}), amounts_of(resources.limits or {})
    huge = {name: much for name, much in limits.items() if name.startswith("hugepages-")}
    summed = limits | containers | huge if limits else {}
    return {name: much for name, much in (summed | requests).items() if _may_stand_on_a_pod(name)}


def _may_stand_on_a_pod(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _amounts(resources: Resources | None) -> dict[str, int]:
    """The amounts of a container. A limit replaces a missing request, as the API server defaults it."""
    if resources is None:
        return {}
    return amounts_of({**(resources.limits or {}), **(resources.requests or {})})


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
