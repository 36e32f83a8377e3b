"""The order of writes: Bindings before all else, and a large gang delays no other gang."""

from __future__ import annotations

from extender.runtime.budget import Budget, Lane


class Writes:
    """Writes through a budget of one, each of which ends before the next begins."""

    def __init__(self) -> None:
        self._budget = Budget(1)
        self._gangs: list[str] = []
        self._begun: list[int] = []

    def ask(self, lane: Lane, gang: str, count: int = 1) -> None:
        for _ in range(count):
            self._gangs.append(gang)
            ticket = len(self._gangs) - 1
            if self._budget.take(lane, gang, ticket):
                self._begun.append(ticket)

    def finish(self) -> list[str]:
        """The gangs in the order in which they wrote."""
        while (ticket := self._budget.give_back()) is not None:
            self._begun.append(ticket)
        return [self._gangs[ticket] for ticket in self._begun]


def test_a_large_gang_delays_a_small_one_by_one_round_at_most() -> None:
    writes = Writes()
    writes.ask(Lane.OTHER, "large", 200)
    writes.ask(Lane.OTHER, "small", 8)
    order = writes.finish()
    last = max(index for index, gang in enumerate(order) if gang == "small")
    assert last <= 33 + 8
    assert len(order) == 208


def test_small_gangs_are_carried_out_one_after_the_other() -> None:
    writes = Writes()
    for gang in ("a", "b", "c"):
        writes.ask(Lane.OTHER, gang, 4)
    assert writes.finish() == [*"aaaabbbbcccc"]


def test_a_binding_goes_before_everything_that_waits() -> None:
    writes = Writes()
    writes.ask(Lane.OTHER, "nominations", 3)
    writes.ask(Lane.UNGATE, "gates", 2)
    writes.ask(Lane.BINDING, "bindings", 2)
    writes.ask(Lane.LAST_BINDING, "last")
    order = writes.finish()
    assert order == ["nominations", "last", "bindings", "bindings", "gates", "gates", "nominations", "nominations"]


def test_as_many_turns_at_once_as_allowed() -> None:
    budget = Budget(3)
    taken = [ticket for ticket in range(5) if budget.take(Lane.OTHER, "gang", ticket)]
    assert taken == [0, 1, 2]
    assert [budget.give_back() for _ in range(5)] == [3, 4, None, None, None]
    assert budget.take(Lane.OTHER, "gang", 6)


def test_a_write_of_no_gang_holds_up_nobody() -> None:
    budget = Budget(1)
    assert [budget.take(Lane.OTHER, gang, number) for number, gang in enumerate((None, None, "train"))] == [
        True,
        False,
        False,
    ]
    assert [budget.give_back() for _ in range(3)] == [1, 2, None]
