"""Moves of restartable workloads for a waiting gang: held against every choice on small clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.preemption.defrag import Moves, NoMoves
from policies.model import Requirement, Selection, Topology
from policies.model.eviction import EvictionTerms
from policies.model.topology import SILENT
from tests.builders import cluster, gang
from tests.core.queues import cluster_queue, flavor, in_queue, show
from tests.core.script import Script

MAY = EvictionTerms(restartable=True)
CLIQUE = Topology("clique")


def pinned(node: str) -> Selection:
    """The selection of a pod that is pinned to a node, as Muster pins pods."""
    return Selection(affinity=((Requirement("metadata.name", "In", (node,), is_field=True),),))


class Cluster(Script):
    """Gangs of one pod that run where the test says, and one gang that waits."""

    def put(self, name: str, gpus: int, node: str, terms: EvictionTerms = MAY) -> None:
        """A gang of one pod starts on the node."""
        pods = gang(name, 1, gpus=gpus, eviction=terms, created=self.now, selection=pinned(node))
        self.see(pods)
        self.run(pods)
        assert self.pods[pods[0].uid].node == node

    def wait(self, name: str, size: int, gpus: int, topology: Topology = SILENT) -> Moves | NoMoves:
        """A gang comes that has no room. Returns what would help it."""
        self.see(gang(name, size, gpus=gpus, created=self.now, topology=topology))
        self.advance(2)
        return self.core.moves_for(self.gang(name), self.now)


def moved(result: Moves | NoMoves) -> list[tuple[str, str, str]]:
    """The name of each workload of one pod that moves, its node and the node that it gets."""
    assert isinstance(result, Moves), result
    return [(move.workload.key.name, before, after) for move in result.moves for _, before, after in move.pods]


def why(result: Moves | NoMoves) -> str:
    assert isinstance(result, NoMoves), result
    return result.why


def test_the_smallest_moves_that_open_a_node() -> None:
    script = Cluster(*cluster("-: 2x8"))
    script.put("large", 6, "n-0")
    script.put("small", 2, "n-1")
    result = script.wait("big", 1, 8)
    assert moved(result) == [("small", "n-1", "n-0")]
    assert isinstance(result, Moves)
    assert result.pods == (("big-0", "n-1"),)
    assert [move.devices for move in result.moves] == [2]
    assert not script.planned(script.pods["uid-big-0"]), "nothing is moved"


def test_work_counts_since_the_last_checkpoint() -> None:
    script = Cluster(*cluster("-: 2x8"))
    script.put("fixed", 6, "n-0", EvictionTerms())
    script.put("plain", 1, "n-1")
    script.put("saved", 1, "n-1", MAY._replace(checkpointed=script.now + 500))
    script.advance(1000)
    result = script.wait("big", 1, 8)
    assert isinstance(result, Moves)
    lost = {move.workload.key.name: move for move in result.moves}
    assert lost["plain"].lost_s == pytest.approx(1000, abs=10)
    assert not lost["plain"].checkpointed
    assert lost["saved"].lost_s == pytest.approx(500, abs=10)
    assert lost["saved"].checkpointed


def test_a_whole_clique_is_opened_where_that_moves_least() -> None:
    script = Cluster(*cluster("a: 2x8", "b: 2x8", "c: 2x8"))
    for name, gpus, node in (("a0", 4, "a-0"), ("a1", 4, "a-1"), ("b0", 2, "b-0"), ("c0", 5, "c-0"), ("c1", 1, "c-1")):
        script.put(name, gpus, node)
    assert moved(script.wait("big", 2, 8, CLIQUE))[0][:2] == ("b0", "b-0")


def test_each_goes_to_room_that_is_free_when_its_turn_comes() -> None:
    script = Cluster(*cluster("a: 2x8", "b: 1x8"))
    script.put("six", 6, "a-0")
    script.put("two", 2, "a-1")
    script.put("four", 4, "b-0", EvictionTerms())
    assert why(script.wait("big", 2, 8, CLIQUE)) == "default/six would have to move, and has no room elsewhere"


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (EvictionTerms(), "no running workload may move"),
        (MAY._replace(min_runtime_s=3600), "no running workload may move"),
        (EvictionTerms(restartable=False), "no running workload may move"),
    ],
)
def test_only_restartable_workloads_that_have_run_long_enough_move(terms: EvictionTerms, text: str) -> None:
    script = Cluster(*cluster("-: 2x8"))
    script.put("large", 6, "n-0", terms)
    script.put("small", 2, "n-1", terms)
    assert text in why(script.wait("big", 1, 8))


def test_what_cannot_be_helped_says_why() -> None:
    script = Cluster(*cluster("-: 2x8"))
    script.put("large", 6, "n-0")
    assert "if all of them moved (1 restartable workload)" in why(script.wait("huge", 3, 8))
    script.see(gang("runs", 1, gpus=1))
    assert "not waiting for room" in why(script.core.moves_for(script.gang("large"), script.now))


def test_moves_free_no_quota() -> None:
    script = Cluster(*cluster("-: 2x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 4}))
    pods = in_queue("big", 1, gpus=8)
    script.see(pods)
    script.advance(2)
    assert "room is not what it lacks" in why(script.core.moves_for(script.gang("big"), script.now))


def _every_order(
    free: dict[str, int], running: Sequence[tuple[int, str]], wants: Sequence[str], gpus: int
) -> Iterator[int]:
    """Yield the GPUs that move for each order of moves after which the gang has its pods on the nodes ``wants``.

    Only workloads on these nodes move: none makes room for another one that moves.
    """
    taken = Counter(wants)
    if all(free[node] >= gpus * count for node, count in taken.items()):
        yield 0
    for number, (size, node) in enumerate(running):
        for other in free:
            if node not in taken or other == node or free[other] - gpus * taken[other] < size:
                continue
            after = free | {node: free[node] + size, other: free[other] - size}
            rest = [*running[:number], *running[number + 1 :]]
            for more in _every_order(after, rest, wants, gpus):
                yield size + more


def _choices(nodes: Sequence[str], size: int, *, in_clique: bool) -> Iterator[tuple[str, ...]]:
    if size == 0:
        yield ()
        return
    for rest in _choices(nodes, size - 1, in_clique=in_clique):
        yield from ((node, *rest) for node in nodes if not in_clique or not rest or rest[0][0] == node[0])


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["a-0", "a-1", "b-0"])), min_size=1, max_size=4),
    st.integers(1, 2),
    st.integers(2, 4),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_moves_are_found_whenever_there_are_some(
    running: list[tuple[int, str]], size: int, gpus: int, in_clique: bool
) -> None:
    """The oracle plays every order of moves: if any helps, one is found, each goes to free room, and all are needed."""
    script = Cluster(*cluster("a: 2x4", "b: 1x4"))
    free = dict.fromkeys(["a-0", "a-1", "b-0"], 4)
    there: list[tuple[int, str]] = []
    for number, (used, node) in enumerate(running):
        if free[node] >= used:
            script.put(f"run-{number}", used, node)
            free[node] -= used
            there.append((used, node))
    result = script.wait("big", size, gpus, CLIQUE if in_clique else SILENT)
    choices = list(_choices(list(free), size, in_clique=in_clique))
    least = min((cost for wants in choices for cost in _every_order(free, there, wants, gpus)), default=None)
    if least is None or least == 0:
        assert isinstance(result, NoMoves)
        return
    assert isinstance(result, Moves), (result, least)
    for move in result.moves:
        ((_, before, after),) = move.pods
        free[after] -= move.devices
        assert free[after] >= 0, "it goes to free room"
        free[before] += move.devices
    for _, node in result.pods:
        free[node] -= gpus
    assert min(free.values()) >= 0, "the gang has room after that"
