"""Consequences of recorded objects (``extender/core/ledger/state.py``) that only these tests miss."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import Outcome
from extender.core.ledger.preemptions import room_of
from tests.builders import cluster, gang, key, node, single
from tests.core.levels import IN_CLIQUE, asking
from tests.core.preempting import Cluster, running
from tests.core.script import Script


def test_a_reason_names_nobody_who_gave_back_room_that_does_not_help() -> None:
    """``note_former_owner``."""
    large, small = (replace(gang(name, 1, gpus=gpus)[0], node="a-0") for name, gpus in (("large", 4), ("small", 1)))
    script = Script(*cluster("a: 2x8"), large, small, *asking(gang("wait", 2), IN_CLIQUE))
    assert "held there by large (ends unknown), small (ends unknown)" in script.message("wait")
    script.gone(small)
    assert "held there by large (ends unknown);" in script.message("wait"), "it still lacks the node"


def test_a_refused_node_is_tried_again_when_it_has_changed() -> None:
    """``forgive_node``."""
    pods = gang("train", 1, gpus=4)
    script = Script(*cluster("a: 1x8"), *pods)
    for _ in range(5):
        script.filter(pods[0], ["elsewhere"])
        script.advance(20)
    script.filter(pods[0], ["elsewhere"])
    script.advance(0.1)
    assert not script.planned(pods[0])
    known = script.core.state.claims.nodes["a-0"]
    script.see(replace(known, labels={**known.labels, "example.com/repaired": "true"}))
    script.advance(0.1)
    assert script.planned(pods[0]) == "a-0"


def test_no_more_is_kept_for_a_preemptor_than_others_leave() -> None:
    """``Preemptions.moved``."""
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    script.see(gang("high", 2, priority=10))
    script.advance(0.5)
    script.leave(low[0])
    at = next(name for name in ("a-0", "a-1") if script.core.state.claims.get(room_of(key("high"), name)))
    script.see(single("foreign", gpus=4, node=at))
    kept = script.core.state.claims.get(room_of(key("high"), at))
    assert kept is not None
    assert dict(kept.requests)["nvidia.com/gpu"] == 4


def test_no_room_is_kept_for_a_pod_of_no_gang_on_a_node_that_has_closed() -> None:
    """``drop_displaced_singles``."""
    alone = single("alone", gpus=8, priority=5)
    script = Script(node("a-0"), alone, *gang("later", 1))
    assert script.core.state.singles.reserved.keys() == {alone.uid}
    script.see(replace(script.core.state.claims.nodes["a-0"], unschedulable=True))
    assert not script.core.state.singles.reserved


def test_a_binding_that_may_have_been_written_ends_with_its_pod() -> None:
    """``forget_bind_calls``."""
    alone = single("alone", gpus=8)
    script = Script(*cluster("a: 1x8"), alone)
    script.bind(alone, "a-0")
    script.post(alone, Outcome.UNKNOWN, seen=False)
    assert script.core.state.binds.unknown.keys() == {alone.uid}
    script.gone(alone)
    assert not script.core.state.binds.unknown
