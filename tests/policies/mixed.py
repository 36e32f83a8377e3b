"""Random small clusters, and gangs of one to three roles that just fit or just do not: all of it from one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.core.ledger.claims import Claims
from policies.model import (
    UNCONSTRAINED,
    Constraints,
    HostPort,
    Node,
    Pod,
    Requirement,
    Selection,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
    Topology,
)
from policies.model.levels import levels_from
from policies.placement.snapshot import Snapshot
from tests.builders import gang, node, requests, single
from tests.policies.filters import There, lets_in

LEVELS = ("rack", "block")
KEYS = tuple(f"example.com/{name}" for name in LEVELS)
HOST = "kubernetes.io/hostname"
ELSEWHERE = "other"
"""A namespace beside that of the gang."""
TIER = ("tier", "gold")
"""The label of that namespace."""
GOLD: Selector = (Requirement(TIER[0], "In", (TIER[1],)),)
TRAIN: Selector = (Requirement("app", "In", ("train",)),)
DATA: Selector = (Requirement("app", "In", ("data",)),)


@dataclass(frozen=True)
class Mixed:
    """``there``: the pods that are on nodes. ``roles``: the members by role; ``needed`` of all have to start."""

    seed: int
    nodes: list[Node]
    there: There
    roles: list[list[Pod]]
    needed: int

    @property
    def pods(self) -> list[Pod]:
        return [pod for role in self.roles for pod in role]

    @property
    def related(self) -> bool:
        """Whether any pod has demands on other pods."""
        return any(pod.constraints for pod in (*self.pods, *(pod for pod, _ in self.there)))

    def snapshot(self, nodes: Sequence[Node] | None = None, there: Sequence[Pod] | None = None) -> Snapshot:
        """The snapshot that a policy sees; in the order of ``nodes`` and ``there`` where they are given."""
        claims = Claims(levels_from(f"{name}={key}" for name, key in zip(LEVELS, KEYS, strict=True)))
        for host in self.nodes if nodes is None else nodes:
            claims.set_node(host)
        for pod in [pod for pod, _ in self.there] if there is None else there:
            claims.confirm(pod)
        claims.tenants.describe(ELSEWHERE, (TIER,))
        return claims.snapshot()

    def told(self) -> str:
        """The gang in words."""
        texts = []
        for role in self.roles:
            amounts = ", ".join(f"{amount} {name}" for name, amount in role[0].requests)
            texts.append(f"{len(role)} x {amounts} ({role[0].topology}) {role[0].constraints or ''}")
        return f"{self.needed} of " + " + ".join(texts)


def mixed(seed: int) -> Mixed:
    """Every second one demands something of other pods, and is smaller: there are many more ways to place it."""
    chance, related = Random(seed), seed % 2 == 1
    # The dice are its own, so that all other draws stay the same.
    more = Random(f"more {seed}")
    nodes = _nodes(chance, related=related)
    if related:
        nodes = [_tight(more, host) for host in nodes]
    there: There = []
    for number in range(chance.randint(0, 3)):
        constraints = _constraints(chance) if related else UNCONSTRAINED
        pod, where = _shape(chance, f"there-{number}", constraints), chance.choice(nodes)
        if related:
            pod = replace(_picky(more, pod), namespace=ELSEWHERE if more.random() < 0.2 else pod.namespace)
        if lets_in(pod, where, nodes, there):
            there.append((replace(pod, node=where.name, deleting=chance.random() < 0.2), where))
    shapes = []
    for number in range(chance.choice([1, 2, 2, 3])):
        constraints = _constraints(chance) if related else UNCONSTRAINED
        shape = replace(_shape(chance, f"role{number}", constraints), topology=_topology(chance))
        shapes.append(_layered(more, _picky(more, shape)) if related else shape)
    if related and chance.random() < 0.4:
        # Slices that have to come one member of each at a time are not met by chance.
        units = [unit_of(shape) for shape in shapes]
        sizes = [max(unit, chance.randint(1, 7 // len(shapes)) // unit * unit) for unit in units]
    else:
        sizes = _sizes(chance, shapes, nodes, there, 7 if related else 12)
    roles = [_members(shape, size) for shape, size in zip(shapes, sizes, strict=True) if size]
    size = sum(sizes)
    return Mixed(seed, nodes, there, roles, size if chance.random() < 0.8 else chance.randint(1, size))


def unit_of(pod: Pod) -> int:
    """How many members its largest slices have."""
    topology = pod.topology
    return topology.around[-1][0] if topology.around else topology.slice_size or 1


def _tight(more: Random, one: Node) -> Node:
    """Let some nodes take few pods, whatever these request."""
    if more.random() > 0.2:
        return one
    return replace(one, allocatable=tuple(sorted({**dict(one.allocatable), "pods": more.randint(1, 3)}.items())))


def _picky(more: Random, pod: Pod) -> Pod:
    """Let some pods tolerate the taint, some have node affinity, and some select pods of other namespaces."""
    selection, constraints = pod.selection, pod.constraints
    if more.random() < 0.2:
        selection = replace(selection, tolerations=(Toleration("dedicated", "Exists", "", ""),))
    if more.random() < 0.1:
        wanted = Requirement(KEYS[0], more.choice(["In", "NotIn"]), tuple(more.sample(["r0", "r1", "r2"], 2)))
        selection = replace(selection, affinity=((wanted,),))
    if more.random() < 0.2:
        names, elsewhere = more.choice([((), GOLD), (("default", ELSEWHERE), None), ((), ())])
        near, apart = (
            tuple(term._replace(namespaces=names, elsewhere=elsewhere) for term in terms)
            for terms in (constraints.affinity, constraints.anti_affinity)
        )
        constraints = replace(constraints, affinity=near, anti_affinity=apart)
    return replace(pod, selection=selection, constraints=constraints)


def _layered(more: Random, pod: Pod) -> Pod:
    """Let some slices of two in a rack make slices of four in a block."""
    topology = pod.topology
    if topology.slice_size != 2 or topology.slice_level == "block" or more.random() < 0.7:
        return pod
    return replace(pod, topology=topology._replace(slice_level="rack", around=((4, "block"),)))


def _members(shape: Pod, size: int) -> list[Pod]:
    facts = {"selection": shape.selection, "topology": shape.topology, "constraints": shape.constraints}
    pods = gang(shape.name, size, series=shape.name, labels=shape.labels, **facts)  # type: ignore[arg-type]
    return [replace(pod, requests=shape.requests) for pod in pods]


def _sizes(chance: Random, shapes: list[Pod], nodes: list[Node], there: There, most: int) -> list[int]:
    """How many of each: as many as find room one after the other wherever chance puts them, and at times one more."""
    sizes, now = [0] * len(shapes), list(there)
    home = chance.choice(nodes).labels
    for _ in range(3 * most):
        number = chance.randrange(len(shapes))
        shape = shapes[number]
        topology = shape.topology
        inside = {KEYS[LEVELS.index(topology.required)]} if topology.required in LEVELS else set()
        inside |= {KEYS[LEVELS.index(topology.slice_level or LEVELS[0])]} if topology.slice_size else set()
        near = home if topology.required in LEVELS else chance.choice(nodes).labels
        seated = list(now)
        unit = unit_of(shape)
        for _ in range(unit):
            open_to = [host for host in nodes if all(host.labels.get(key, "") == near.get(key) for key in inside)]
            open_to = [host for host in open_to if lets_in(shape, host, nodes, seated)]
            if not open_to:
                break
            seated.append((replace(shape, uid=f"{number}-{len(seated)}"), chance.choice(open_to)))
        else:
            if sum(sizes) + unit <= most:
                now = seated
                sizes[number] += unit
    # A larger slice that lacks members would have to lack whole smaller ones.
    steps = [unit_of(shape) if shape.topology.around else 1 for shape in shapes]
    sizes = [size or step * (chance.random() < 0.3) for size, step in zip(sizes, steps, strict=True)]
    if chance.random() < 0.25 or not any(sizes):
        number = chance.randrange(len(shapes))
        sizes[number] += steps[number]
    return sizes


def _nodes(chance: Random, *, related: bool) -> list[Node]:
    count = chance.randint(1, 6) if related else chance.randint(2, 7)
    per_rack, per_block = chance.choice([1, 2, 4]), chance.choice([1, 2])
    unlabelled = chance.choice([0.0, 0.0, 0.1])
    nodes = []
    for number in range(count):
        rack = number // per_rack
        domains = (f"r{rack}", f"b{rack // per_block}")
        labels = {key: name for key, name in zip(KEYS, domains, strict=True) if chance.random() >= unlabelled}
        taints = (Taint("dedicated", "x", "NoSchedule"),) if chance.random() < 0.07 else ()
        gpus, cpu = chance.choice([(1, 4), (2, 4), (4, 8)] if related else [(2, 8), (4, 8), (8, 8), (4, 16)])
        nodes.append(node(f"n{number}", gpus, cpu=cpu, labels=labels, taints=taints))
    chance.shuffle(nodes)
    return nodes


def _shape(chance: Random, name: str, asked: Constraints) -> Pod:
    labels = (("app", chance.choice(["train", "data"])),)
    bound = chance.random() < 0.1
    selection = Selection(node_selector=((KEYS[1], chance.choice(["b0", "b1"])),)) if bound else Selection()
    gpus, cpu = chance.choice([0, 1, 1, 2, 4]), chance.choice([1, 1, 2, 3, 5])
    return replace(single(name, labels=labels, selection=selection, constraints=asked), requests=requests(gpus, cpu))


def _topology(chance: Random) -> Topology:
    required = chance.choice([None, None, None, "none", "rack", "block"])
    if chance.random() < 0.3:
        return Topology(required, None, chance.choice([2, 2, 3]), chance.choice([None, "rack", "block"]))
    return Topology(required, chance.choice([None, None, "none", "block"]))


def _constraints(chance: Random) -> Constraints:
    def some(likely: float) -> bool:
        return chance.random() < likely

    def selector() -> Selector:
        return chance.choice([TRAIN, DATA, TRAIN, DATA, (Requirement("app", "NotIn", ("data",)),), (), None])

    def terms(likely: float) -> tuple[Term, ...]:
        return tuple(Term(key, selector(), ("default",)) for key in (HOST, *KEYS) if some(likely))

    if some(0.5):
        return _one(chance)
    spread = tuple(
        Spread(key, chance.choice([1, 1, 2]), selector(), chance.choice([1, 1, 2, 3]), some(0.7), some(0.3))
        for key in (HOST, *KEYS)
        if some(0.15)
    )
    ports = tuple(HostPort(80, "TCP", chance.choice(["0.0.0.0", "10.0.0.1"])) for _ in range(some(0.15)))  # noqa: S104
    return Constraints(ports, terms(0.1), terms(0.1), spread)


def _one(chance: Random) -> Constraints:
    """The demands of one pod, at most one of each kind, as people write them."""
    key, selector = chance.choice([HOST, *KEYS]), chance.choice([TRAIN, DATA])
    terms = (Term(key, selector, ("default",)),)
    spread = (Spread(key, chance.choice([1, 1, 2]), selector, honors_affinity=True, honors_taints=False),)
    near = (Term(chance.choice(KEYS), selector, ("default",)),)
    return chance.choice(
        [
            Constraints(spread=spread),
            Constraints(spread=spread, affinity=near),
            Constraints(anti_affinity=terms),
            Constraints(affinity=terms),
            UNCONSTRAINED,
        ]
    )
