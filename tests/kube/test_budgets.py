"""PodDisruptionBudgets as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import BudgetGone, BudgetSeen
from extender.kube.reading.identity import UnreadableError
from extender.kube.resources import BUDGETS
from policies.model import DisruptionBudget, Requirement


def read(spec: dict[str, Any], status: dict[str, Any] | None, **meta: object) -> DisruptionBudget:
    meta = {"name": "web", "namespace": "team", "uid": "u1", "generation": 2, **meta}
    raw = msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": spec, "status": status}))
    _, budget = BUDGETS.read(raw)
    assert budget is not None
    return budget


def test_selector_and_how_many_may_go_are_read() -> None:
    spec = {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
    status = {"disruptionsAllowed": 3, "observedGeneration": 2, "currentHealthy": 6, "desiredHealthy": 3}
    assert read(spec, status) == DisruptionBudget("team", "web", (Requirement("app", "In", ("web",)),), 3)


@pytest.mark.parametrize(("spec", "selector"), [({}, None), ({"selector": {}}, ())])
def test_no_selector_selects_nothing_and_an_empty_one_everything(spec: dict[str, Any], selector: object) -> None:
    assert read(spec, {"disruptionsAllowed": 1, "observedGeneration": 2}).selector == selector


@pytest.mark.parametrize("status", [None, {}, {"disruptionsAllowed": 3, "observedGeneration": 1}])
def test_nobody_may_go_by_a_status_that_is_older_than_the_spec(status: dict[str, Any] | None) -> None:
    assert read({"selector": {}}, status).allowed == 0


def test_one_without_a_name_is_skipped() -> None:
    with pytest.raises(UnreadableError, match="PodDisruptionBudget has no name"):
        read({}, None, name=None)


def test_it_becomes_events_and_is_not_missed_where_it_may_not_be_read() -> None:
    budget = read({"selector": {}}, None)
    assert BUDGETS.seen(budget) == BudgetSeen(budget)
    assert BUDGETS.gone(budget) == BudgetGone("team", "web")
    assert BUDGETS.dispensable
