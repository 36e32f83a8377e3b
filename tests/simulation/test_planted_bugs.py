"""The campaign can fail: bugs planted in the core are found, each by a seed that the core as it is passes."""

from __future__ import annotations

import pytest

from tests.simulation import plants
from tests.simulation.campaign import SeedError, play
from tests.simulation.plants import Plant

ALONE, INSIDE = 0, 8
"""The referee judges by the objects and by what is said alone; or the core's own state is looked into as well."""

FOUND: list[tuple[Plant, int, int, str]] = [
    (plants.quorum_off_by_one, 2, ALONE, "is to be bound when 1 of 2 members"),
    (plants.bound_members_not_counted, 2, ALONE, "makes its gang whole, .* and is not stamped so"),
    (plants.assumed_pods_ignored_in_capacity, 2, ALONE, "where the room is promised to"),
    (plants.deadline_ignored, 3, ALONE, "goes on and on"),
    (plants.forgetting_frees_no_room, 3, ALONE, "could have been planned for"),
    (plants.stale_nominations_kept, 306, ALONE, "waits, and is nominated for"),
    (plants.bindings_posted_twice, 2, ALONE, "is being bound twice at once"),
    (plants.calls_answered_twice, 2, ALONE, "is answered, but is not open"),
    (plants.gates_off_before_nominations_are_written, 4, ALONE, "the gate of .* is to come off before the nomination"),
    (plants.required_level_ignored, 40, ALONE, "its gang would be in cliques"),
    (plants.failed_binding_called_a_success, 3, ALONE, "was called a success, but the pod is on None"),
    (plants.filter_answers_only_once, 2, ALONE, "asked twice about"),
    (plants.member_of_a_gang_preempted, 12, ALONE, "of a gang, may be preempted"),
    (plants.reasons_kept_to_itself, 2, ALONE, "waits for no reason"),
    (plants.refusals_compared_with_the_latest_room, 187, ALONE, "waits, and there is room for"),
    (plants.equal_nominations_not_renewed, 12, ALONE, "as it reads already: that wakes nobody"),
    (plants.twins_of_an_index_counted_as_two, 249, ALONE, "is to be bound when 5 of 6 members"),
    (plants.no_room_kept_for_a_lost_member, 179, ALONE, "where the room is kept for"),
    (plants.kept_room_never_lapses, 3894, ALONE, "could have been planned for"),
    (plants.unknown_outcome_taken_for_refused, 154, ALONE, "where the room is in doubt for"),
    (plants.release_complete_always_stamped, 1, ALONE, "is stamped as the end of a whole release, and is number 1"),
    (plants.holds_wait_for_the_latest_deadline, 138, ALONE, "was held until kube-scheduler gave it up"),
    (plants.crowd_lets_nobody_in, 14, ALONE, "waits, and there is room for"),
    (plants.refused_nodes_never_forgiven, 173, ALONE, "wait, and after a restart"),
    (plants.changed_gangs_not_looked_at, 1, ALONE, "could have been planned for"),
    (plants.changed_nodes_are_no_news, 35, ALONE, "could have been planned for"),
    (plants.members_of_an_earlier_podgroup_counted, 13, INSIDE, "identities are counted as"),
    (plants.whole_gang_evicted_when_it_loses_a_member, 27, INSIDE, "bound in part"),
    (plants.lost_member_keeps_its_gang_placed, 6, INSIDE, "is promised to .*, which is gone or going"),
    (plants.old_watch_event_unbinds_a_pod, 9, INSIDE, "is charged as bound, but"),
]
"""The bug, a small seed that finds it, what that takes, and what is said to be broken."""


@pytest.mark.parametrize(("plant", "seed", "look", "complaint"), FOUND, ids=[found[0].__name__ for found in FOUND])
def test_a_planted_bug_is_found(plant: Plant, seed: int, look: int, complaint: str) -> None:
    play(seed, every=8)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(SeedError, match=complaint):
            play(seed, every=look)
