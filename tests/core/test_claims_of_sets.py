"""StatefulSets that make a volume claim for each pod: the pods that are yet to come are planned with those claims."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import ClaimSeen, Event, StorageClassSeen, VolumeSeen
from policies.model import GangOwner, Order, Pod
from policies.model.devices import ClaimUse
from policies.model.storage import NO_PROVISIONER, ClaimMaker, Storage, StorageClass
from tests.builders import cluster
from tests.core.devices import CLASS, gpus, request, template
from tests.core.owned import owned, owner, told
from tests.core.script import Script
from tests.core.test_late_volumes import free, late, on

LOCAL = StorageClassSeen(StorageClass("local", NO_PROVISIONER, waits=True))
ASKS = Storage("local", 1 << 30, ("ReadWriteOnce",))


def with_claims(seen: GangOwner) -> GangOwner:
    """The owner with a template of claims named ``data``."""
    assert seen.podset is not None
    template = replace(seen.podset.template, claim_makers=(ClaimMaker("data", ASKS),))
    return replace(seen, podset=replace(seen.podset, template=template))


def scene(*facts: VolumeSeen | ClaimSeen, count: int = 3) -> tuple[Script, list[Pod]]:
    """The first pod of a set is there, with its claim, and none of the others."""
    script = Script(*cluster("a: 4x8"))
    for fact in (LOCAL, *facts, late("data-web-0")):
        script.feed(fact)
    told(script, with_claims(owner(count, order=Order.ONE_BY_ONE)))
    pods = [replace(owned(number), claims=(f"data-web-{number}",)) for number in range(count)]
    script.see(pods[0])
    return script, pods


def planned(script: Script) -> list[str]:
    """The nodes of the pods that are yet to come, by their numbers."""
    slots = script.gang("statefulset-web").members.slots.planned
    return [slots[slot] for slot in sorted(slots)]


def test_later_pods_are_planned_where_there_are_volumes_for_their_claims() -> None:
    script, pods = scene(free("v0", "a-1"), free("v1", "a-2"))
    assert not script.planned(pods[0])
    script.feed(free("v2", "a-3"))
    script.advance(0.2)
    assert sorted([script.planned(pods[0]), *planned(script)]) == ["a-1", "a-2", "a-3"]


def test_a_claim_of_an_earlier_run_pins_the_slot_of_its_number() -> None:
    left = ClaimSeen("default", "data-web-2", True, ASKS)  # noqa: FBT003
    volume = VolumeSeen("old", "default", "data-web-2", on("a-0"))
    script, pods = scene(left, volume, free("v0", "a-1"), free("v1", "a-2"))
    assert script.planned(pods[0]) in ("a-1", "a-2")
    assert planned(script)[1] == "a-0"


def test_the_pods_come_into_the_room_that_was_planned_for_their_claims() -> None:
    volumes = [free(f"v{number}", f"a-{number}") for number in range(3)]
    script, pods = scene(*volumes)
    for number, pod in enumerate(pods):
        if number:
            script.feed(late(f"data-web-{number}"))
            script.see(pod)
        node = script.planned(pod)
        taken = volumes[int(node[-1])]
        script.feed(replace(taken, namespace="default", claim=f"data-web-{number}"))
        script.feed(VolumeSeen(taken.name, "default", f"data-web-{number}", on(node)))
        script.feed(replace(late(f"data-web-{number}"), bound=True))
        script.run([pod])
    assert sorted(script.bound(pods)) == ["a-0", "a-1", "a-2"]


def test_a_pod_that_is_tied_by_its_claim_asks_for_devices_as_the_others_do() -> None:
    """A pod differs from its template in its volume alone."""
    left = ClaimSeen("default", "data-web-1", True, ASKS)  # noqa: FBT003
    volume = VolumeSeen("old", "default", "data-web-1", on("a-0"))
    script = Script(*cluster("a: 4x0"))
    facts: list[Event] = [LOCAL, CLASS, *gpus("a-0", "a-1", count=1), template(request()), left, volume]
    for fact in (*facts, free("v0", "a-1")):
        script.feed(fact)
    seen = with_claims(owner(2, order=Order.ONE_BY_ONE))
    assert seen.podset is not None
    uses = (ClaimUse("gpu", "", "gpus"),)
    made_of = replace(seen.podset.template, requests=(("pods", 1),), device_claims=uses)
    told(script, replace(seen, podset=replace(seen.podset, template=made_of)))
    script.feed(late("data-web-0"))
    first = replace(owned(0), requests=(("pods", 1),), device_claims=uses, claims=("data-web-0",))
    script.see(first)
    assert (script.planned(first), planned(script)) == ("a-1", ["a-0"])
    [name] = [
        name for name, _ in script.gang("statefulset-web").members.slots.promises()[0][0].requests if "gpu" in name
    ]
    assert script.core.state.claims.room("a-0")[name] == 0


def test_claims_are_called_as_their_controllers_call_them() -> None:
    of_set, of_group = ClaimMaker("data", ASKS, "web"), ClaimMaker("data", ASKS, "lws-3", bare=True)
    assert [of_set.claim_of(2), of_group.claim_of(0), of_group.claim_of(1)] == [
        "data-web-2",
        "data-lws-3",
        "data-lws-3-1",
    ]
    assert ClaimMaker("tmp", ASKS, "web", ephemeral=True).claim_of(1) == "web-1-tmp"
    assert ClaimMaker("tmp", ASKS, ephemeral=True).claim_of(1) == ""
