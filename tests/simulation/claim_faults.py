"""Faults of devices: drivers that publish fewer, or stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from policies.model.devices import Slice
from tests.simulation.claim_plan import LEAVES, LOSES
from tests.simulation.model.devices import listed, uid_of, with_amounts
from tests.simulation.model.world import World
from tests.simulation.trouble import Trouble


def lose_devices(trouble: Trouble) -> None:
    """A driver publishes one device less, and all of them again some time later."""
    published = _some_slice(trouble)
    if published is not None and published.devices:
        fewer = replace(published, generation=published.generation + 1, devices=published.devices[:-1])
        publish(trouble.world, fewer)
        trouble.later(lambda: publish(trouble.world, replace(published, generation=fewer.generation + 1)), 30.0)


def stop_driver(trouble: Trouble) -> None:
    """Remove the slice of a node, and publish it again some time later."""
    published = _some_slice(trouble)
    if published is not None:
        trouble.world.api.remove_thing(uid_of(published))
        _list(trouble.world, published.name, None)
        trouble.later(lambda: publish(trouble.world, published), 30.0)


def publish(world: World, published: Slice) -> None:
    """Publish a slice, and have its node list the same in amounts."""
    world.api.set_thing(published)
    _list(world, published.name, published)


def _list(world: World, name: str, published: Slice | None) -> None:
    if (node := world.api.nodes.get(name)) is not None:
        world.api.set_node(replace(node, allocatable=with_amounts(node.allocatable, listed(published))))


def _some_slice(trouble: Trouble) -> Slice | None:
    return trouble.some([thing for thing in trouble.world.api.things.values() if isinstance(thing, Slice)])


CLAIM_FAULTS: dict[str, Callable[[Trouble], None]] = {LOSES: lose_devices, LEAVES: stop_driver}
