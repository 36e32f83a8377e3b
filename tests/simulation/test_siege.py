"""A hostile tenant: no trick of his does any harm to his neighbours. The referee finds what would."""

from __future__ import annotations

import pytest

from tests.simulation.broken import BrokenPromiseError
from tests.simulation.plants import asking, hearing, queues
from tests.simulation.plants.mutants import Plant
from tests.simulation.siege import Siege
from tests.simulation.tricks import TRICKS

SEEDS = range(1, 9)


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_harms_a_neighbour(trick: str) -> None:
    for seed in SEEDS:
        Siege(seed, [trick]).play()


def test_neighbours_without_a_hostile_tenant_get_along() -> None:
    for seed in SEEDS:
        Siege(seed, []).play()


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (asking.binding_to_another_node, "of 8 GPUs in use"),
        (queues.quota_that_is_given_back_is_not_noticed, "waits for 10 s, and has quota and room"),
        (hearing.quorum_off_by_one, "is bound in part"),
        (hearing.bound_members_not_counted, "is evicted, and nobody has more right"),
        (hearing.bound_members_not_counted, "team-a uses"),
    ],
)
def test_the_referee_of_a_siege_finds_planted_bugs(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    complaints = list[str]()
    for seed in range(1, 61):
        try:
            Siege(seed).play()
        except BrokenPromiseError as error:
            complaints.append(str(error))
            if complaint in complaints[-1]:
                return
    pytest.fail(f"not found; other complaints: {complaints}")
