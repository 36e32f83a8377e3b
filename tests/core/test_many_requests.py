"""Any user can request devices and volumes in new ways without end: lines stay few, and others are planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import ClaimGone, ClaimTemplateGone, DeviceClaimGone, Event, PodGone, PodsSeen, Tick
from extender.core.ledger.claims import Claims
from extender.core.ledger.devices import MOST_ASKS
from policies.model import Pod
from policies.model.devices import ClaimUse
from policies.words import COUNTED
from tests.builders import cluster, gang
from tests.core.devices import CLASS, claim, gpus, request, template, with_template
from tests.core.script import Script
from tests.core.test_late_volumes import LOCAL, free, late

MANY = MOST_ASKS + 44


def test_amounts_that_nobody_offers_or_has_leave_no_lines() -> None:
    claims = Claims()
    for fact in cluster("a: 4x8"):
        claims.set_node(fact)
    listed = set(claims.snapshot().resources)
    (pod,) = gang("train", 1)
    claims.assume(replace(pod, requests=(("devices/kept", 1),)), "a-0")
    claims.offer("a-0", (("devices/kept", 1),), "devices")
    claims.offer("a-0", (), "devices")
    shown = claims.snapshot()
    claims.lend()
    for number in range(3000):
        for node in ("a-1", "a-2"):
            claims.offer(node, ((f"volumes/{number}", number + 1),), "volumes")
    view = claims.snapshot()
    assert len(view.resources) <= 512
    assert listed | {"devices/kept", "volumes/2999"} <= set(view.resources)
    assert claims.overcommitted("a-0", (("devices/kept", 1),))
    assert claims.fits("a-2", (("volumes/2999", 3000), *pod.requests))
    assert not claims.fits("a-2", (("volumes/2998", 1),))
    assert "volumes/0" not in shown.resources, "a snapshot stays as it was"
    claims.offer("a-1", (("volumes/0", 1),), "volumes")
    assert claims.room("a-1")["volumes/0"] == 1


def asking(kind: str, at: int) -> tuple[list[Event], Pod, Event]:
    """A pod with a unique request, with the objects that it names; and the event that removes these."""
    name = f"{kind}-{at}"
    (pod,) = gang(name, 1, gpus=0)
    match kind:
        case "volume":
            event, gone = late(name, size=at), ClaimGone("default", name)
            return [event], replace(pod, claims=(name,)), gone
        case "claim":
            shared = replace(pod, device_claims=(ClaimUse("gpu", name, ""),))
            return [claim(name, request(20))], shared, DeviceClaimGone("default", name)
        case "count":
            claim_request = request(at + 9)
        case _:
            claim_request = request(
                1, f"device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('{at + 100}Gi'))"
            )
    owned = replace(pod, device_claims=(ClaimUse("gpu", "", name),))
    return [template(claim_request, name=name)], owned, ClaimTemplateGone("default", name)


def asked_in(script: Script) -> int:
    """How many requests are counted."""
    state = script.core.state
    return max(len(state.devices._asks), len(state.devices._bundles), len(state.volumes._storages))


def feed(script: Script, events: list[Event]) -> None:
    """Feed the events without a look at every invariant after each event."""
    for event in events:
        script.now += 0.01
        script.core.handle(event, script.now)


@pytest.mark.parametrize("kind", ["volume", "claim", "count", "selector"])
def test_others_are_planned_beside_more_different_requests_than_are_counted(kind: str) -> None:
    """Dropping all lines at the limit would make every cycle start counting again."""
    script = Script(*cluster("a: 2x0"))
    feed(script, [CLASS, *gpus("a-0", "a-1"), template(request()), LOCAL, free("v", "a-0", size=1000)])
    made = [asking(kind, at) for at in range(MANY)]
    feed(script, [event for events, _, _ in made for event in events])
    train = with_template("train", 2)
    feed(script, [PodsSeen((*(pod for _, pod, _ in made), *train)), *[Tick()] * 250])
    assert all(script.planned(pod) for pod in train), script.message("train")
    assert asked_in(script) <= MOST_ASKS


@pytest.mark.parametrize("kind", ["volume", "claim", "selector"])
def test_lines_stay_few_while_different_requests_come_and_go(kind: str) -> None:
    script = Script(*cluster("a: 2x0"))
    feed(script, [CLASS, *gpus("a-0", "a-1"), LOCAL, free("v", "a-0", size=10_000)])
    for first in range(0, 900, 150):
        made = [asking(kind, at) for at in range(first, first + 150)]
        feed(script, [event for events, _, _ in made for event in events])
        feed(script, [PodsSeen(tuple(pod for _, pod, _ in made)), *[Tick()] * 4])
        feed(script, [gone for _, pod, gone in made for gone in (PodGone(pod.uid), gone)])
    events, pod, _ = asking(kind, 5000)
    script.advance(1.0)
    feed(script, [*events, PodsSeen((pod,)), *[Tick()] * 4])
    assert any(name.startswith(COUNTED) for name, _ in script.core.state.store.pods[pod.uid].requests), "it is counted"
    assert len(script.core.state.claims.snapshot().resources) <= 600
    assert asked_in(script) <= MOST_ASKS
