"""What befalls owners of gangs: they are scaled, in mid-start too, deleted, and submitted anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.model.owner import OwnerObject
from tests.simulation.trouble import Trouble


def scale_up(trouble: Trouble) -> None:
    _scale(trouble, lambda owner: owner.replicas + trouble.random.choice((1, 2)))


def scale_down(trouble: Trouble) -> None:
    _scale(trouble, lambda owner: max(1, owner.replicas - trouble.random.choice((1, 2))))


def scale_to_nothing(trouble: Trouble) -> None:
    """And back, some time later."""
    owner = _scale(trouble, lambda _: 0)

    def back() -> None:
        now = trouble.world.api.owners.get(owner.key) if owner is not None else None
        if owner is not None and now is not None and now.uid == owner.uid:
            trouble.world.api.set_owner(replace(now, replicas=owner.replicas))

    trouble.later(back, 20.0)


def delete_owner(trouble: Trouble) -> None:
    """Every second time it is submitted anew under the same name, at once."""
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
