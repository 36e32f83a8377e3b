"""Why there is no quota for a workload: what is asked, what is left, and whom it could wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extender.core.quota.own_use import still_counted
from extender.core.state import State
from extender.core.workload import Workload
from policies.model.mentions import Mention, mentioned
from policies.model.queues import VOLCANO, ClusterQueue, FlavorResource, Quota, ResourceGroup
from policies.quota.parts import PodSetRequest
from policies.quota.suiting import unsuited
from policies.words import amount

_NAMED = 3


def shortage(
    state: State,
    workload: Workload,
    queue: ClusterQueue,
    podsets: Sequence[PodSetRequest],
    refused: Mapping[tuple[str, str], str],
    last: str,
) -> str:
    """Say what is short flavor by flavor, for the podsets of a workload together. ``refused``: by podset and flavor,
    why its nodes will not do. ``last``: why those of the flavors that were tried last will not, where each podset alone
    finds one."""
    told: dict[str, None] = {}
    for group in queue.groups:
        for podset in podsets:
            told.update(dict.fromkeys(_of_group(state, workload, queue, group, podset, podsets, refused)))
    return f"{queue.title}: {'; '.join([*told][:8]) or last}"


def _of_group(
    state: State,
    workload: Workload,
    queue: ClusterQueue,
    group: ResourceGroup,
    podset: PodSetRequest,
    podsets: Sequence[PodSetRequest],
    refused: Mapping[tuple[str, str], str],
) -> Iterator[str]:
    """Nothing where some flavor has all that the podsets ask for of it, and nodes."""
    total: dict[str, int] = {}
    for one in podsets:
        for name in group.limited():
            total[name] = total.get(name, 0) + one.requests.get(name, 0)
    found: list[str] = []
    for name, limits in group.flavors:
        flavor = state.quotas.queues.picture.flavors.get(name)
        if flavor is not None and (why := refused.get((podset.name, name))):
            found.append(f"flavor {name}: {why}")
        elif flavor is not None and (why := unsuited(flavor, podset.selection)):
            found.append(f"flavor {name}: its pods do not go to nodes of that flavor: {why}")
        else:
            short = [*_short(state, workload, queue, name, limits, total)]
            if not short and any(total.values()):
                return
            found += short
    yield from found


def _short(
    state: State,
    workload: Workload,
    queue: ClusterQueue,
    flavor: str,
    limits: Mapping[str, Quota],
    total: Mapping[str, int],
) -> Iterator[str]:
    node = state.quotas.node_of(queue.name)
    for resource, much in total.items():
        what = flavor, resource
        if not much or node is None:
            continue
        asked = f"it asks for {amount(resource, much, up=True)}"
        if not flavor.startswith(VOLCANO):
            asked += f" of flavor {flavor}"
        if resource not in limits:
            yield f"{asked}, of which the queue has no quota"
        elif much > (most := node.potential(what)):
            yield f"{asked}, and the queue can have {amount(resource, most)} at most"
        elif much > (left := max(0, node.left(what))):
            there = f"{_number(resource, left)} of {amount(resource, most)} {'is' if left == 1 else 'are'} left"
            yield f"{asked}, and {there}{_users(state, workload, queue, what)}{still_counted(state, workload, what)}"


def _users(state: State, workload: Workload, queue: ClusterQueue, what: FlavorResource) -> str:
    """The others that use most of it: when they end it comes free."""
    users = sorted(state.quotas.uses.users(what, queue.name).items(), key=lambda one: (-one[1], one[0]))
    named = [Mention(key.namespace, f"{key} ({_number(what[1], much)})") for key, much in users if key != workload.key]
    return f"; it is used by {mentioned(named, _NAMED)}" if named else ""


def _number(resource: str, much: int) -> str:
    """Without the name of the resource, which was said."""
    return amount(resource, much).removesuffix(f" {resource}")
