"""The pages of facts say what the facts in tests/facts say."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import pytest

from tests.facts import recorder
from tests.facts.document import NOT_MEASURED, documents
from tests.facts.fact import sections
from tests.facts.results import load


def test_the_pages_are_made_from_the_facts() -> None:
    for page, text in documents().items():
        assert page.read_text() == text, "python -m tests.facts --document makes it again"


def test_no_two_facts_share_an_id() -> None:
    ids = Counter(fact.id for section in sections() for fact in section.facts)
    assert [name for name, times in ids.items() if times > 1] == []


def test_every_slow_fact_has_been_run_and_every_figure_measured() -> None:
    owing = [fact for section in sections() for fact in section.facts if fact.slow or "{" in fact.result]
    assert [fact.id for fact in owing if fact.id not in load(fact.module)] == []
    assert NOT_MEASURED not in "".join(documents().values())


def test_no_run_is_of_a_fact_that_is_gone() -> None:
    for section in sections():
        assert set(load(section.module)) <= {fact.id for fact in section.facts}


@pytest.mark.parametrize("outcomes", [["passed", "failed"], ["failed", "passed"], ["passed", "passed"]])
def test_a_fact_is_recorded_when_it_holds_with_every_parameter(
    outcomes: list[Literal["passed", "failed"]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: dict[str, object] = {}
    monkeypatch.setattr(recorder, "store", lambda module, runs: stored.update({module: runs}))
    known = next(fact for section in sections() for fact in section.facts if fact.slow)
    keeper = recorder.Recorder()
    for outcome in outcomes:
        keeper.saw(known, pytest.TestReport("", ("", 0, ""), {}, outcome, None, "call"))
    keeper.store()
    assert (known.module in stored) == ("failed" not in outcomes)
