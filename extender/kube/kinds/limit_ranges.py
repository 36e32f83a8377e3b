"""What LimitRanges make of the containers of a template, and which of them the API server would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from extender.kube.reading.objects import Amounts, Container, Meta, PodSpec, Resources
from extender.kube.reading.quantity import milli
from extender.kube.reading.requests import amounts_of, requests_of
from policies.words import amount


class LimitItem(Struct, rename="camel"):
    """``type``: for each Container, or for a Pod as a whole."""

    type: str | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max: Amounts | None = None
    min: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


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
                yield from _beyond("container", item, requests, limits)
    for item in items:
        if item.type == "Pod":
            yield from _beyond("pod", item, dict(requests_of(spec)), _limits_of(spec))


def _limits_of(spec: PodSpec) -> dict[str, int]:
    """Of the pod as a whole, where anybody in it has a limit, which may be 0."""

    def alone(said: Resources | None) -> Resources | None:
        return said and Resources(requests=said.limits)

    def of_all(containers: list[Container] | None) -> list[Container]:
        return [replace(one, resources=alone(one.resources)) for one in containers or ()]

    said = [one.resources for one in _containers(spec)] + [spec.resources]
    named = dict.fromkeys((name for one in said for name in (one and one.limits) or ()), 0)
    limited = replace(
        spec,
        containers=of_all(spec.containers),
        init_containers=of_all(spec.init_containers),
        resources=alone(spec.resources),
        overhead=None,
    )
    return named | dict(requests_of(limited))


def _beyond(what: str, item: LimitItem, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[str]:
    for name, limit in amounts_of(item.max or {}).items():
        lets = f"and a LimitRange lets it have {amount(name, limit)} at most"
        if name not in limits and what == "pod":
            yield f"a {what} has no limit of {name}, {lets}"
        if (much := max(requests.get(name, 0), limits.get(name, 0))) > limit:
            yield f"a {what} is to have {amount(name, much, up=True)}, {lets}"
    for name, limit in amounts_of(item.min or {}).items():
        demands = f"and a LimitRange has it ask for {amount(name, limit, up=True)} at least"
        if name not in requests and what == "pod":
            yield f"a {what} asks for no {name}, {demands}"
        if (much := requests.get(name, limit)) < limit:
            yield f"a {what} asks for {amount(name, much)}, {demands}"
    for name, ratio in (item.max_limit_request_ratio or {}).items():
        asks, most = requests.get(name, 0), limits.get(name, 0)
        if not asks or not most:
            yield f"a {what} needs a request and a limit of {name}, of which a LimitRange limits the ratio to {ratio}"
        elif most * 1000 > asks * milli(ratio):
            yield (
                f"a {what} asks for {amount(name, asks)} and its limit is {amount(name, most)}, and a LimitRange lets "
                f"it be {ratio} times as much at most"
            )
