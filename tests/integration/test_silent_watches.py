"""Watches through which nothing comes, and an API server that asks for a long wait: gangs start all the same."""

from __future__ import annotations

import pytest

from benchmarks.faults.theatre import Theatre

pytestmark = pytest.mark.xdist_group("fault-processes")


def test_a_gang_starts_although_every_watch_has_gone_silent(theatre: Theatre) -> None:
    """35 s until a silent watch is given up, 13 s until the API server is asked again, and then the gang's own time."""
    theatre.mend()
    with theatre.scene() as scene:
        scene.add_nodes(1)
        theatre.proxy.silence_watches()
        theatre.proxy.refuse_watches(5, retry_after_s=300)
        scene.create(scene.members("train", 4))
        scene.wait_bound("train", 4, timeout_s=100)
        assert theatre.proxy.refusals_left == 0
