"""Faults of real nodes: device plugins and kubelets restart, and statuses flap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.trouble import Trouble


def restart_plugin(trouble: Trouble) -> None:
    """The devices of a node are 0 for a while, and pods that have them run on."""
    _without_plugin(trouble, forgotten=False)


def restart_kubelet(trouble: Trouble) -> None:
    """The node lists nothing of its devices until their plugins have registered again."""
    _without_plugin(trouble, forgotten=True)


def _without_plugin(trouble: Trouble, *, forgotten: bool) -> None:
    one, plugins = trouble.some_node(), trouble.world.plugins
    if one is not None:
        plugins.stop(one.name, forgotten=forgotten)
        trouble.later(lambda: plugins.start(one.name), 20.0)


def flap(trouble: Trouble) -> None:
    """A node is not Ready for some seconds, and again, and its pods run on."""
    one, dice, at_s = trouble.some_node(), trouble.random, 0.0
    if one is None:
        return
    name = one.name
    for ready in (False, True) * dice.choice((1, 2, 3)):
        trouble.world.clock.after(at_s, lambda ready=ready: _set_ready(trouble, name, ready=ready))  # type: ignore[misc]
        at_s += dice.choice((0.1, 2.0, 8.0)) * dice.random()


def _set_ready(trouble: Trouble, name: str, *, ready: bool) -> None:
    api = trouble.world.api
    if name in api.nodes and (ready or not trouble.healed):
        api.set_node(replace(api.nodes[name], ready=ready))


def send_heartbeats(trouble: Trouble) -> None:
    """All kubelets write the statuses of their nodes, in which nothing has changed but the time."""
    for one in list(trouble.world.api.nodes.values()):
        trouble.world.api.set_node(one)


PLATFORM_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "a device plugin restarts": restart_plugin,
    "a kubelet restarts": restart_kubelet,
    "a node's Ready flaps": flap,
    "kubelets send heartbeats": send_heartbeats,
}
