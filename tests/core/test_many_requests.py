"""Anybody can ask for devices and volumes in new ways without end: lines stay few, and others are planned."""

from __future__ import annotations

from dataclasses import replace

from extender.core.ledger.claims import Claims
from tests.builders import cluster, gang


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
