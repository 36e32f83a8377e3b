"""Seeds whose pods have ResourceClaims: the second of every hundred millions.

Their nodes have devices by slices that appear, change and vanish. Everything about devices is drawn here. These
seeds have gangs and suspended jobs, and no queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import GANG_GATE, HOSTNAME, Dialect, GroupKey, GroupRef, Node, Pod, PodSet, Requests, Topology
from policies.model.devices import ClaimTemplate, ClaimUse, DeviceClaim
from tests.builders import node, requests
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.devices import (
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
    kubelet takes to prepare the devices of a pod. ``domains``: ComputeDomains, each with the name of a job.
    ``restless``: gangs that kube-scheduler may refuse, because it alone counts what parts of a device exclude."""

    kinds: dict[str, tuple[str, ...]]
    shared: tuple[tuple[float, DeviceClaim], ...] = ()
    prepare_s: float = 0.0
    domains: tuple[str, ...] = ()
    restless: tuple[str, ...] = ()

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
    dice = chance.stream("devices")
    of_nvidia, with_domains = _one_in(chance, "compute domains", 0.4)
    of_forms, with_forms = _one_in(chance, "forms of requests", 0.4)
    of_parts, with_parts = _one_in(chance, "partitions", 0.25)
    of_resource, with_resources = _one_in(chance, "extended resources", 0.3)
    kinds = {f"n{number:02}": _kinds(dice) for number in range(dice.randint(2, 6))}
    for name, devices in kinds.items():
        channel = ("channel",) if with_domains else ()
        forms = _other_kinds(of_forms) if with_forms else ()
        parts = ("full", "part", "part") if with_parts and of_parts.random() < 0.7 else ()
        kinds[name] = (*parts, *forms, *devices, *channel)
    nodes = tuple(
        _listing(node(name, 0, cpu=len(devices) + 1, clique=f"c{at // 3}"), devices)
        for at, (name, devices) in enumerate(kinds.items())
    )
    jobs, shared = _draw_jobs(dice)
    batch = tuple(
        (dice.choice((0.0, 40 * dice.random())), _batch(dice, f"batch{at}")) for at in range(dice.randint(0, 2))
    )
    prepare_s = dice.choice((0.0, 0.0, 0.0, 540.0))
    if with_forms:
        jobs = [(at, replace(spec, roles=_in_other_forms(of_forms, spec.roles))) for at, spec in jobs]
        batch = tuple((at, replace(job, podsets=_made_in_other_forms(of_forms, job.podsets))) for at, job in batch)
    restless = _ask_for_parts(of_parts, jobs) if with_parts else ()
    domains = _join_domains(of_nvidia, jobs) if with_domains else ()
    if with_resources:
        jobs = [(at, _by_resources(of_resource, spec)) for at, spec in jobs]
        batch = tuple((at, _made_by_resources(of_resource, job)) for at, job in batch)
    plan = ClaimPlan(kinds, tuple(shared), prepare_s, domains, restless)
    return DrawnClaims(nodes, tuple(jobs), batch, plan, () if calm else _draw_faults(chance))


def _one_in(chance: Chance, name: str, share: float) -> tuple[Random, bool]:
    """The dice of something that this share of the seeds has, and whether this seed has it."""
    dice = chance.stream(name)
    return dice, dice.random() < share


def _draw_jobs(dice: Random) -> tuple[list[tuple[float, JobSpec]], list[tuple[float, DeviceClaim]]]:
    """Return the gangs, and the claim that the pods of one of them may share, each with its time."""
    jobs, shared = list[tuple[float, JobSpec]](), list[tuple[float, DeviceClaim]]()
    for number in range(dice.randint(2, 6)):
        at = dice.choice((0.0, 0.0, 60 * dice.random()))
        if not shared and dice.random() < 0.15:
            jobs.append((at, _sharing(dice, f"job{number}")))
            late = dice.choice((0.0, 0.0, 5 * dice.random()))
            claim = DeviceClaim("default", f"shared-job{number}", f"claim {number}", spec_of(TEMPLATES["one"]))
            shared.append((at + late, claim))
        else:
            jobs.append((at, _gang(dice, f"job{number}")))
    return jobs, shared


def _draw_faults(chance: Chance) -> tuple[tuple[str, float, str, int], ...]:
    when = chance.stream("when drivers publish")
    faults = [(when.choice((LOSES, LEAVES)), 90 * when.random(), "", 0) for _ in range(when.choice((0, 1, 3)))]
    # faults that fail a start after its claims were allocated
    faults += [
        (when.choice(("a node is cordoned", "a pod is deleted")), 0.0, "hold", 1 + int(12 * when.random()))
        for _ in range(when.choice((1, 3)))
    ]
    return tuple(faults)


def _join_domains(dice: Random, jobs: list[tuple[float, JobSpec]]) -> tuple[str, ...]:
    """Give the pods of some gangs a channel of a domain each. Returns the names of the domains."""
    return _change_some(dice, jobs, 0.7, _with_channel)


def _ask_for_parts(dice: Random, jobs: list[tuple[float, JobSpec]]) -> tuple[str, ...]:
    """Have the pods of some gangs ask for a part of a device, or for a full one. Returns the names of the gangs."""

    def asking(role: Role, _: str) -> Role:
        name = dice.choice(("part", "full"))
        return replace(role, requests=with_amounts(role.requests, TEMPLATES[name]), claims=(ClaimUse(name, "", name),))

    return _change_some(dice, jobs, 0.6, asking)


def _change_some(
    dice: Random, jobs: list[tuple[float, JobSpec]], share: float, change: Callable[[Role, str], Role]
) -> tuple[str, ...]:
    """Change the role of a share of the gangs with one role, given their names. Returns the names of those changed."""
    changed = []
    for number, (at, spec) in enumerate(jobs):
        if len(spec.roles) == 1 and dice.random() < share:
            changed.append(spec.name)
            jobs[number] = at, replace(spec, roles=(change(spec.roles[0], spec.name),))
    return tuple(changed)


def _other_kinds(dice: Random) -> tuple[str, ...]:
    """Devices of a node that have a taint, and devices that are alternatives of each other.

    kube-scheduler takes the first that fit, so worn ones are left to no claim that needs a device without a taint.
    """
    worn, fast, slow = dice.choice((0, 1, 2)), dice.choice((0, 1, 1)), dice.choice((0, 2, 3, 4))
    return (*("worn",) * worn, *("fast",) * fast, *("slow",) * slow)


def _in_other_forms(dice: Random, roles: tuple[Role, ...]) -> tuple[Role, ...]:
    """The roles of a gang, whose pods may ask in another form. Pods that share a claim do not."""
    if len(roles) > 1 or dice.random() < 0.3:
        return roles
    asked, claims = _form(dice, roles[0].requests, roles[0].claims)
    return (replace(roles[0], requests=asked, claims=claims),)


def _made_in_other_forms(dice: Random, podsets: Sequence[PodSet]) -> tuple[PodSet, ...]:
    """The same for the podset of a suspended job."""
    (podset,) = podsets
    asked, claims = _form(dice, podset.template.requests, podset.template.device_claims)
    return (replace(podset, template=replace(podset.template, requests=asked, device_claims=claims)),)


def _form(dice: Random, there: Requests, claims: tuple[ClaimUse, ...]) -> tuple[Requests, tuple[ClaimUse, ...]]:
    """The requests and claims of pods that ask in another form: by tolerations, by alternatives, or beside their own
    claim for admin access."""
    name = dice.choice(("tolerant", "either", "watching"))
    kept = claims if name == "watching" and dice.random() < 0.6 else ()
    amounts = (*(amounts_in(there) if kept else ()), *TEMPLATES[name])
    return with_amounts(there, amounts), (*kept, ClaimUse(name, "", name))


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
    first = Role(1, with_amounts(requests(0), TEMPLATES["one"]), claims=claims)
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
