"""What a pod asks of a node, summed up as kube-scheduler does it (component-helpers, ``PodRequests``)."""

from __future__ import annotations

from collections.abc import Iterable

from extender.kube.reading.objects import Amounts, Container, PodSpec, Resources
from extender.kube.reading.plain import plain
from extender.kube.reading.quantity import milli, whole
from policies.model import Requests

MOST = 1 << 55
"""What any amount is taken for that is larger. No machine has so much (32 PiB), and the sums over the pods of a node
stay within 64 bits, whatever their authors ask for: the API server checks each amount, and not what they come to."""


def requests_of(spec: PodSpec) -> Requests:
    """Containers, init containers, sidecars, pod-level resources and overhead, plus one of "pods".

    cpu in millicores, everything else in its base unit, sorted by name, zeros left out, none above ``MOST``. Raises
    ValueError for an amount that is not a quantity, or a negative one.
    """
    total = _containers(spec.containers or (), spec.init_containers or ())
    for name, amount in _amounts(spec.resources).items():
        # Only these can be set on a pod; they then stand for the sum of its containers.
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = amount
    _add(total, amounts_of(spec.overhead or {}))
    total["pods"] = 1
    return tuple(sorted((name, min(amount, MOST)) for name, amount in total.items() if amount))


def amounts_of(amounts: Amounts) -> dict[str, int]:
    """Each amount as a whole number. Raises ValueError with the resource's name for one that is not a quantity."""
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
        asked = _amounts(container.resources)
        if container.restart_policy == "Always":
            # A sidecar keeps running beside the containers and beside every init container after it.
            _add(total, asked)
            _add(sidecars, asked)
            asked = sidecars
        else:
            _add(asked, sidecars)
        _raise_to(peak, asked)
    _raise_to(total, peak)
    return total


def _amounts(resources: Resources | None) -> dict[str, int]:
    """A limit stands for a missing request, as the API server defaults it."""
    if resources is None:
        return {}
    return amounts_of({**(resources.limits or {}), **(resources.requests or {})})


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
