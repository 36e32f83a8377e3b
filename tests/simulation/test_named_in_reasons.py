"""The campaign's final judge: a reason names only existing workloads, and keeps no room for pods that are bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model.mentions import Mention, mentioned
from tests.builders import gang, key, single
from tests.simulation.campaign import Run
from tests.simulation.drawing import draw
from tests.simulation.rest import _names_complaints

_KEPT = f"room is kept for 1 pod in no gang ({mentioned([Mention('default', 'default/one')])}), ahead of it in line"


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (f"held there by {mentioned([Mention('default', 'default/train (ends unknown)')])}", ""),
        (f"held there by {mentioned([Mention('default', 'default/gone (ends unknown)')])}", "which is gone"),
        (f"{mentioned([Mention('default', 'pod default/one')])} is being evicted for it", ""),
        (f"{mentioned([Mention('default', 'pod default/two')])} is being evicted for it", "which is gone"),
        (_KEPT, "which is bound"),
    ],
)
def test_a_reason_that_is_no_longer_true_is_a_complaint(message: str, complaint: str) -> None:
    world = Run(draw(1)).world
    pods = [*gang("train", 2), replace(single("one"), node="a-0")]
    world.api.pods.update({pod.uid: pod for pod in pods})
    complaints = [*_names_complaints(world, key("mine"), message)]
    assert [complaint in text for text in complaints] == [True] * bool(complaint)
