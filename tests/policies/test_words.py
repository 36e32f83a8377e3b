"""Numbers, amounts and plurals as people read them."""

from __future__ import annotations

import pytest

from policies.words import amount, amounts, counted, many


@pytest.mark.parametrize(
    ("name", "much", "text"),
    [
        ("cpu", 1500, "1.5 cpu"),
        ("cpu", 1, "0.001 cpu"),
        ("cpu", 2_000_000_000, "2000000 cpu"),
        ("memory", 0, "0 bytes memory"),
        ("memory", 1, "1 byte memory"),
        ("memory", 100, "100 bytes memory"),
        ("memory", 512 * 2**20, "512 MiB memory"),
        ("memory", 1536 * 2**20, "1.5 GiB memory"),
        ("memory", 2**55, "32 PiB memory"),
        ("ephemeral-storage", 10 * 2**30, "10 GiB ephemeral-storage"),
        ("hugepages-2Mi", 4 * 2**20, "4 MiB hugepages-2Mi"),
        ("nvidia.com/gpu", 8, "8 nvidia.com/gpu"),
        ("pods", 1, "1 pod"),
        ("pods", 0, "0 pods"),
    ],
)
def test_an_amount_is_in_the_unit_that_people_use(name: str, much: int, text: str) -> None:
    assert amount(name, much) == text


def test_what_is_smaller_looks_smaller() -> None:
    least, most = 512 * 2**30, 512 * 2**30 + 1
    assert (amount("memory", least), amounts((("memory", most),))) == ("512 GiB memory", "512.01 GiB memory")
    assert amount("memory", 2**40 - 1) == "1023.99 GiB memory"


def test_all_that_a_pod_asks_for_is_told_and_not_that_it_is_a_pod() -> None:
    assert amounts((("cpu", 1000), ("memory", 100), ("pods", 1))) == "1 cpu, 100 bytes memory"
    assert amounts((("pods", 1),)) == "a pod"


def test_nouns_and_verbs_follow_the_number() -> None:
    assert (many(1, "node"), many(0, "node")) == ("1 node", "0 nodes")
    assert counted(1, "member", "has", "have") == "1 member has"
    assert counted(2, "member", "has", "have") == "2 members have"
