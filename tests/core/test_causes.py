"""The core acts on causes: it compares no code, text or identity of a reason, and ``explain/`` alone makes reasons."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.core import causes
from extender.core.explain import reasons
from extender.core.explain.reasons import CODES, reason_of
from tests.builders import busy, cluster, gang
from tests.core.script import Script

EXTENDER = Path(__file__).parents[2] / "extender"
MAKER = EXTENDER / "core" / "explain" / "reasons.py"
MADE_FOR_PEOPLE = ("Reason", "reason_of", "code_of", "turn_text")
"""The names that the core may import from ``explain/`` only for texts: for other uses ``text_of`` is enough."""
TEXTS = ("code", "message", "reason")
CAUSES = ("cause", "why", "trouble", "surplus", "reason")


def offences(source: str) -> Iterator[str]:
    """Yield each line of the core that makes a reason, or depends on its text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module="extender.core.explain.reasons", names=names):
                if made := [name.name for name in names if name.name in MADE_FOR_PEOPLE]:
                    yield f"{node.lineno}: imports {', '.join(made)}"
            case ast.Call(func=ast.Name(id="Reason")):
                yield f"{node.lineno}: makes a reason"
            case ast.Compare(left=left, ops=ops, comparators=others):
                for left_side, other, operator in zip([left, *others], others, ops, strict=False):
                    yield from (f"{node.lineno}: {offence}" for offence in _compared(left_side, other, operator))
            case ast.MatchValue(value=ast.Constant(value=str() as text)) if text in CODES:
                yield f"{node.lineno}: matches the code {text}"


def _compared(first: ast.expr, other: ast.expr, operator: ast.cmpop) -> Iterator[str]:
    names = [inner for side in (first, other) for inner in _inside(side)]
    if any(isinstance(inner, ast.Constant) and inner.value in CODES for inner in names):
        yield "compares a code"
    if any(isinstance(side, ast.Attribute) and side.attr in TEXTS and _is_of_cause(side.value) for side in names):
        yield "compares what people read of a cause"
    if any(
        isinstance(inner, ast.Call) and getattr(inner.func, "id", "") in ("text_of", *MADE_FOR_PEOPLE)
        for inner in names
    ):
        yield "compares the text of a cause"
    if isinstance(operator, ast.Is | ast.IsNot) and not isinstance(other, ast.Constant):  # but for None
        yield from ["compares the identity of a cause"] if _is_of_cause(first) or _is_of_cause(other) else []


def _inside(side: ast.expr) -> Iterator[ast.expr]:
    """Yield an operand, and the elements of a tuple, a list or a set."""
    yield side
    yield from side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else ()


def _is_of_cause(expression: ast.expr) -> bool:
    """Whether it is called as causes and reasons are."""
    return getattr(expression, "attr", getattr(expression, "id", "")) in CAUSES


def test_reasons_are_made_in_one_place_and_the_core_hangs_on_none() -> None:
    core = [file for file in sorted((EXTENDER / "core").rglob("*.py")) if file.parent.name != "explain"]
    assert len(core) > 50
    by_file = {str(file.relative_to(EXTENDER)): [*offences(file.read_text())] for file in core}
    assert {name: lines for name, lines in by_file.items() if lines} == {}
    elsewhere = [file for file in sorted(EXTENDER.rglob("*.py")) if file != MAKER and "Reason(" in file.read_text()]
    makes = [file.name for file in elsewhere if any("makes" in offence for offence in offences(file.read_text()))]
    assert makes == []


@pytest.mark.parametrize(
    "line",
    [
        'found = Reason("NoRoom", "no room")',
        "from extender.core.explain.reasons import code_of",
        'if why.code == "NoRoom": pass',
        "if why.code in CODES: pass",
        'if kind in ("NoRoom", "NoQuota"): pass',
        "if why is not workload.reason_state.cause: pass",
        "if workload.reason_state.cause is found: pass",
        'if "pinned" in text_of(why): pass',
        "if found.cause.message == text: pass",
        'match code:\n    case "NoRoom": pass',
    ],
)
def test_a_line_that_hangs_on_a_reason_is_found(line: str) -> None:
    assert [*offences(line)]


@pytest.mark.parametrize(
    "line",
    [
        "if isinstance(why, NoRoom | NoQuota): pass",
        "if why is None or why != workload.reason_state.cause: pass",
        "self.revoke(workload, text_of(why), now)",
        "if error.code == 404: pass",
    ],
)
def test_a_line_that_acts_on_a_cause_is_not(line: str) -> None:
    assert not [*offences(line)]


def test_the_text_of_a_cause_is_made_once_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[causes.Cause] = []
    text_of = reasons.text_of

    def recorded(cause: causes.Cause) -> str:
        made.append(cause)
        return text_of(cause)

    monkeypatch.setattr(reasons, "text_of", recorded)
    reason_of.cache_clear()
    script = Script(*cluster("a: 2x8"), *busy("a-0 a-1", 8))
    script.see(*(pod for number in range(20) for pod in gang(f"wait-{number}", 2)))
    script.advance(0.5)
    waiting = [workload.reason_state.cause for workload in script.core.state.workloads.values()]
    assert {type(cause) for cause in waiting} == {causes.NoRoom}
    assert made == [], "nothing is reported yet"
    script.advance(5)
    assert len([cause for cause in made if cause == waiting[0]]) == 1, "equal causes share one text"
    assert script.message("wait-0") == script.message("wait-19")
