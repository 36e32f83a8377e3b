"""Lines of devices: requests fit on them exactly where a matching gives each a device of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policies.devices.lines import Ask, Devices, Line, lines_of
from policies.words import WHOLE

MATCHES = st.integers(1, 31)
KNOWN = st.lists(st.integers(0, 31), min_size=1, max_size=8)
"""Requests by the devices of the cluster that they match, as a bit mask; the node has some of these devices."""


def matched(asks: Sequence[Ask], devices: Sequence[int]) -> bool:
    """The oracle: whether each unit of the requests gets a device of its own, by augmenting paths."""
    units = [ask.match for ask in asks for _ in range(ask.count or 0)]
    holder: dict[int, int] = {}

    def give(unit: int, tried: set[int]) -> bool:
        for number, match in enumerate(devices):
            if match & units[unit] and number not in tried:
                tried.add(number)
                if number not in holder or give(holder[number], tried):
                    holder[number] = unit
                    return True
        return False

    return all(give(unit, set()) for unit in range(len(units)))


def node(free: Sequence[int], used: Sequence[int] = ()) -> list[Devices]:
    there, left = Counter([*free, *used]), Counter(free)
    return [Devices(match, there[match], left[match]) for match in there]


def fits(asks: Sequence[Ask], devices: Sequence[Devices], seen: Sequence[int], known: Sequence[Ask] = ()) -> bool:
    """Whether the lines let the requests fit: they take no more of each line than the node offers.

    ``known``: other requests that are in use.
    """
    lines = lines_of([*asks, *known], seen)
    return all(sum(line.amount_for(ask, seen) for ask in asks) <= line.offered(devices) for line in lines)


ASKS = st.lists(st.builds(Ask, MATCHES, st.integers(1, 3)), min_size=1, max_size=5)


@given(ASKS, KNOWN, st.data())
@settings(max_examples=600)
def test_requests_fit_where_each_gets_devices_of_its_own(
    asks: list[Ask], known: list[int], data: st.DataObject
) -> None:
    here = data.draw(st.lists(st.sampled_from(known), max_size=7))
    others = data.draw(ASKS)
    seen = sorted(set(known))
    assert fits(asks, node(here), seen, others) == matched(asks, here)


ALL_OF = st.one_of(st.builds(Ask, MATCHES, st.integers(1, 2)), st.builds(Ask, MATCHES, st.none()))


@given(st.lists(ALL_OF, min_size=1, max_size=3), KNOWN, st.data())
@example([Ask(1, None), Ask(2)], [1, 2, 3], None)
def test_whoever_takes_all_devices_leaves_none_and_needs_all_of_them(
    asks: list[Ask], known: list[int], data: st.DataObject | None
) -> None:
    here, used = (
        (known, []) if data is None else (data.draw(st.lists(st.sampled_from(known), max_size=5)) for _ in "ab")
    )
    if not fits(asks, node(here, used), sorted(set(known))):
        return
    left = list(here)
    for ask in sorted(asks, key=lambda ask: ask.count is not None):
        if ask.count is None:
            mine = [match for match in left if match & ask.match]
            assert mine, "at least one"
            assert not any(match & ask.match for match in used), "none of them is in use"
            assert sum(1 for match in here if match & ask.match) == len(mine), "nobody else has one of them"
            left = [match for match in left if not match & ask.match]
    assert matched([ask for ask in asks if ask.count is not None], left)


def test_all_of_a_node_is_one_of_it() -> None:
    seen = [0b1, 0b10]
    everything = Ask(0b1, None)
    assert fits([everything], node([0b1, 0b1]), seen)
    assert not fits([everything, everything], node([0b1, 0b1]), seen)
    assert not fits([everything, Ask(0b1)], node([0b1, 0b1]), seen)
    assert fits([everything, Ask(0b10)], node([0b1, 0b1, 0b10]), seen), "others do not concern it"
    assert not fits([everything], node([0b1], [0b1]), seen), "one is in use"
    assert not fits([everything], node([0b10]), seen), "it has none"
    assert fits([Ask(0b1)], node([0b1], [0b1]), seen, [everything])
    assert not fits([everything], [*node([0b1]), Devices(0, 1, 1, unfit=0b1)], seen), "one has a taint"


def test_admin_access_needs_devices_that_are_there_and_takes_none() -> None:
    look = Ask(0b1, 2, admin=True)
    assert fits([look, look, Ask(0b1, 1)], node([0b1], [0b1]), [0b1])
    assert not fits([look], node([0b1]), [0b1])


def test_nested_and_separate_requirements_have_one_line_each() -> None:
    seen = [0b001, 0b011, 0b111, 0b1000]
    lines = lines_of([Ask(1 << number) for number in range(4)], seen)
    assert sorted(line.match for line in lines) == [0b100, 0b110, 0b111, 0b1000]
    assert [line.amount_for(Ask(0b100), seen) for line in lines] == [1, 1, 1, 0]


def test_what_nothing_matches_has_a_line_of_its_own_that_offers_nothing() -> None:
    lines = lines_of([Ask(0b1), Ask(0b10)], [0b1])
    assert {line: line.offered(node([0b1])) for line in lines} == {Line(0b1): 1, Line(0b10): 0}
    assert not fits([Ask(0b10)], node([0b1]), [0b1])


def test_so_many_that_overlap_in_part_are_counted_as_far_as_lines_go() -> None:
    seen = [1 << first | 1 << other for first in range(12) for other in range(first)]
    lines = lines_of([Ask(1 << number) for number in range(12)], seen)
    assert len(lines) == 128
    assert {1 << number for number in range(12)} <= {line.match for line in lines}
    assert WHOLE > 10_000
