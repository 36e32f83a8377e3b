"""What LimitRanges make of the containers of a template, and which of them the API server would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from extender.kube.reading.objects import Amounts, Container, Meta, PodSpec, Resources
from extender.kube.reading.requests import amounts_of, requests_of
from policies.words import amount


class LimitItem(Struct, rename="camel"):
    """``type``: for each Container, or for a Pod as a whole."""

    type: str | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max: Amounts | None = None
    min: Amounts | None = None


class LimitSpec(Struct):
    limits: list[LimitItem] | None = None


class LimitRange(Struct):
    metadata: Meta | None = None
    spec: LimitSpec | None = None


def limits_of(ranges: Iterable[LimitRange]) -> dict[str, tuple[LimitItem, ...]]:
    """By namespace, what LimitRanges say of containers and pods."""
    found: dict[str, tuple[LimitItem, ...]] = {}
    for one in sorted(ranges, key=lambda one: (one.metadata and one.metadata.name) or ""):
        namespace = (one.metadata and one.metadata.namespace) or ""
        items = tuple(item for item in (one.spec and one.spec.limits) or () if item.type in ("Container", "Pod"))
        found[namespace] = (*found.get(namespace, ()), *items)
    return found


def default(spec: PodSpec, items: Sequence[LimitItem]) -> None:
    """Write into the containers what is said of those that say nothing."""
    for container in _containers(spec):
        for item in items:
            if item.type == "Container":
                _default(container, item)


def refused(spec: PodSpec, items: Sequence[LimitItem]) -> str:
    """Why the API server makes no such pod, after ``default``, and before the overhead is known; empty if it does.
    Amounts that cannot be read are for others to tell."""
    try:
        return next(_refusals(spec, items), "")
    except ValueError:
        return ""


def _containers(spec: PodSpec) -> list[Container]:
    return [*(spec.containers or ()), *(spec.init_containers or ())]


def _default(container: Container, limit: LimitItem) -> None:
    """A request that is not there is the container's own limit first, then what the LimitRange says."""
    said = container.resources or Resources()
    requests = {**(limit.default_request or {}), **(said.limits or {}), **(said.requests or {})}
    container.resources = Resources(requests=requests, limits={**(limit.default or {}), **(said.limits or {})})


def _refusals(spec: PodSpec, items: Sequence[LimitItem]) -> Iterator[str]:
    for container in _containers(spec):
        said = container.resources or Resources()
        requests, limits = amounts_of(said.requests or {}), amounts_of(said.limits or {})
        for name, much in requests.items():
            if much > limits.get(name, much):
                asks, limit = amount(name, much, up=True), amount(name, limits[name])
                yield f"a container asks for {asks}, and its limit is {limit}"
        for item in items:
            if item.type == "Container":
                most = {name: max(much, limits.get(name, much)) for name, much in {**limits, **requests}.items()}
                yield from _beyond("container", item, most, requests)
    for item in items:
        if item.type == "Pod":
            total = dict(requests_of(spec))
            yield from _beyond("pod", item, total, total)


def _beyond(what: str, item: LimitItem, most: Mapping[str, int], least: Mapping[str, int]) -> Iterator[str]:
    for name, limit in amounts_of(item.max or {}).items():
        if (much := most.get(name, 0)) > limit:
            has = f"a {what} is to have {amount(name, much, up=True)}"
            yield f"{has}, and a LimitRange lets it have {amount(name, limit)} at most"
    for name, limit in amounts_of(item.min or {}).items():
        if (much := least.get(name, limit)) < limit:
            asks = f"a {what} asks for {amount(name, much)}"
            yield f"{asks}, and a LimitRange has it ask for {amount(name, limit, up=True)} at least"
