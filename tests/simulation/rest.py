"""When nothing moves any more: whoever waits must wait for a reason, and whoever could run must run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from extender.core.effects import Evict, Nominate, PostBinding, Ungate
from extender.core.events import Event, GroupSeen, NodeSeen, PodSeen, Synced
from extender.core.invariants import told
from extender.core.steering import SteeringMode
from extender.simulate.world import World
from policies.matching import admits
from policies.model import CLIQUE, GANG_GATE, GroupKey, Pod, Requests
from tests.simulation.plan import Plan
from tests.simulation.referee import OURS, BrokenPromiseError, Referee
from tests.simulation.sight import Room, by_gang, fits, left_over, look, take

_ON_ITS_WAY = ("New", "Placed", "Holding", "Releasing", "Forgotten")


def judge_rest(world: World, referee: Referee, plan: Plan) -> None:
    """Raises BrokenPromiseError for the first thing that is not as it must be at rest."""
    for complaint in _complaints(world, referee, plan):
        raise BrokenPromiseError(f"at rest: {complaint}")


def _complaints(world: World, referee: Referee, plan: Plan) -> Iterator[str]:
    assert world.extender is not None
    assert world.scheduler is not None
    state = world.extender.core.state
    # What kube-scheduler refuses everywhere is planned again and again, and is never at rest.
    restless = dict.fromkeys(name for name, _ in plan.barred)
    for key in referee.partial:
        yield f"{key} is bound in part\n{told(state.gangs[key])}"
    for request in world.scheduler.binds:
        if request.pod.group is None or request.pod.group.name not in restless:
            yield f"the bind of {request.pod.name} is still held"
    truth = {uid: (pod.node, pod.phase) for uid, pod in world.api.pods.items()}
    known = {uid: (pod.node, pod.phase) for uid, pod in state.pods.items()}
    if truth != known:
        yield f"the extender knows {known}, but the pods are {truth}"
    room = left_over(world.api.nodes, world.api.pods.values())
    for pod in world.api.pods.values():
        idle = pod.scheduler == OURS and pod.live and not pod.node and not pod.gates
        if pod.group_key is None and idle and (nodes := [node for node in room if _takes(world, room, pod, node)]):
            yield f"pod {pod.name} waits, and has room on {nodes[0]}"
    if not restless:
        yield from _restart_complaints(world, plan)
    for key, pods in by_gang(world.api.pods.values()).items():
        yield from _gang_complaints(world, room, key, pods, plan)


def _restart_complaints(world: World, plan: Plan) -> Iterator[str]:
    """What the core knows is a function of the objects: one that begins with them now has nothing to do either."""
    assert world.extender is not None
    fresh, api, waiting = plan.core(), world.api, world.extender.core.state.waiting
    objects: list[Event] = [NodeSeen(node) for node in api.nodes.values()]
    objects += [GroupSeen(group) for group in api.groups.values()]
    objects += [PodSeen(pod) for pod in api.pods.values()]
    effects = [
        effect for event in (*objects, Synced(world.clock.now)) for effect in fresh.handle(event, world.clock.now)
    ]
    if fresh.state.waiting.keys() != waiting.keys():
        yield f"{[*waiting]} wait, and after a restart {[*fresh.state.waiting]} do"
    for effect in effects:
        # Nominations that are left over are cleared: the only thing that a restart may write.
        if isinstance(effect, PostBinding | Evict | Ungate) or (isinstance(effect, Nominate) and effect.node):
            yield f"a restart would have the consequence {effect}"


def _gang_complaints(world: World, room: Room, key: GroupKey, pods: Sequence[Pod], plan: Plan) -> Iterator[str]:
    assert world.extender is not None
    sight = look(pods, world.api.groups)
    waiting = [pod for pod in sight.waiting if set(pod.gates) <= {GANG_GATE}]
    restless = any(key.name == name for name, _ in plan.barred)
    for pod in waiting:
        if pod.nominated_node and not restless:
            yield f"{pod.name} waits, and is nominated for {pod.nominated_node}, where room is kept from others"
    if not waiting or any(pod.scheduler != OURS for pod in sight.live):
        return
    gang = world.extender.core.state.gangs.get(key)
    if gang is None:
        yield f"nobody knows the gang {key}"
        return
    whole = sight.needed is not None and sight.bound and not sight.partial
    if not whole and not restless and (gang.reason.code in _ON_ITS_WAY or not gang.reason.message):
        yield f"{key} waits for no reason: {gang.reason}\n{told(gang)}"
    unbound = [pod for pod in sight.live if not pod.node]
    if sight.needed is None or sight.count(sight.live) < sight.needed or not _agree(unbound):
        return
    if not whole and any(set(pod.gates) - {GANG_GATE} for pod in sight.live):
        return
    if restless and plan.steering is not SteeringMode.NOMINATE:
        # A pin is for ever: if kube-scheduler refuses its nodes for reasons of its own, only new pods help.
        return
    needed = 1 if whole else sight.needed - sight.count(sight.bound)
    if _placeable(world, room, waiting, sight.bound, plan) >= needed:
        yield f"{key} waits, and there is room for {needed} of its members\n{told(gang)}"


def _agree(pods: Iterable[Pod]) -> bool:
    """A gang whose members contradict each other is not started: one priority, one dialect, and one wish per shape."""
    facts: dict[object, None] = {}
    wishes: dict[object, dict[object, None]] = {}
    for pod in pods:
        facts[pod.priority, pod.group.dialect if pod.group else None] = None
        wishes.setdefault((pod.requests, pod.selection), {})[pod.topology] = None
    return len(facts) == 1 and all(len(said) == 1 for said in wishes.values())


def _placeable(world: World, room: Room, pods: Sequence[Pod], bound: Sequence[Pod], plan: Plan) -> int:
    """How many members find room at once, the largest first. What is barred to one member is left out for all."""
    open_nodes = [node for node in room if not any(plan.bars(pod, node) for pod in pods)]
    if pods[0].topology.required is None:
        return _placed(world, room, pods, open_nodes)
    clique = {name: node.labels.get(CLIQUE) for name, node in world.api.nodes.items()}
    taken = {clique.get(pod.node or "") for pod in bound}
    if len(taken) > 1:
        return 0
    within = taken or {name for name in clique.values() if name}
    counts = (_placed(world, room, pods, [node for node in open_nodes if clique[node] == one]) for one in within)
    return max(counts, default=0)


def _placed(world: World, room: Room, pods: Sequence[Pod], nodes: Collection[str]) -> int:
    left = {name: dict(room[name]) for name in nodes}
    count = 0
    for pod in sorted(pods, key=lambda pod: _bulk(pod.requests), reverse=True):
        node = next((name for name in left if _takes(world, left, pod, name)), None)
        if node is not None:
            take(left[node], pod.requests)
            count += 1
    return count


def _takes(world: World, room: Room, pod: Pod, node: str) -> bool:
    return admits(world.api.nodes[node], pod.selection) and fits(room[node], pod.requests)


def _bulk(requests: Requests) -> tuple[int, ...]:
    amounts = dict(requests)
    return (sum(amount for name, amount in requests if "/" in name), amounts.get("cpu", 0))
