"""Seeds whose pods have ResourceClaims: the second of every hundred millions.

Their nodes have devices by slices that appear, change and vanish. Everything about devices is drawn here. These
seeds have gangs and suspended jobs, and no queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import GANG_GATE, HOSTNAME, Dialect, GroupKey, GroupRef, Node, Pod, PodSet, Requests, Topology
from policies.model.devices import ClaimTemplate, ClaimUse, DeviceClaim
from tests.builders import node, requests
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.devices import (
    ANY,
    CHANNEL,
    CLASSES,
    DAEMONS,
    TEMPLATES,
    Thing,
    amounts_in,
    by_resource,
    listed,
    slice_of,
    spec_of,
    with_amounts,
)
from tests.simulation.model.job_specs import JobSpec, Role

ONE_CHANNEL: Requests = ((CHANNEL, 1),)
LOSES, LEAVES = "a driver publishes fewer devices", "a driver stops"


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """``kinds``: the devices of each node. ``shared``: claims that users make, and when. ``prepare_s``: how long a
    kubelet takes to prepare the devices of a pod. ``domains``: ComputeDomains, each with the name of a job."""

    kinds: dict[str, tuple[str, ...]]
    shared: tuple[tuple[float, DeviceClaim], ...] = ()
    prepare_s: float = 0.0
    domains: tuple[str, ...] = ()

    @property
    def things(self) -> tuple[Thing, ...]:
        """The classes, templates and slices that are there when the run begins."""
        made = [ClaimTemplate("default", name, spec_of(requested)) for name, requested in TEMPLATES.items()]
        made += [ClaimTemplate("default", f"{domain}-channel", spec_of(ONE_CHANNEL, domain)) for domain in self.domains]
        classes = (*CLASSES, DAEMONS) if self.domains else CLASSES
        return (*classes, *made, *(slice_of(name, kinds) for name, kinds in self.kinds.items()))


@dataclass(frozen=True, slots=True)
class DrawnClaims:
    """The nodes, workloads, devices and faults of a seed."""

    nodes: tuple[Node, ...]
    jobs: tuple[tuple[float, JobSpec], ...]
    batch: tuple[tuple[float, BatchJob], ...]
    claims: ClaimPlan
    faults: tuple[tuple[str, float, str, int], ...]
    """Each fault: its name, its time or its delay after a moment, the moment, and how many of these come first."""


def has_claims(seed: int) -> bool:
    """The seeds of the second of every hundred millions: no other seed is changed by them."""
    return seed // 1_000_000 % 100 == 1


def draw_claims(chance: Chance, *, calm: bool) -> DrawnClaims:
    dice, when = chance.stream("devices"), chance.stream("when drivers publish")
    kinds = {f"n{number:02}": _kinds(dice) for number in range(dice.randint(2, 6))}
    of_nvidia = chance.stream("compute domains")
    with_domains = of_nvidia.random() < 0.4
    if with_domains:
        kinds = {name: (*devices, "channel") for name, devices in kinds.items()}
    nodes = tuple(
        _listing(node(name, 0, cpu=len(devices) + 1, clique=f"c{at // 3}"), devices)
        for at, (name, devices) in enumerate(kinds.items())
    )
    jobs, shared = list[tuple[float, JobSpec]](), list[tuple[float, DeviceClaim]]()
    for number in range(dice.randint(2, 6)):
        at = dice.choice((0.0, 0.0, 60 * dice.random()))
        if not shared and dice.random() < 0.15:
            jobs.append((at, _sharing(dice, f"job{number}")))
            late = dice.choice((0.0, 0.0, 5 * dice.random()))
            claim = DeviceClaim("default", f"shared-job{number}", f"claim {number}", spec_of(((ANY, 1),)))
            shared.append((at + late, claim))
        else:
            jobs.append((at, _gang(dice, f"job{number}")))
    batch = tuple(
        (dice.choice((0.0, 40 * dice.random())), _batch(dice, f"batch{at}")) for at in range(dice.randint(0, 2))
    )
    faults = [
        (when.choice((LOSES, LEAVES)), 90 * when.random(), "", 0) for _ in range(0 if calm else when.choice((0, 1, 3)))
    ]
    # faults that fail a start after its claims were allocated
    faults += [
        (when.choice(("a node is cordoned", "a pod is deleted")), 0.0, "hold", 1 + int(12 * when.random()))
        for _ in range(0 if calm else when.choice((1, 3)))
    ]
    prepare_s = dice.choice((0.0, 0.0, 0.0, 540.0))
    domains = []
    if with_domains:
        for at, (when_s, spec) in enumerate(jobs):
            if len(spec.roles) == 1 and of_nvidia.random() < 0.7:
                domains.append(spec.name)
                jobs[at] = when_s, replace(spec, roles=(_with_channel(spec.roles[0], spec.name),))
    of_resource = chance.stream("extended resources")
    if of_resource.random() < 0.3:
        jobs = [(at, _by_resources(of_resource, spec)) for at, spec in jobs]
        batch = tuple((at, _made_by_resources(of_resource, job)) for at, job in batch)
    plan = ClaimPlan(kinds, tuple(shared), prepare_s, tuple(domains))
    return DrawnClaims(nodes, tuple(jobs), batch, plan, tuple(faults))


def _with_channel(role: Role, name: str) -> Role:
    """The same role with a channel of the domain of that name for each pod."""
    claims = (*role.claims, ClaimUse("channel", "", f"{name}-channel"))
    return replace(
        role, claims=claims, requests=with_amounts(role.requests, (*amounts_in(role.requests), *ONE_CHANNEL))
    )


def _by_resources(dice: Random, spec: JobSpec) -> JobSpec:
    """The job whose pods may ask for the extended resource in place of claims."""
    (first, *others), by = spec.roles, dice.random() < 0.6
    return replace(spec, roles=(replace(first, claims=_without_templates(first.claims)), *others)) if by else spec


def _made_by_resources(dice: Random, job: BatchJob) -> BatchJob:
    """The same for a suspended job."""
    if dice.random() >= 0.6:
        return job
    podsets = [
        replace(
            podset, template=replace(podset.template, device_claims=_without_templates(podset.template.device_claims))
        )
        for podset in job.podsets
    ]
    return replace(job, podsets=tuple(podsets))


def _without_templates(claims: Sequence[ClaimUse]) -> tuple[ClaimUse, ...]:
    """The uses, with the extended resource where a template asks for any devices."""
    return tuple(by_resource(use.template) if use.template in ("one", "two") else use for use in claims)


def _kinds(dice: Random) -> tuple[str, ...]:
    """Draw devices, small ones first: kube-scheduler takes the first that fit, so large ones are left for claims that
    need them."""
    return tuple(sorted((dice.choice(("large", "small")) for _ in range(dice.choice((1, 2, 4, 4)))), reverse=True))


def _listing(node: Node, kinds: Sequence[str]) -> Node:
    amounts = listed(slice_of(node.name, kinds))
    return replace(node, allocatable=with_amounts(node.allocatable, amounts))


def _asked(dice: Random) -> tuple[Requests, tuple[ClaimUse, ...]]:
    name = dice.choice(("one", "one", "two", "large", "both"))
    return with_amounts(requests(0), TEMPLATES[name]), (ClaimUse("devices", "", name),)


def _gang(dice: Random, name: str) -> JobSpec:
    size = dice.choice((1, 2, 2, 3, 4, 6))
    amounts, claims = _asked(dice)
    return JobSpec(
        name,
        (Role(size, amounts, claims=claims),),
        min_member=max(1, size - dice.choice((0, 0, 0, 1))),
        run_s=dice.choice((float("inf"), 5 + 55 * dice.random())),
        priority=dice.choice((0, 0, 10)),
        gates=(GANG_GATE,) if dice.random() < 0.7 else (),
        replaces=dice.random() < 0.9,
        indexed=dice.random() < 0.7,
        topology=dice.choice((Topology(),) * 3 + (Topology(required="clique"), Topology(preferred="clique"))),
    )


def _sharing(dice: Random, name: str) -> JobSpec:
    """A gang whose pods share a claim: its device is counted for the first pod, and all pods go to one node."""
    size, claims = dice.choice((2, 3)), (ClaimUse("devices", f"shared-{name}", ""),)
    first = Role(1, with_amounts(requests(0), ((ANY, 1),)), claims=claims)
    return JobSpec(
        name,
        (first, Role(size - 1, requests(0), claims=claims)),
        min_member=size,
        run_s=dice.choice((float("inf"), 5 + 55 * dice.random())),
        gates=(GANG_GATE,) if dice.random() < 0.7 else (),
        topology=Topology(required=HOSTNAME),
    )


def _batch(dice: Random, name: str) -> BatchJob:
    count = dice.choice((1, 2, 3, 4))
    key, uid = GroupKey("default", f"job-{name}"), f"{name}.1"
    amounts, claims = _asked(dice)
    group = GroupRef(key.name, Dialect.ANNOTATION, count)
    template = Pod("", "default", name, amounts, owner=uid, group=group, device_claims=claims)
    return BatchJob(
        key,
        uid,
        (PodSet(template, count, count, indexed=dice.random() < 0.7),),
        pins=dice.random() < 0.3,
        run_s=dice.choice((float("inf"), 5 + 55 * dice.random())),
        ttl_s=dice.choice((0.0, 20.0, float("inf"))),
    )
