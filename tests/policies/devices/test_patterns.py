"""Regular expressions of selectors: as Python's where both know them, and never slow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.patterns import UnreadPatternError, matcher

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\W", "^", "$", r"\."])
PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from("?*+")).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("abc.1A", max_size=6))
def test_it_matches_as_re_does(pattern: str, text: str) -> None:
    assert matcher(pattern)(text) == bool(re.search(pattern.replace("$", r"\Z"), text, re.ASCII))
    assert matcher(f"(?i){pattern}")(text) == bool(
        re.search(pattern.replace("$", r"\Z"), text, re.ASCII | re.IGNORECASE)
    )


def test_no_pattern_takes_long() -> None:
    assert not matcher("(a*)*(a*)*(a|a)*(a|aa)+b" * 20)("a" * 64)


@pytest.mark.parametrize(
    "pattern",
    ["a{2}", r"\bx", "(?P<n>a)", "(?s).", "a**", "*a", "(a", "a)", "[", "[]", r"[\d]", "[[:alpha:]]", "\\", "[b-a]"],
)
def test_what_is_not_read_is_refused(pattern: str) -> None:
    with pytest.raises(UnreadPatternError):
        matcher(pattern)
    with pytest.raises(UnreadPatternError):
        matcher("x" * 3000)
