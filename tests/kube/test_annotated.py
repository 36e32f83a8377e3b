"""Annotations of Muster with any content: read by the names that the API takes, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from extender.core.effects import Reserve
from extender.core.gate.stamps import marks_of, stamp_of
from extender.kube.kinds.plan import flavors_from, plan_from, plan_text
from extender.kube.kinds.template import originals_of
from extender.kube.reading.eviction import evictions_of, evictions_text
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import MOST_BYTES, json_of
from extender.kube.reading.reserved import annotation_of, reservation_from, reservation_text
from policies.model import GroupKey, Reservation, Victim

LONE = "\\ud800"
BAD_NAMES = (LONE, "\\u001b[31mX", "<script>", "a b", "A", "n" * 254, "-a", "a/b", "é")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_name_of_a_node_podset_flavor_or_resource_is_read_that_the_api_server_does_not_take(name: str) -> None:
    assert plan_from(f'{{"": "{name}*2"}}') is None
    assert flavors_from(f'{{"":{{"nvidia.com/gpu":"{name}"}}}}') is None
    room = f'{{"rooms":[[{{"cpu":1}},["{name}"]]],"victims":[],"until":1}}'
    assert reservation_from(room) is None


@pytest.mark.parametrize("name", [LONE, "\\u001b", "a b", "<x>", "é", "x" * 600])
def test_nor_one_that_no_kind_of_job_gives_a_podset_or_no_node_has_as_a_resource(name: str) -> None:
    assert plan_from(f'{{"{name}": "a*2"}}') is None
    assert flavors_from(f'{{"{name}":{{"cpu":"a"}}}}') is None
    assert flavors_from(f'{{"":{{"{name}":"a"}}}}') is None
    assert reservation_from(f'{{"rooms":[[{{"{name}":1}},["a"]]],"victims":[],"until":1}}') is None
    for at in range(4):
        victim: list[Any] = ["ns", "gang", "", ["r"]]
        victim[at] = ["@"] if at == 3 else "@"
        text = json.dumps({"rooms": [], "victims": [victim], "until": 1}).replace("@", name[:318])
        assert reservation_from(text) is None


@pytest.mark.parametrize(
    "text",
    [
        *('{"rooms":[],"victims":[],"until":NaN}', '{"rooms":[],"victims":[],"until":1e999}'),
        *('{"rooms":[[{"cpu":1e3},["a"]]],"victims":[],"until":1}', '{"rooms":[[{"cpu":true},["a"]]],"victims":[]}'),
        *('{"rooms":[[{"cpu":99999999999999999999},["a"]]],"victims":[],"until":1}', "[" * 100_000, "{" * 9),
        '{"rooms":[[{"cpu":-1},["a"]]],"victims":[],"until":1}',
        '{"rooms":[],"victims":[],"until":-1}',
        '{"rooms":[],"victims":[],"until":1e18}',
    ],
)
def test_a_reservation_that_nobody_can_have_written_is_none(text: str) -> None:
    assert reservation_from(text) is None


def test_what_muster_writes_is_read_again() -> None:
    kept = Reservation((("n-0", (("cpu", 1), ("nvidia.com/gpu", 8))),), (Victim(GroupKey("ns", "g"), "", ("r",)),), 7.5)
    assert reservation_from(reservation_text(kept)) == kept
    plan = {"": ("a", "a", ""), "00/1-group/00001": ("b.c",), "0-worker": ()}
    assert plan_from(plan_text(plan)) == plan


@pytest.mark.parametrize(("backfill", "key"), [(False, "muster.dev/preempting"), (True, "muster.dev/reserved")])
def test_a_reservation_has_the_annotation_of_its_kind(*, backfill: bool, key: str) -> None:
    kept = Reservation((("n-0", (("cpu", 1),)),), (), 7.5)
    effect = Reserve(GroupKey("ns", "g"), None, None, kept, backfill)
    assert annotation_of(effect) == (key, reservation_text(kept))
    assert annotation_of(replace(effect, reservation=None)) == (key, None)


def test_nothing_is_read_of_what_is_longer_than_all_annotations_of_an_object() -> None:
    assert json_of(" " * MOST_BYTES + "{}", dict[str, str]) is None
    assert originals_of(Meta(annotations={"muster.dev/own": '{"": {"a": "' + LONE + '"}}'})) == {}


EDGES = (
    "9999-12-31T23:59:59-23:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59Z",
)


@pytest.mark.parametrize("at", EDGES)
def test_an_instant_that_is_read_can_be_written_again(at: str) -> None:
    evictions_text(evictions_of(Meta(annotations={"muster.dev/evicted-at": at})))
    stamp = stamp_of({"muster.dev/gang-uid": "u", "muster.dev/release": "r", "muster.dev/released-at": at})
    assert stamp is not None
    msgspec.json.encode(marks_of(stamp))
