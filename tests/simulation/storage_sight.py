"""Volumes as the referee sees them: none is promised twice, and no gang waits though there are enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from extender.core.effects import Effect, Nominate
from extender.core.events import ClaimSeen
from policies.model import Pod, Requirement
from tests.simulation.doubts import Claim
from tests.simulation.model.changes import Change
from tests.simulation.model.storage import LOCAL, MADE, Storages, claims_of, known_of, nodes_in
from tests.simulation.sight import Room
from tests.simulation.storage_plan import SIZES


def judge_volumes(
    effects: Iterable[Effect], known: Storages, pods: Mapping[str, Pod], promised: Mapping[str, Claim]
) -> str | None:
    """The complaint about the nodes that members are promised now: all pods there need volumes of their own.

    ``known``: the objects that the extender has been shown.
    """
    for effect in effects:
        if not isinstance(effect, Nominate) or not effect.node:
            continue
        there = [pods[uid] for uid, claim in promised.items() if claim.node == effect.node and uid in pods]
        mine = pods.get(effect.uid)
        for claim in claims_of(mine, known) if mine is not None else ():
            where = known.nodes_of(claim)
            if where is not None and effect.node not in where:
                return f"{effect.uid} is promised {effect.node}, and its claim {claim.name} is held to {where}"
            if where is None and claim.asks.storage_class == MADE and effect.node not in known.made:
                return f"{effect.uid} is promised {effect.node}, for which no volume is made"
        unbound = [
            claim for pod in there if not pod.node for claim in claims_of(pod, known) if known.nodes_of(claim) is None
        ]
        sizes = [claim.asks.size for claim in unbound if claim.asks.storage_class == LOCAL]
        made, most = sum(claim.asks.size for claim in _to_be_made(there, known)), known.made.get(effect.node, 0)
        if made > most:
            return f"claims of {made} in all are promised {effect.node}, for which {most} can be made"
        for size in SIZES:
            wanted, has = sum(other >= size for other in sizes), len(_free(known, effect.node, size))
            if wanted > has:
                return f"{wanted} claims of {size} and more are promised {effect.node}, which has {has} such volumes"
    return None


def _to_be_made(pods: Iterable[Pod], known: Storages) -> Iterator[ClaimSeen]:
    """The claims of these pods for which a volume is yet to be made."""
    for claim in (claim for pod in pods for claim in claims_of(pod, known)):
        if claim.asks.storage_class == MADE and not claim.bound and known.of_claim(claim) is None:
            yield claim


def _free(known: Storages, node: str, size: int) -> list[str]:
    there = (volume for volume in known.volumes.values() if not volume.claim and node in nodes_in(volume.nodes))
    return [volume.name for volume in there if volume.offers.size >= size]


def offer(changes: Mapping[str, Change], room: Room) -> None:
    """Add to the room of each node the volumes that are free there, as amounts of each size and more."""
    known = known_of(changes)
    for node, left in room.items() if changes else ():
        left |= {_named(size): len(_free(known, node, size)) for size in SIZES}
        left[MADE] = known.made.get(node, 0)


def with_storage(pods: Sequence[Pod], changes: Mapping[str, Change]) -> list[Pod]:
    """The same pods with these amounts, held to the nodes of the claims that have one."""
    known, meant = known_of(changes), []
    for pod in pods:
        amounts, selection = dict(pod.requests), pod.selection
        for claim in claims_of(pod, known):
            where = known.nodes_of(claim)
            if where is not None:
                pin = ((Requirement("metadata.name", "In", where, is_field=True),),)
                selection = replace(selection, affinity=pin)
            elif claim.asks.storage_class == LOCAL:
                amounts |= {_named(size): 1 for size in SIZES if claim.asks.size >= size}
        if made := sum(claim.asks.size for claim in _to_be_made([pod], known)):
            amounts[MADE] = made
        meant.append(replace(pod, requests=tuple(sorted(amounts.items())), selection=selection))
    return meant


def _named(size: int) -> str:
    return f"{LOCAL} volumes of {size}"
