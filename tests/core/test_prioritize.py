"""prioritize: single pods fill broken cliques, and members without a plan join their gang."""

from __future__ import annotations

from tests.builders import busy, cluster, gang, single
from tests.core.script import Script


def test_a_single_pod_leaves_the_whole_clique_alone() -> None:
    script = Script(*cluster("a: 2x8", "b: 2x8"), *busy("b-0", 8))
    assert script.core.prioritize(single("s"), ["a-0", "b-1"]) == [0, 6]


def test_a_member_beyond_the_quorum_joins_those_who_run() -> None:
    """The other clique is the fuller one, which alone would decide for a single pod."""
    first = [pod for pod in gang("train", 3, min_member=2) if pod.index != 2]
    script = Script(*cluster("a: 3x8", "b: 4x8"), *busy("b-0 b-1 b-2", 8), *first)
    script.run(first)
    late = gang("train", 3, min_member=2)[2]
    near, far = script.core.prioritize(late, ["a-2", "b-3"])
    assert set(script.bound(first)) == {"a-0", "a-1"}
    assert near > far
