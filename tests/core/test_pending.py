"""Pending workloads: each is woken by the cause that it waits for, and by no other; and the table of causes is true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender.core.causes import Cause
from extender.core.cycle.cycle import Cycle
from extender.core.ledger.claims import Claims
from extender.core.ledger.devices import Devices
from extender.core.ledger.pending import (
    ANY_ROOM,
    EVERY_ROOM,
    Changes,
    Config,
    FreedQuota,
    Nodes,
    Own,
    Pending,
    QuotaFor,
    RoomFor,
    Time,
    WakeCause,
    WakeOn,
)
from extender.core.ledger.store import Store
from extender.core.ledger.volumes import Volumes
from extender.core.limits import Limits
from extender.core.queue.line import Line
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.steps import Steps
from tests.builders import gang, node, single
from tests.core.script import Script
from tests.simulation.plants.pending import room_that_comes_free_wakes_nothing
from tests.simulation.wakes import not_woken

CORE = Path(__file__).parents[2] / "extender" / "core"
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| .* \| (`[\w./]+`(?:, `[\w./]+`)*) \|$", re.MULTILINE)
TABLE = Path(__file__).with_name("causes.md").read_text()
KINDS = ("Own", "RoomFor", "QuotaFor", "FreedQuota", "Time", "Nodes", "Config")
ONE, OTHER = Shape(1, (), (), (), ()), Shape(2, (), (), (), ())
AMOUNTS = ((("gpus", "nvidia.com/gpu"), 8),)


def key(name: str, namespace: str = "team") -> GroupKey:
    return GroupKey(namespace, name)


class Board:
    """Workloads that were looked at, each parked on the given cause."""

    def __init__(self, **parked: WakeOn | None) -> None:
        claims = Claims()
        self.store, self.changes = Store(Volumes(claims), Devices(claims, Limits())), Changes()
        self.pending = Pending(Limits(), self.store, self.changes)
        for number, (name, wake_on) in enumerate(parked.items()):
            self.come(name, wake_on, number)

    def come(self, name: str, wake_on: WakeOn | None, number: int = 0) -> None:
        workload = self.store.add(key(name))
        self.pending.come(workload.key, changed=True)
        self.pending.dequeue(workload.key)
        turn = (0, (number,))
        turns = (turn, turn) if isinstance(wake_on, QuotaFor) else None
        self.pending.park(workload, *([] if wake_on is None else [wake_on]), turns=turns)

    def woken(self, cause: WakeCause) -> list[str]:
        self.pending.wake(cause)
        return [workload.name for workload in self.pending.take_due()]


@pytest.mark.parametrize(
    ("cause", "woken"),
    [
        (Own(key("own")), ["own"]),
        (Own(key("quota")), ["quota"]),
        (Own(key("unknown")), []),
        (RoomFor("", ONE), ["room"]),
        (RoomFor("", OTHER), []),
        (RoomFor("a", ONE), []),
        (ANY_ROOM, ["any"]),
        (EVERY_ROOM, ["room", "any"]),
        (QuotaFor("a", ONE), ["quota"]),
        (QuotaFor("b", ONE), []),
        (QuotaFor("a", OTHER), []),
        (Time(9.0), []),
        (Time(10.0), ["time"]),
        (Nodes(), []),
        (Config(), ["own", "room", "any", "quota", "time"]),
        (Config("team"), ["own", "room", "any", "quota", "time"]),
        (Config("another"), []),
    ],
)
def test_a_cause_wakes_what_waits_for_it_and_nothing_else(cause: WakeCause, woken: list[str]) -> None:
    board = Board(own=None, room=RoomFor("", ONE), any=ANY_ROOM, quota=QuotaFor("a", ONE), time=Time(10.0))
    assert board.woken(cause) == woken
    assert board.woken(Nodes()) == woken, "it is due until it is looked at"


def test_changed_nodes_are_put_off_until_the_next_cycle() -> None:
    board = Board(room=RoomFor("", ONE))
    board.pending.wake(Nodes())
    assert board.changes.nodes


def test_what_waits_for_several_causes_is_woken_by_the_first() -> None:
    board = Board(other=ANY_ROOM)
    workload = board.store.add(key("first"))
    board.come("first", None)
    board.pending.park(workload, RoomFor("", ONE), Time(5.0))
    assert board.pending.next_time() == 5.0
    assert board.woken(RoomFor("", ONE)) == ["first"]
    assert board.pending.next_time() is None
    board.pending.dequeue(workload.key)
    assert board.woken(Time(5.0)) == [], "nothing is left of what it waited for"


def test_an_instant_counts_that_it_was_parked_for_last() -> None:
    board = Board(one=Time(5.0))
    board.pending.park(board.store.workloads[key("one")], Time(7.0))
    assert board.pending.next_time() == 7.0
    assert board.woken(Time(6.0)) == []
    assert board.woken(Time(7.0)) == ["one"]


def test_those_that_wait_for_the_same_quota_come_together_and_stay_parked() -> None:
    board = Board(late=QuotaFor("a", ONE), early=QuotaFor("a", ONE), other=QuotaFor("a", OTHER))
    assert board.woken(FreedQuota("a", AMOUNTS, (ONE,))) == []
    [(queue, entries, amounts)] = board.pending.take_invited()
    assert (queue, [entry[-1].key.name for entry in entries], amounts) == ("a", ["late", "early"], AMOUNTS)
    assert [*board.pending.take_invited()] == []
    assert board.pending.parked(QuotaFor("a", ONE)) == [key("late"), key("early")]


def test_a_cause_of_its_own_outweighs_that_of_its_shape() -> None:
    board = Board(one=RoomFor("", ONE))
    for cause, counts in ((RoomFor("", ONE), RoomFor("", ONE)), (Own(key("one")), Own(key("one")))):
        board.pending.wake(cause)
        assert board.pending.due == {key("one"): counts}
    board.pending.wake(Config())
    assert board.pending.due == {key("one"): Own(key("one"))}


def test_what_is_due_again_is_not_parked() -> None:
    board = Board(one=ANY_ROOM)
    board.pending.wake(Own(key("one")))
    board.pending.park(board.store.workloads[key("one")], RoomFor("", ONE))
    assert board.pending.wake_on(key("one")) == ()
    assert [*board.pending.due] == [key("one")]


def test_what_is_asked_for_is_worked_out_anew_even_of_what_does_not_wait() -> None:
    board = Board(one=ANY_ROOM)
    workload = board.store.add(key("runs"))
    before = workload.version
    assert board.woken(Own(workload.key, recompute=True)) == []
    assert workload.version > before
    assert workload.key in board.store.dirty


def test_what_waits_no_longer_is_not_woken() -> None:
    board = Board(one=RoomFor("", ONE), other=Time(5.0))
    for name in ("one", "other"):
        board.pending.leave(key(name))
    assert board.woken(EVERY_ROOM) == []
    assert board.pending.next_time() is None
    assert board.pending.shapes(RoomFor) == []


def test_a_cycle_costs_nothing_for_what_is_parked_for_another_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    turn, has_known_shortfall = Cycle._turn, Cycle._has_known_shortfall

    def taking_turns(self: Cycle, workload: Workload, line: Line) -> Steps[int]:
        looked_at.append(workload.key.name)
        return (yield from turn(self, workload, line))

    def glancing(self: Cycle, workload: Workload, explained: Cause | None = None) -> bool:
        looked_at.append(workload.key.name)
        return has_known_shortfall(self, workload, explained)

    pods = [pod for number in range(40) for pod in gang(f"odd{number:02}", 1, gpus=9 + number)]
    small, other = single("small", gpus=8, node="n0"), single("other", gpus=8, node="n1")
    script = Script(node("n0", gpus=8), node("n1", gpus=8), small, other, *pods, *gang("fits", 2, gpus=8))
    assert script.reason("fits") == script.reason("odd00") == "NoRoom"
    monkeypatch.setattr(Cycle, "_turn", taking_turns)
    monkeypatch.setattr(Cycle, "_has_known_shortfall", glancing)
    script.see(gang("new", 1, gpus=99))
    assert {*looked_at} == {"new"}, "no room came free"
    looked_at.clear()
    script.gone(small)
    assert {*looked_at} == {"fits"}, "of that room only its members make use"


def test_workloads_of_one_shape_take_one_turn_while_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    turn = Cycle._turn

    def taking_turns(self: Cycle, workload: Workload, line: Line) -> Steps[int]:
        turns.append(workload.key.name)
        return (yield from turn(self, workload, line))

    alike = [pod for number in range(20) for pod in gang(f"wide{number:02}", 2, gpus=8)]
    script = Script(node("n0", gpus=8), *alike, *gang("high", 2, gpus=8, priority=5))
    monkeypatch.setattr(Cycle, "_turn", taking_turns)
    script.see(node("n0", gpus=8, cpu=97))
    assert sorted(turns) == ["high", "wide00"]
    script.see(node("n1", gpus=8))
    assert script.reason("high") != "NoRoom"
    assert script.reason("wide00") == script.reason("wide19") == "NoRoom"


@pytest.mark.parametrize("lost", [False, True])
def test_a_look_at_everything_finds_what_was_not_woken(monkeypatch: pytest.MonkeyPatch, *, lost: bool) -> None:
    """The referee does this when nothing is due."""
    if lost:
        room_that_comes_free_wakes_nothing(monkeypatch)
    small = single("small", node="n0")
    script = Script(node("n0"), small, *gang("train", 1))
    assert script.reason("train") == "NoRoom"
    script.gone(small)
    assert bool([*not_woken(script.core, script.now)]) is lost


def raised(tree: ast.AST) -> Iterator[str]:
    """Yield the kinds of the causes that are raised.

    A variable holds the causes that the workloads of a shape wait for.
    """
    for call in ast.walk(tree):
        match call:
            case ast.Call(func=ast.Attribute(value=of, attr="wake" | "_wake" | "wake_in_steps"), args=[cause]):
                names = {node.id for node in ast.walk(cause) if isinstance(node, ast.Name)}
                yield from names & {*KINDS}
                if names & {"ANY_ROOM", "EVERY_ROOM"}:
                    yield "RoomFor"
                elif isinstance(cause, ast.Name) and isinstance(of, ast.Attribute) and of.attr == "_pending":
                    yield from ("RoomFor", "QuotaFor")


def test_the_table_says_what_raises_which_cause() -> None:
    files = {str(path.relative_to(CORE)): ast.parse(path.read_text()) for path in CORE.rglob("*.py")}
    raises = {(kind, file) for file, tree in files.items() for kind in raised(tree)}
    rows = ROW.findall(TABLE)
    assert len(rows) == TABLE.count("\n| `")
    stated = {
        (kind, file)
        for kinds, places in rows
        for kind in re.findall(r"\w+", kinds)
        for file in re.findall(r"[\w./]+", places)
    }
    assert stated == raises
    assert {kind for kind, _ in stated} == {*KINDS}
