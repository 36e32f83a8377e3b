"""The arrays of the claims: after any course of events they agree with the nodes and the claims."""

from __future__ import annotations

import tracemalloc
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extender.core.ledger.claims import Claims
from extender.core.ledger.nodes import Facts
from policies.model import CLIQUE, Node, Pod, Requirement, Selection, Taint, Toleration
from policies.model.levels import LevelKey
from policies.placement.columns import Mask
from policies.placement.snapshot import Snapshot
from policies.statement import Statement
from policies.steps import Steps
from tests.builders import GPU, cluster, node, requests
from tests.core.invariants import validate_claims

NODES = 5_000
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
LABELS = st.dictionaries(st.sampled_from([CLIQUE, "zone", "size"]), st.sampled_from(["1", "2", "x"]))
TAINTS = st.lists(st.sampled_from([Taint("gpu", "", "NoSchedule"), Taint("soft", "", "PreferNoSchedule")]), max_size=2)
VALUES = st.lists(st.sampled_from(["1", "2", "x", "a", "b"]), max_size=2).map(tuple)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
EXPRESSIONS = st.one_of(
    st.builds(Requirement, st.sampled_from([CLIQUE, "zone", "size"]), OPERATORS, VALUES),
    st.builds(Requirement, st.just("metadata.name"), st.sampled_from(["In", "NotIn"]), VALUES, st.just(value=True)),
)
SELECTIONS = st.builds(
    Selection,
    st.lists(st.tuples(st.just("zone"), st.sampled_from(["1", "9"])), max_size=1).map(tuple),
    st.none() | st.lists(st.lists(EXPRESSIONS, max_size=2).map(tuple), max_size=2).map(tuple),
    st.lists(st.just(Toleration("gpu", "Exists", "", "")), max_size=1).map(tuple),
)
MANY = [f"example.com/device-{number:02}" for number in range(20)]
"""Resource names: with those of every node there are more than the arrays have lines at first."""
OFFERS = (
    st.integers(0, len(MANY))
    .flatmap(
        lambda count: st.tuples(st.permutations(MANY), st.lists(st.integers(0, 3), min_size=count, max_size=count))
    )
    .map(lambda drawn: dict(zip(*drawn, strict=False)))
)
REQUESTS = st.one_of(
    st.builds(requests, st.integers(0, 8), st.integers(0, 8)),
    st.tuples(st.tuples(st.sampled_from(MANY), st.integers(0, 2))),
)


class AnyHistory(RuleBasedStateMachine):
    """``validate`` recounts everything, masks that were asked for included, one node at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims()
        self.lent: list[tuple[Snapshot, list[list[int]]]] = []
        self.open: list[tuple[ExitStack, Statement, list[list[int]]]] = []

    @rule(name=NAMES, offers=OFFERS)
    def registers(self, name: str, offers: dict[str, int]) -> None:
        """Let device plugins come and go on an existing node, which then has these names beside the usual ones."""
        if (known := self.claims.nodes.get(name)) is not None:
            usual = {name: amount for name, amount in known.allocatable if name not in MANY}
            self.claims.set_node(replace(known, allocatable=tuple(sorted((usual | offers).items()))))

    @rule()
    def lend(self) -> None:
        """Lend the snapshot that is shown now."""
        view = self.claims.snapshot()
        self.lent.append((view, view.free.tolist()))
        self.claims.lend()

    @rule(uids=st.lists(st.sampled_from("pqrst")), name=NAMES, amounts=REQUESTS)
    def try_out(self, uids: list[str], name: str, amounts: tuple[tuple[str, int], ...]) -> None:
        """Open a statement that stays open while other statements go on."""
        stack = ExitStack()
        statement = stack.enter_context(self.claims.statement())
        self.claims.leave_out(statement, uids)
        statement.claim(name, amounts)
        self.open.append((stack, statement, statement.snapshot.free.tolist()))

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 9))
    def drop_statement(self, which: int) -> None:
        stack, _, _ = self.open.pop(which % len(self.open))
        stack.close()

    @rule(name=NAMES, gpus=st.integers(0, 8), labels=LABELS, taints=TAINTS, ready=st.booleans(), cordon=st.booleans())
    def set_node(
        self, name: str, gpus: int, labels: dict[str, str], taints: list[Taint], ready: bool, cordon: bool
    ) -> None:
        self.claims.set_node(
            node(name, gpus, labels=labels, taints=tuple(taints), ready=ready, unschedulable=cordon),
        )

    @rule(name=NAMES)
    def drop_node(self, name: str) -> None:
        self.claims.drop_node(name)

    @rule(uid=st.sampled_from("pqrst"), name=NAMES, amounts=REQUESTS, assumed=st.booleans())
    def charge(self, uid: str, name: str, amounts: tuple[tuple[str, int], ...], assumed: bool) -> None:
        pod = Pod(uid, "ns", uid, amounts, node=None if assumed else name)
        if assumed:
            self.claims.assume(pod, name)
        else:
            self.claims.confirm(pod)

    @rule(uid=st.sampled_from("pqrst"))
    def release(self, uid: str) -> None:
        self.claims.release(uid)

    @rule(selection=SELECTIONS)
    def ask(self, selection: Selection) -> None:
        self.claims.snapshot().eligible(selection)

    @invariant()
    def everything_adds_up(self) -> None:
        validate_claims(self.claims)
        assert all(view.free.tolist() == shown for view, shown in self.lent)
        assert all(statement.snapshot.free.tolist() == shown for _, statement, shown in self.open)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=80, stateful_step_count=30, derandomize=True, deadline=None)


def test_a_ninth_name_of_a_resource_comes_with_a_node_or_by_an_update() -> None:
    claims, eight = Claims(), {f"example.com/{number}": number for number in range(8)}
    claims.set_node(Node("first", tuple(eight.items())))
    claims.set_node(Node("first", (*eight.items(), ("late", 3))))
    claims.set_node(Node("second", tuple((f"other-{number}", 0) for number in range(30))))
    assert claims.fits("first", (("late", 3),))
    assert not claims.fits("first", (("late", 4),))
    assert claims.room("second")["other-29"] == 0


def _of_5000_nodes() -> Claims:
    claims = Claims()
    for number in range(NODES):
        claims.set_node(node(f"n-{number}"))
    with claims.statement():
        pass
    claims.snapshot()
    return claims


def test_a_statement_on_5000_nodes_copies_the_rows_that_have_changed() -> None:
    """Only rows claimed since the last statement, and rows that it changes itself, are copied; no whole array is."""
    claims = _of_5000_nodes()
    tracemalloc.start()
    try:
        for turn in range(2):  # the first one also allocates what Python keeps for later
            for number in range(5):
                claims.assume(Pod(f"{turn}-{number}", "ns", "p", requests(4)), f"n-{number * 1000}")
            assert [len(scratch.behind) for scratch in claims._table._scratches] == [5]
            before, _peak = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            with claims.statement() as statement:
                claims.leave_out(statement, [f"{turn}-0"])
                view = statement.snapshot
                free = view.free[view.resources[GPU], [view.rows["n-0"], view.rows["n-1000"]]]
                assert free.tolist() == [8 - 4 * turn, 4 - 4 * turn]
            _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < NODES * 8 // 4
    assert [len(scratch.behind) for scratch in claims._table._scratches] == [0]


def test_two_statements_at_a_time_do_not_see_each_other() -> None:
    claims = Claims()
    claims.set_node(node("a"))
    with claims.statement() as first, claims.statement() as second:
        first.claim("a", requests(3))
        second.claim("a", requests(1))
        assert [
            int(statement.snapshot.free[statement.snapshot.resources[GPU], 0]) for statement in (first, second)
        ] == [5, 7]
        assert claims.room("a")[GPU] == 8
    validate_claims(claims)


def domains_of(claims: Claims) -> dict[str, str | None]:
    view = claims.snapshot()
    (level,) = view.levels
    codes = zip(view.names, level.codes, strict=True)
    return {name: level.names[code] if code >= 0 else None for name, code in codes}


def test_a_node_is_in_the_domain_its_whole_label_names_and_without_the_label_in_none() -> None:
    claims = Claims()
    same_id = [node("x", clique="c0ffee.1"), node("y", clique="decaf.1"), node("z")]
    for machine in same_id:
        claims.set_node(machine)
    assert domains_of(claims) == {"x": "c0ffee.1", "y": "decaf.1", "z": None}


def test_a_label_that_changes_moves_the_node() -> None:
    claims = Claims()
    for machine in cluster("a: 2x8", "b: 1x8"):
        claims.set_node(machine)
    claims.set_node(replace(claims.nodes["a-0"], labels={CLIQUE: "b"}))
    claims.set_node(replace(claims.nodes["a-1"], labels={}))
    assert domains_of(claims) == {"a-0": "b", "a-1": None, "b-0": "b"}


@pytest.mark.parametrize(
    ("change", "looks"),
    [
        ({"allocatable": requests(4)}, 0),
        ({"labels": {CLIQUE: "b"}}, 1),
        ({"taints": (Taint("spot", "", "NoSchedule"),)}, 1),
        ({"unschedulable": True}, 1),
        ({"ready": False}, 1),
    ],
)
def test_nodes_are_selected_again_if_more_than_an_amount_has_changed(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], looks: int
) -> None:
    claims = Claims()
    for machine in cluster("a: 2x8"):
        claims.set_node(machine)
    asks = Selection(((CLIQUE, "a"),))
    assert claims.snapshot().eligible(asks).tolist() == [True, True]
    looked: list[Selection] = []
    evaluate = Facts._evaluate

    def evaluating(self: Facts, selection: Selection) -> Steps[Mask]:
        looked.append(selection)
        return evaluate(self, selection)

    monkeypatch.setattr(Facts, "_evaluate", evaluating)
    claims.set_node(replace(claims.nodes["a-0"], **change))
    assert claims.snapshot().eligible(asks).tolist() == [not looks, True]
    assert len(looked) == looks


def test_domains_of_long_ago_are_forgotten() -> None:
    claims = Claims()
    for number in range(200):
        claims.set_node(node("same", clique=f"fabric-{number}"))
        assert domains_of(claims) == {"same": f"fabric-{number}"}
    (level,) = claims.snapshot().levels
    assert len(level.names) < 100


def test_levels_are_label_keys_nearest_first() -> None:
    claims = Claims((LevelKey("r", "rack"), LevelKey("z", "zone")))
    claims.set_node(Node("n", (), {"rack": "r1", "zone": "z1"}))
    assert [(level.key, level.names[level.codes[0]]) for level in claims.snapshot().levels] == [
        ("rack", "r1"),
        ("zone", "z1"),
    ]


def test_a_snapshot_that_is_lent_stays_as_it_is_whatever_changes() -> None:
    claims = Claims()
    for machine in cluster("a: 3x8", "b: 2x8"):
        claims.set_node(machine)
    asks = Selection((("kubernetes.io/hostname", "a-1"),))
    view, fresh = claims.snapshot(), claims.snapshot()
    claims.lend()
    claims.assume(Pod("one", "ns", "one", requests(8)), "a-0")
    assert view.free.tolist() == fresh.free.tolist() == view.allocatable.tolist()
    before = [level.codes.tolist() for level in view.levels]
    claims.drop_node("a-1")
    claims.set_node(node("c-0", labels={CLIQUE: "c"}))
    claims.set_node(Node("a-2", (("example.com/new", 4), ("pods", 10)), {CLIQUE: "b"}))
    claims.confirm(Pod("two", "ns", "two", requests(8), node="b-0"))
    validate_claims(claims)
    assert list(view.names) == ["a-0", "a-1", "a-2", "b-0", "b-1"]
    assert view.free.tolist() == view.allocatable.tolist()
    assert view.eligible(asks).tolist() == [False, True, False, False, False]
    assert [level.codes.tolist() for level in view.levels] == before
    assert view.demand((("example.com/new", 1),)) is None
    assert not claims.snapshot().eligible(asks).any()
