"""Seeds with owners of gangs, the owners, and their faults: by dice of their own, so that no other draw shifts.

Owners are scaled, in mid-start too, deleted, and submitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from extender.simulation.chance import Chance
from policies.model import GANG_GATE, Controller, GroupKey, Order, Pod, Topology
from tests.builders import requests
from tests.simulation.batch_plan import has_jobs
from tests.simulation.model.owner import LWS, REPLICA_SET, STATEFUL_SET, OwnerObject
from tests.simulation.relation_plan import has_relations
from tests.simulation.role_plan import has_roles
from tests.simulation.trouble import Trouble

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
    return OwnerPlan(tuple((dice.choice((0.0, 0.0, 60 * dice.random())), owner) for owner in owners), tuple(faults))


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


def scale_up(trouble: Trouble) -> None:
    _scale(trouble, lambda owner: owner.replicas + trouble.random.choice((1, 2)))


def scale_down(trouble: Trouble) -> None:
    _scale(trouble, lambda owner: max(1, owner.replicas - trouble.random.choice((1, 2))))


def scale_to_nothing(trouble: Trouble) -> None:
    """Scale an owner to no pods, and back some time later."""
    owner = _scale(trouble, lambda _: 0)

    def back() -> None:
        now = trouble.world.api.owners.get(owner.key) if owner is not None else None
        if owner is not None and now is not None and now.uid == owner.uid:
            trouble.world.api.set_owner(replace(now, replicas=owner.replicas))

    trouble.later(back, 20.0)


def delete_owner(trouble: Trouble) -> None:
    """Delete an owner. Every second time an owner of the same name is submitted at once."""
    owner = _some_owner(trouble)
    if owner is None:
        return
    trouble.world.owners.delete(owner)
    if trouble.random.random() < 0.5:
        uid = f"{owner.uid}+{trouble.number()}"
        templates = {
            name: replace(pod, owner=uid)
            for name in ("template", "leader")
            if (pod := getattr(owner, name)) is not None
        }
        trouble.world.api.set_owner(replace(owner, uid=uid, **templates))


def _scale(trouble: Trouble, replicas: Callable[[OwnerObject], int]) -> OwnerObject | None:
    owner = _some_owner(trouble)
    if owner is not None:
        trouble.world.api.set_owner(replace(owner, replicas=replicas(owner)))
    return owner


def _some_owner(trouble: Trouble) -> OwnerObject | None:
    return trouble.some(list(trouble.world.api.owners.values()))


OWNER_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "an owner is scaled up": scale_up,
    "an owner is scaled down": scale_down,
    "an owner is scaled to nothing and back": scale_to_nothing,
    "an owner is deleted": delete_owner,
}
