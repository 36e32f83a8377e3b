"""Seeds with pods that have demands on others, and the demands: by dice of their own, so that no other draw shifts.

In them another scheduler, which knows nothing of these demands, binds pods beside the gangs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import CLIQUE, UNCONSTRAINED, Constraints, HostPort, Labels, Node, Requirement, Spread, Term
from tests.builders import GPU, node, requests
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.object_faults import bind_foreign
from tests.simulation.trouble import Trouble

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PORT = HostPort(29500)
MEMBERS, DATA = (Requirement("tier", "In", ("train",)),), (Requirement("app", "In", ("data",)),)
"""Selectors of the members of all gangs, and of the pods that some gangs want to be near."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The workloads of a seed, and the nodes. Instants are in seconds from the beginning of the run."""

    nodes: tuple[Node, ...]
    jobs: tuple[tuple[float, JobSpec], ...]
    batch: tuple[tuple[float, BatchJob], ...]


def has_relations(seed: int) -> bool:
    """Two seeds in eleven, but not those with hundreds of nodes."""
    return seed % 11 in (0, 9) and seed % 40 != 39


def relate(what: Submitted, chance: Chance) -> Submitted:
    """The same jobs, of which most demand something, and more single pods, on a few nodes more, all in zones."""
    dice = chance.stream("relations")
    more = [node(f"r{number:02}", 8, clique=f"r{number // 2}") for number in range(dice.choice((0, 2, 4)))]
    nodes = tuple(_in_zone(node, number, dice) for number, node in enumerate((*what.nodes, *more)))
    jobs = [(at, _related(job, dice)) for at, job in what.jobs]
    batch = [(at, _related_batch(job, dice)) for at, job in what.batch]
    there = [
        (dice.choice((0.0, 60 * dice.random(), 60 * dice.random())), _single(f"there{number}", dice))
        for number in range(dice.choice((1, 2, 3)))
    ]
    late = _late_data(chance.stream("gangs that wait for a data pod"))
    return Submitted(nodes, (*jobs, *there, *late), tuple(batch))


def takes_many_rounds(what: Submitted) -> bool:
    """Whether kube-scheduler may have to accept many members of a gang one after the other."""
    sets = [(role.replicas, role.constraints) for _, job in what.jobs for role in job.roles]
    sets += [(podset.count, podset.template.constraints) for _, job in what.batch for podset in job.podsets]
    return any(size > 16 and constraints.spread for size, constraints in sets)


def strikes(chance: Chance, *, calm: bool) -> list[tuple[str, float]]:
    """The faults of pods with relations, and when."""
    dice = chance.stream("when for relations")
    count = 0 if calm else dice.choice((0, 1, 3))
    return [(dice.choice(list(RELATION_FAULTS)), 90 * dice.random()) for _ in range(count)]


def _in_zone(node: Node, number: int, dice: Random) -> Node:
    """The node with its zone; some nodes have none."""
    if dice.random() < 0.1:
        return node
    return replace(node, labels={**node.labels, ZONE: f"z{number % 2}"})


def _related(job: JobSpec, dice: Random) -> JobSpec:
    if not job.min_member:
        return replace(job, roles=tuple(_as_single(role, dice) for role in job.roles))
    labels, constraints, small = _labels(job.name), _demand(job.name, dice), dice.random() < 0.7
    first, *others = job.roles
    roles = [replace(_shrunk(first, dice) if small else first, labels=labels, constraints=constraints)]
    roles += [replace(role, labels=labels, constraints=dice.choice((constraints, UNCONSTRAINED))) for role in others]
    return replace(job, roles=tuple(roles))


def _shrunk(role: Role, dice: Random) -> Role:
    """Members that do not fill a node: then it is not room alone that decides."""
    gpus = dict(role.requests).get(GPU, 0)
    return replace(role, requests=requests(min(gpus, dice.choice((1, 2, 4)))))


def _related_batch(job: BatchJob, dice: Random) -> BatchJob:
    labels, constraints = _labels(job.key.name), _demand(job.key.name, dice)
    podsets = [
        replace(
            podset,
            template=replace(
                podset.template, labels=labels, constraints=dice.choice((constraints, constraints, UNCONSTRAINED))
            ),
        )
        for podset in job.podsets
    ]
    return replace(job, podsets=tuple(podsets))


def _single(name: str, dice: Random) -> JobSpec:
    role = _as_single(Role(1, requests(0)), dice)
    run_s = dice.choice((float("inf"), 5 + 40 * dice.random()))
    return JobSpec(name, (role,), run_s=run_s, replaces=False)


def _late_data(dice: Random) -> list[tuple[float, JobSpec]]:
    """In some seeds a gang waits for a pod that comes some time later, when little else happens."""
    if dice.random() < 0.7:
        return []
    constraints = Constraints(affinity=(_term(dice.choice((HOST, ZONE)), DATA),))
    role = Role(2, requests(0), labels=_labels("waits"), constraints=constraints)
    gang = JobSpec("waits", (role,), min_member=2, run_s=float("inf"))
    data = JobSpec("data", (Role(1, requests(0), labels=(("app", "data"),)),), run_s=float("inf"), replaces=False)
    return [(0.0, gang), (5 + 20 * dice.random(), data)]


def _labels(name: str) -> Labels:
    return ("app", name), ("tier", "train")


def _as_single(role: Role, dice: Random) -> Role:
    """A single pod that gangs may want to be near, or keep away from, or may not go beside."""
    demand = dice.choice(
        (
            UNCONSTRAINED,
            UNCONSTRAINED,
            Constraints(ports=(PORT,)),
            Constraints(anti_affinity=(_term(dice.choice((HOST, CLIQUE)), MEMBERS),)),
            Constraints(anti_affinity=(_term(HOST, DATA),)),
        )
    )
    labels: Labels = dice.choice(((), (("app", "data"),), (("app", "data"),), (("tier", "train"),)))
    return replace(role, labels=labels, constraints=demand)


def _demand(name: str, dice: Random) -> Constraints:
    """The demands of the members of one gang: on each other, on the members of all gangs, or on single pods."""
    own = (Requirement("app", "In", (name,)),)
    those = dice.choice((own, own, MEMBERS, (Requirement("tier", "Exists", ()),)))
    ports = Constraints(ports=(dice.choice((PORT, PORT, HostPort(29500, address="10.0.0.1"))),))
    apart = Constraints(anti_affinity=(_term(dice.choice((HOST, HOST, CLIQUE, ZONE)), those),))
    near = Constraints(affinity=(_term(dice.choice((ZONE, CLIQUE, HOST)), own),))
    near_data = Constraints(affinity=(_term(dice.choice((ZONE, HOST, CLIQUE)), DATA),))
    level = Spread(
        dice.choice((HOST, HOST, CLIQUE, ZONE)),
        dice.choice((1, 1, 2)),
        those,
        dice.choice((1, 1, 1, 2, 3)),
        honors_taints=dice.random() < 0.3,
    )
    evenly = Constraints(spread=(level,))
    both = dice.choice((replace(evenly, ports=ports.ports), replace(evenly, affinity=near_data.affinity)))
    return dice.choice((UNCONSTRAINED, UNCONSTRAINED, ports, apart, near, near_data, near_data, evenly, evenly, both))


def _term(key: str, selector: tuple[Requirement, ...]) -> Term:
    return Term(key, selector, ("default",))


_MEMBERS = (Requirement("tier", "In", ("train",)),)


def foreign_port(trouble: Trouble) -> None:
    bind_foreign(trouble, constraints=Constraints(ports=(HostPort(29500),)))


def foreign_aversion(trouble: Trouble) -> None:
    apart = Term("kubernetes.io/hostname", _MEMBERS, ("default",))
    bind_foreign(trouble, constraints=Constraints(anti_affinity=(apart,)))


def foreign_data(trouble: Trouble) -> None:
    bind_foreign(trouble, labels=(("app", "data"),))


def foreign_member(trouble: Trouble) -> None:
    """Bind a pod that counts for the spread of gangs, and for pods that keep away from them."""
    bind_foreign(trouble, labels=(("tier", "train"),))


RELATION_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "a foreign pod takes a port": foreign_port,
    "a foreign pod keeps members away": foreign_aversion,
    "a foreign data pod is bound": foreign_data,
    "a foreign pod counts as a member": foreign_member,
}
