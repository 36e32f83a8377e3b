"""Selectors of vendors are evaluated as CEL evaluates them, and others are refused by name."""

from __future__ import annotations

import pytest

from policies.devices.selectors import Selector, SelectorError, UnreadSelectorError, Verdicts, in_short, version
from policies.model.devices import Facts
from tests.policies.devices.vendors import DEVICES, FAILS, SELECTORS, Published, Shipped, V

FACTS = {name: device.facts() for name, device in DEVICES.items()}


def answer(expression: str, facts: Facts) -> bool | str:
    try:
        return Selector(expression)(facts.get)
    except SelectorError:
        return FAILS


@pytest.mark.parametrize("shipped", SELECTORS, ids=lambda shipped: shipped.expression[:60])
def test_what_vendors_ship_is_answered_as_by_cel(shipped: Shipped) -> None:
    assert {name: answer(shipped.expression, FACTS[name]) for name in shipped.answers} == shipped.answers


@pytest.mark.parametrize("shipped", SELECTORS, ids=lambda shipped: shipped.expression[:60])
def test_remembered_answers_are_the_same(shipped: Shipped) -> None:
    verdicts = Verdicts([Selector(shipped.expression)])
    for _ in range(2):
        for name, facts in FACTS.items():
            verdict = verdicts.of(facts)
            assert (FAILS if isinstance(verdict, str) else verdict) == answer(shipped.expression, facts), name


DEVICE = Published(
    "d.example", {"yes": True, "one": 1, "text": "a b", "v": V("1.2.3-rc.1+b"), "o.example/x": 2}, {"m": "1500m"}
)
HERE = "device.attributes['d.example']"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Either side of && and || decides, also beside an error.
        (f"{HERE}.nope == 1 || true", True),
        (f"true || {HERE}.nope == 1", True),
        (f"{HERE}.nope == 1 && false", False),
        (f"{HERE}.nope == 1 || false", FAILS),
        (f"{HERE}.nope == 1 ? true : true", FAILS),
        # No type is another one.
        (f"{HERE}.yes == 1", False),
        (f"{HERE}.one == true", False),
        (f"{HERE}.one == '1'", False),
        (f"{HERE}.one == 1.0", True),
        (f"{HERE}.one < '2'", FAILS),
        (f"{HERE}.text", FAILS),
        (f"{HERE}.one && true", FAILS),
        (f"{HERE}.v == '1.2.3'", FAILS),
        # Names with a domain stand under it, the others under the driver; an unknown domain is an empty map.
        ("device.attributes['o.example'].x == 2", True),
        (f"has({HERE}.x)", False),
        ("has(device.attributes['nobody'].x)", False),
        ("device.attributes['nobody'].x == 1", FAILS),
        ("'nobody' in device.attributes", False),
        ("'d.example' in device.capacity && !('o.example' in device.capacity)", True),
        # Versions and quantities.
        (f"{HERE}.v.isLessThan(semver('1.2.3'))", True),
        (f"{HERE}.v.isGreaterThan(semver('1.2.3-rc'))", True),
        (f"{HERE}.v.major() == 1 && {HERE}.v.patch() == 3", True),
        ("semver('1.2').major() == 1", FAILS),
        ("device.capacity['d.example'].m.compareTo(quantity('1.5')) == 0", True),
        ("device.capacity['d.example'].m.asInteger() == 1", FAILS),
        ("device.capacity['d.example'].m > 1", FAILS),
        ("device.capacity['d.example'].m.isGreaterThan(1)", FAILS),
        ("quantity('lots').asInteger() == 1", FAILS),
        # The rest of the language.
        ("7 / -2 == -3 && 7 % -2 == 1 && 2 + 3 * 4 - 1 == 13", True),
        ("1 / 0 == 1", FAILS),
        ("9223372036854775807 + 1 == 0", FAILS),
        ("0x10 == 16", True),
        (r"'a\x41\n' == 'aA\n' && r'\d' == '\\d'", True),
        ("[1, 2].exists(x, x == 2) && ![1, 2].all(x, x == 2) && size([1]) == 1 && 'ab'.size() == 2", True),
        ("[1, 2][1] == 2", True),
        ("[1, 2][2] == 2", FAILS),
        (f"{HERE}[?'nope'].hasValue() || {HERE}.?one.orValue(0) == 1", True),
        (f"{HERE}.text.lowerAscii().endsWith('b') && {HERE}.text.upperAscii() == 'A B'", True),
        (f"cel.bind(d, {HERE}, d.one == 1 && cel.bind(t, d.text, t.contains(' ')))", True),
        (f"// why\n{HERE}.one == 1 // because", True),
    ],
)
def test_answers_are_those_of_cel(expression: str, expected: bool | str) -> None:
    assert answer(expression, DEVICE.facts()) == expected


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("device.attributes['a'].b.matches('a{3}')", r"matches\(\) with {}"),
        ("device.attributes['a'].b.matches(device.driver)", r"matches\(\)"),
        ("device.attributes['a'].b.split(',')[0] == 'x'", r"split\(\)"),
        ("device.attributes['a'].b.map(x, x)[0] == 1", r"map\(\)"),
        ("device.attributes['a'].b == null", "null"),
        ("{'a': 1}.a == 1", "map"),
        ("other.driver == 'a'", "other"),
        ("device.driver == 1u", "no CEL"),
        ("device.driver ==", "begins no expression"),
        ("", "begins no expression"),
        ("(" * 100 + "true" + ")" * 100, "nest too deeply"),
        ("!" * 5000 + "true" + " || true" * 2000, "too long"),
        ("'" + "x" * 11000 + "' == ''", "too long"),
    ],
)
def test_what_is_not_read_is_refused_by_name(expression: str, named: str) -> None:
    with pytest.raises(UnreadSelectorError, match=named):
        Selector(expression)


@pytest.mark.parametrize(
    "expression", ["size(device.attributes) > 0", "device.attributes == device.capacity", "device.x"]
)
def test_some_of_it_is_known_only_when_it_is_evaluated(expression: str) -> None:
    with pytest.raises(UnreadSelectorError):
        Selector(expression)(DEVICE.facts().get)


def test_what_decides_for_single_devices_is_forgotten_again() -> None:
    verdicts = Verdicts([Selector("device.attributes['d'].uuid == 'u7'")])
    answers = [verdicts.of(Published("d", {"uuid": f"u{number}"}).facts()) for number in range(40_000)]
    assert [number for number, yes in enumerate(answers) if yes] == [7]
    assert verdicts.of(Published("d", {"uuid": "u7"}).facts()) is True


@pytest.mark.parametrize("text", ["1.2", "01.2.3", "1.2.3-", "1.2.3-a..b", "v1.2.3", "1.2.3 "])
def test_what_is_no_version(text: str) -> None:
    assert version(text) is None


@pytest.mark.parametrize(
    ("selector", "short"),
    [
        ("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0", "memory >= 40Gi"),
        ('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))', "memory > 40Gi"),
        ("device.attributes['gpu.nvidia.com'].driverVersion.isLessThan(semver('570.0.0'))", "driverVersion < 570.0.0"),
        (
            "device.attributes['gpu.nvidia.com'].profile == '1g.5gb' && device.driver == 'gpu.nvidia.com'",
            "profile == '1g.5gb' && device.driver == 'gpu.nvidia.com'",
        ),
        ("'x' in\n  device.attributes['d.example.com'].names", "'x' in names"),
    ],
)
def test_a_selector_as_people_read_it(selector: str, short: str) -> None:
    assert in_short(selector) == short
