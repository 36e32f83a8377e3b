"""Which seeds have owners of gangs, which ones, and what befalls them: by dice of their own, so that nothing shifts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import GANG_GATE, Controller, GroupKey, Order, Pod, Topology
from tests.builders import requests
from tests.simulation.batch_plan import has_jobs
from tests.simulation.model.owner import LWS, REPLICA_SET, STATEFUL_SET, OwnerObject
from tests.simulation.owner_faults import OWNER_FAULTS
from tests.simulation.relation_plan import has_relations
from tests.simulation.role_plan import has_roles

_KINDS = (
    (STATEFUL_SET, Order.TOGETHER),
    (STATEFUL_SET, Order.ONE_BY_ONE),
    (STATEFUL_SET, Order.ONE_BY_ONE),
    (REPLICA_SET, Order.TOGETHER),
    (LWS, Order.TOGETHER),
    (LWS, Order.LEADER_FIRST),
)
_MOMENTS = ("", "", "nomination", "hold", "binding", "bound")


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """``owners`` with the second at which each is submitted; ``faults``: what, when, after which moment, the nth."""

    owners: tuple[tuple[float, OwnerObject], ...]
    faults: tuple[tuple[str, float, str, int], ...]


def has_owners(seed: int) -> bool:
    """Four seeds in forty, but for those with suspended jobs, relations or roles; some are calm."""
    return seed % 40 in (22, 24, 25, 27) and not (has_jobs(seed) or has_relations(seed) or has_roles(seed))


def draw_owners(chance: Chance, *, calm: bool) -> OwnerPlan:
    dice, when = chance.stream("owners of gangs"), chance.stream("when for owners of gangs")
    owners = [_owner(dice, f"own{number}") for number in range(dice.randint(1, 4))]
    faults = [_fault(when) for _ in range(0 if calm else when.choice((1, 2, 4)))]
    return OwnerPlan(tuple((dice.choice((0.0, 0.0, 60 * dice.random())), one) for one in owners), tuple(faults))


def _owner(dice: Random, name: str) -> OwnerObject:
    kind, order = dice.choice(_KINDS)
    size, gpus = dice.choice((1, 2, 3, 4, dice.randint(1, 8))), dice.choice((8, 4, 2, 1))
    uid = f"uid-{name}"
    template = Pod(
        uid="",
        namespace="default",
        name=name,
        requests=requests(gpus),
        owner=uid,
        controller=Controller("apps/v1", kind, name, uid),
        priority=dice.choice((0, 0, 0, 10)),
        gates=(GANG_GATE,) if dice.random() < 0.7 else (),
        topology=dice.choice((Topology(),) * 3 + (Topology(required="clique"), Topology(preferred="clique"))),
    )
    leader = replace(template, requests=requests(0)) if kind == LWS and dice.random() < 0.5 else None
    least = max(1, size - dice.choice((1, size // 2))) if dice.random() < 0.2 else None
    groups = dice.choice((1, 2)) if kind == LWS else 1
    key = GroupKey("default", f"{kind.lower()}-{name}")
    return OwnerObject(key, uid, kind, template, size, order, least, leader, groups)


def _fault(dice: Random) -> tuple[str, float, str, int]:
    what, moment = dice.choice(list(OWNER_FAULTS)), dice.choice(_MOMENTS)
    if not moment:
        return what, 90 * dice.random(), "", 0
    return what, dice.choice((0.0, 0.0005, 0.003, 0.05)) * dice.random(), moment, 1 + int(12 * dice.random() ** 2)
