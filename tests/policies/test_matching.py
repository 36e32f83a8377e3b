"""The nodes that a pod may run on, room apart: tables of what kube-scheduler's own plugins say."""

from __future__ import annotations

from typing import Any

import pytest

from extender.core.ledger.claims import Claims
from policies.model import Requirement, Selection, Taint, Terms, Toleration
from policies.placement.matching import admits, eligible
from tests.builders import node, snapshot
from tests.effort import calls

LABELS = {"zone": "a", "gpus": "8", "odd": "1_000", "name": "x-1"}

NO_SCHEDULE = Taint("gpu", "yes", "NoSchedule")

TOLERATIONS: list[tuple[str, Taint, tuple[Toleration, ...], bool]] = [
    ("an untolerated taint", NO_SCHEDULE, (), False),
    ("a NoExecute taint", Taint("gpu", "yes", "NoExecute"), (), False),
    ("a preference is no obstacle", Taint("gpu", "yes", "PreferNoSchedule"), (), True),
    ("the same key and value", NO_SCHEDULE, (Toleration("gpu", "Equal", "yes", "NoSchedule"),), True),
    ("Equal is the default", NO_SCHEDULE, (Toleration("gpu", "", "yes", ""),), True),
    ("another value", NO_SCHEDULE, (Toleration("gpu", "Equal", "no", "NoSchedule"),), False),
    ("another key", NO_SCHEDULE, (Toleration("cpu", "Exists", "", ""),), False),
    ("another effect", NO_SCHEDULE, (Toleration("gpu", "Exists", "", "NoExecute"),), False),
    ("Exists takes any value", NO_SCHEDULE, (Toleration("gpu", "Exists", "", ""),), True),
    ("Exists without a key takes everything", NO_SCHEDULE, (Toleration("", "Exists", "", ""),), True),
    ("any one of several", NO_SCHEDULE, (Toleration("a", "Exists", "", ""), Toleration("gpu", "Exists", "", "")), True),
]


@pytest.mark.parametrize(("what", "taint", "tolerations", "expected"), TOLERATIONS, ids=[row[0] for row in TOLERATIONS])
def test_taints_keep_away_whoever_does_not_tolerate_them(
    what: str, taint: Taint, tolerations: tuple[Toleration, ...], expected: bool
) -> None:
    assert admits(node("n", taints=(taint,)), Selection(tolerations=tolerations)) is expected, what


def test_every_taint_has_to_be_tolerated() -> None:
    both = node("n", taints=(NO_SCHEDULE, Taint("other", "", "NoSchedule")))
    assert not admits(both, Selection(tolerations=(Toleration("gpu", "Exists", "", ""),)))


@pytest.mark.parametrize(
    ("facts", "tolerations", "expected"),
    [
        ({"unschedulable": True}, (), False),
        ({"unschedulable": True}, (Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),), True),
        ({"ready": False}, (Toleration("", "Exists", "", ""),), False),
        ({}, (), True),
    ],
)
def test_cordoned_and_unready_nodes(facts: dict[str, Any], tolerations: tuple[Toleration, ...], expected: bool) -> None:
    assert admits(node("n", **facts), Selection(tolerations=tolerations)) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ((("zone", "a"),), True),
        ((("zone", "b"),), False),
        ((("zone", "a"), ("gpus", "8")), True),
        (
            (
                ("zone", "a"),
                ("absent", ""),
            ),
            False,
        ),
    ],
)
def test_a_node_selector_wants_every_label(selector: tuple[tuple[str, str], ...], expected: bool) -> None:
    assert admits(node("n", labels=LABELS), Selection(node_selector=selector)) is expected


OPERATORS: list[tuple[str, str, tuple[str, ...], bool]] = [
    ("zone", "In", ("a", "b"), True),
    ("zone", "In", ("b",), False),
    ("absent", "In", ("a",), False),
    ("zone", "NotIn", ("b",), True),
    ("zone", "NotIn", ("a", "b"), False),
    ("absent", "NotIn", ("a",), True),
    ("zone", "Exists", (), True),
    ("absent", "Exists", (), False),
    ("zone", "DoesNotExist", (), False),
    ("absent", "DoesNotExist", (), True),
    ("gpus", "Gt", ("7",), True),
    ("gpus", "Gt", ("8",), False),
    ("gpus", "Lt", ("9",), True),
    ("gpus", "Lt", ("8",), False),
    ("gpus", "Gt", ("-1",), True),
    ("absent", "Gt", ("0",), False),
    ("zone", "Gt", ("0",), False),
    ("gpus", "Lt", ("many",), False),
    ("gpus", "Gt", (), False),
    ("odd", "Gt", ("7",), False),
    ("zone", "Resembles", ("a",), False),
]


@pytest.mark.parametrize(("key", "operator", "values", "expected"), OPERATORS)
def test_each_operator_of_a_required_affinity(key: str, operator: str, values: tuple[str, ...], expected: bool) -> None:
    selection = Selection(affinity=((Requirement(key, operator, values),),))
    assert admits(node("n", labels=LABELS), selection) is expected


def test_any_term_will_do_and_all_of_a_term_must_hold() -> None:
    here, there = Requirement("zone", "In", ("a",)), Requirement("zone", "In", ("b",))
    host = node("n", labels=LABELS)
    assert admits(host, Selection(affinity=((there,), (here,))))
    assert not admits(host, Selection(affinity=((here, there),)))


def test_empty_terms_and_empty_lists_of_terms_match_nothing() -> None:
    host = node("n", labels=LABELS)
    assert not admits(host, Selection(affinity=()))
    assert not admits(host, Selection(affinity=((),)))
    assert admits(host, Selection(affinity=((), (Requirement("zone", "Exists", ()),))))


def test_every_volume_has_to_be_reached_besides_what_the_pod_asks_for() -> None:
    def zones(*values: str) -> Terms:
        return ((Requirement("zone", "In", values),), (Requirement("zone", "In", ("far",)),))

    host = node("n", labels=LABELS)
    assert admits(host, Selection(volumes=(zones("a"), zones("a", "b"))))
    assert not admits(host, Selection(volumes=(zones("a"), zones("b"))))
    assert not admits(host, Selection((("zone", "b"),), volumes=(zones("a"),)))
    assert not admits(host, Selection(volumes=((),)))
    nodes = [node(f"n-{zone}", labels={"zone": zone}) for zone in ("a", "b", "far")]
    selection = Selection(volumes=(zones("a", "b"), zones("b")))
    assert snapshot(nodes).eligible(selection).tolist() == [False, True, True]


def test_match_fields_read_the_nodes_name_and_not_its_labels() -> None:
    by_name = Selection(affinity=((Requirement("metadata.name", "In", ("n",), is_field=True),),))
    assert admits(node("n"), by_name)
    assert not admits(node("m", labels={"metadata.name": "n"}), by_name)
    but_not = Selection(affinity=((Requirement("metadata.name", "NotIn", ("n",), is_field=True),),))
    assert not admits(node("n"), but_not)


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Nonsense"])
def test_a_question_about_a_label_costs_the_same_however_many_values_it_has(operator: str) -> None:
    """Any user can ask 128 of them in one pod, about a label with another value on every node."""
    nodes = [node(f"n-{number}", labels={"size": str(number)}) for number in range(1000)]
    view = snapshot(nodes)
    selections = [Selection(affinity=((Requirement("size", operator, (str(first), "x")),),)) for first in range(3)]
    view.eligible(selections[0])
    assert calls(lambda: view.eligible(selections[1])) < 100
    expected = [admits(host, selections[2]) for host in nodes]
    assert view.eligible(selections[2]).tolist() == expected


def test_a_selection_is_evaluated_once_however_many_others_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    view = snapshot([node(f"n-{number}") for number in range(20)])
    evaluated: list[Selection] = []

    def counted(selection: Selection, *rest: Any) -> Any:
        evaluated.append(selection)
        return eligible(selection, *rest)

    monkeypatch.setattr("extender.core.ledger.nodes.eligible", counted)
    mine, others = Selection((("a", "b"),)), [Selection((("a", str(number)),)) for number in range(2000)]
    for wanted in (mine, *others, mine, *others):
        assert view.eligible(wanted).tolist() == [False] * 20
    assert len(evaluated) == 2001


def test_what_is_known_of_a_selection_goes_with_the_pods_that_ask_for_it() -> None:
    claims = Claims()
    claims.set_node(node("a"))
    view = claims.snapshot()
    for number in range(100):
        view.eligible(Selection((("a", str(number)),)))
    assert len(claims._table._facts._masks) == 0
