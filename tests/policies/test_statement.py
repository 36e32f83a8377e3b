"""A statement shows its tried changes, keeps the committed ones, and leaves no trace of the rest."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest

from policies.model.queues import ClusterQueue, Cohort, FlavorResource, Quota, ResourceGroup
from policies.placement.snapshot import Amounts, Snapshot
from policies.placement.tenants import Beside
from policies.quota.tree import QuotaTree
from policies.statement import Statement, StatementError
from tests.builders import GPU, cluster, requests, single, snapshot

WHAT: FlavorResource = ("gpus", GPU)
NODES = 5_000


def _tree() -> QuotaTree:
    """A tree in which queue ``a`` lends at most 4 of its 8, so that its usage counts in part for the cohort."""
    groups = {
        "a": ResourceGroup((GPU,), (("gpus", {GPU: Quota(8, lending=4)}),)),
        "b": ResourceGroup((GPU,), (("gpus", {GPU: Quota(8)}),)),
    }
    tree = QuotaTree([ClusterQueue(name, (group,), cohort="all") for name, group in groups.items()], [Cohort("all")])
    tree.use("a", {WHAT: 6})
    return tree


def _statement() -> Statement:
    return Statement(snapshot(cluster("a: 4x8")), _tree())


def _free(statement: Statement, node: str) -> int:
    view = statement.snapshot
    return int(view.free[view.resources[GPU], view.rows[node]])


def _used(tree: QuotaTree) -> dict[str, dict[FlavorResource, int]]:
    return {name: dict(member.used) for name, member in (tree.queues | tree.cohorts).items()}


def test_a_change_shows_at_once_and_is_dropped_with_its_block() -> None:
    statement = _statement()
    before = _used(statement.tree)
    with statement.open():
        statement.claim("a-0", requests(gpus=3))
        statement.use("b", {WHAT: 5})
        assert (_free(statement, "a-0"), statement.tree.queues["b"].used[WHAT]) == (5, 5)
    assert (_free(statement, "a-0"), _used(statement.tree)) == (8, before)


def test_what_is_committed_stays() -> None:
    statement = _statement()
    with statement.open():
        statement.claim("a-0", requests(gpus=3))
        statement.give_back("a", {WHAT: 2})
        statement.commit()
    assert (_free(statement, "a-0"), statement.tree.queues["a"].used[WHAT]) == (5, 4)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_what_an_inner_block_commits_goes_with_the_outer_one(*, inner: bool, outer: bool) -> None:
    statement = _statement()
    with statement.open():
        statement.claim("a-0", requests(gpus=1))
        with statement.open():
            statement.claim("a-0", requests(gpus=2))
            statement.use("a", {WHAT: 2})
            if inner:
                statement.commit()
        assert _free(statement, "a-0") == (5 if inner else 7)
        if outer:
            statement.commit()
    assert _free(statement, "a-0") == (8 if not outer else 5 if inner else 7)
    assert statement.tree.queues["a"].used[WHAT] == (8 if inner and outer else 6)


def test_an_exception_drops_all_open_blocks() -> None:
    statement = _statement()
    before = _used(statement.tree)

    def fail() -> None:
        with statement.open():
            statement.claim("a-0", requests(gpus=1))
            with statement.open():
                statement.use("b", {WHAT: 1})
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (_free(statement, "a-0"), _used(statement.tree)) == (8, before)


def test_more_is_given_back_than_is_used_and_a_drop_restores_what_was_used() -> None:
    statement = _statement()
    with statement.open():
        statement.give_back("a", {WHAT: 100})
        assert statement.tree.queues["a"].used[WHAT] == 0
    assert _used(statement.tree) == _used(_tree())


CHANGES: list[Callable[[Statement], None]] = [
    lambda statement: statement.claim("a-0", requests(gpus=1)),
    lambda statement: statement.release("a-0", requests(gpus=1)),
    lambda statement: statement.use("a", {WHAT: 1}),
    lambda statement: statement.give_back("a", {WHAT: 1}),
    lambda statement: statement.show(statement.snapshot),
    lambda statement: statement.on_drop(list),
    lambda statement: statement.commit(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_outside_of_a_block_raises_and_changes_nothing(change: Callable[[Statement], None]) -> None:
    statement = _statement()
    with statement.open():
        pass
    with pytest.raises(StatementError, match="no block is open"):
        change(statement)
    assert (_free(statement, "a-0"), _used(statement.tree)) == (8, _used(_tree()))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_after_the_commit_raises_and_changes_nothing(change: Callable[[Statement], None]) -> None:
    statement = _statement()
    with statement.open():
        statement.commit()
        with pytest.raises(StatementError, match="this block is committed"):
            change(statement)
    assert (_free(statement, "a-0"), _used(statement.tree)) == (8, _used(_tree()))


def test_a_queue_or_a_node_that_is_not_there_counts_for_nothing() -> None:
    statement = _statement()
    with statement.open():
        statement.claim("gone", requests(gpus=1))
        statement.use("gone", {WHAT: 1})
        statement.commit()
    assert (_free(statement, "a-0"), _used(statement.tree)) == (8, _used(_tree()))


def test_pods_that_are_shown_are_gone_with_the_block() -> None:
    statement, pod = _statement(), single("p", node="a-0")
    with statement.open():
        tenants = statement.snapshot.others.tenants
        statement.show(statement.snapshot.among(Beside(tenants, [(pod, "a-0")])))
        assert [str(tenant) for _, tenant in statement.snapshot.others.tenants] == [str(pod)]
        statement.claim("a-0", requests(gpus=1))
        assert _free(statement, "a-0") == 7
    assert [*statement.snapshot.others.tenants] == []


def test_a_policy_cannot_write_into_what_it_is_shown() -> None:
    statement = _statement()
    with pytest.raises(ValueError, match="read-only"):
        statement.snapshot.free[0, 0] = 1


def test_what_a_caller_has_worked_out_is_undone_in_reverse_order() -> None:
    statement, done = _statement(), list[str]()
    with statement.open():
        statement.on_drop(lambda: done.append("first"))
        with statement.open():
            statement.on_drop(lambda: done.append("second"))
            statement.commit()
        statement.on_drop(lambda: done.append("third"))
    assert done == ["third", "second", "first"]


@pytest.mark.parametrize("seed", range(100))
def test_any_nesting_leaves_what_copies_would(seed: int) -> None:
    """Each block works on a copy of its own in the model, which replaces that of the outer block if it is committed."""
    chance, statement = random.Random(seed), _statement()

    def play(depth: int, free: Amounts, tree: QuotaTree) -> tuple[Amounts, QuotaTree]:
        inside, twin = free.copy(), deepcopy(tree)
        with statement.open():
            for _ in range(chance.randrange(6)):
                match chance.randrange(4):
                    case 0:
                        row, amount = chance.randrange(4), chance.randrange(1, 4)
                        taking = chance.random() < 0.5
                        claimed = (("cpu", 1000 * amount), (GPU, amount), ("unknown", 1))
                        (statement.claim if taking else statement.release)(f"a-{row}", claimed)
                        lines = statement.snapshot.resources
                        inside[[lines["cpu"], lines[GPU]], row] += np.array([1000, 1]) * amount * (-1 if taking else 1)
                    case 1:
                        rows, amounts = np.array([1, 3]), np.full((len(inside), 2), chance.randrange(-5, 5))
                        statement.add(rows, amounts)
                        inside[:, rows] += amounts
                    case 2:
                        queue, amount = chance.choice("ab"), chance.randrange(12)
                        taking = chance.random() < 0.5
                        (statement.use if taking else statement.give_back)(queue, {WHAT: amount})
                        (twin.use if taking else twin.free)(queue, {WHAT: amount})
                    case 3 if depth < 4:
                        inside, twin = play(depth + 1, inside, twin)
                assert (statement.snapshot.free == inside).all()
                assert _used(statement.tree) == _used(twin)
            if kept := chance.random() < 0.5:
                statement.commit()
        return (inside, twin) if kept else (free, tree)

    free, tree = play(0, statement.snapshot.free.copy(), deepcopy(statement.tree))
    assert (statement.snapshot.free == free).all()
    assert _used(statement.tree) == _used(tree)


def _large() -> Snapshot:
    return snapshot(cluster(f"a: {NODES}x8"))


def test_a_block_on_5000_nodes_allocates_what_it_changes() -> None:
    """An array with one number for each node takes 40 kB; that of all amounts takes several times as much."""
    statement = Statement(_large(), _tree())
    rows, amounts = np.array([7, 4_000]), np.ones((len(statement.snapshot.free), 2), dtype=np.int64)
    tracemalloc.start()
    try:
        for _ in range(2):  # the first one also allocates what Python keeps for later
            before, _peak = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            with statement.open():
                statement.claim("a-17", requests(gpus=8))
                with statement.open():
                    statement.add(rows, amounts)
                    statement.use("b", {WHAT: 5})
                    statement.commit()
            _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < NODES * 8 // 4


def test_a_look_at_a_ledger_cannot_be_committed_as_a_whole() -> None:
    statement = Statement(snapshot(cluster("a: 1x8")), of_ledger=True)
    with statement.open():
        with statement.open():
            statement.claim("a-0", requests(gpus=1))
            statement.commit()
        assert _free(statement, "a-0") == 7
        with pytest.raises(StatementError, match="by a change of its claims"):
            statement.commit()
    assert _free(statement, "a-0") == 8
