"""The annotations by which a workload speaks of its eviction."""

from __future__ import annotations

import msgspec
import pytest

from extender.kube.convert import pod_from
from extender.kube.kinds.change import clean, suspend
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.reading.durations import HOW
from extender.kube.reading.eviction import (
    CHECKPOINTED,
    EVICT_INCOMPLETE,
    EVICT_OVERRUN,
    EVICTED_AT,
    MIN_RUNTIME,
    RESTARTABLE,
)
from extender.kube.reading.objects import PodObject
from policies.model import EvictionTerms, Pod
from policies.model.eviction import together
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import stored


def read(**annotations: str) -> Pod:
    keys = {"least": MIN_RUNTIME, "saved": CHECKPOINTED, "evict": EVICT_INCOMPLETE, "restart": RESTARTABLE}
    keys["overrun"] = EVICT_OVERRUN
    by_key = {keys[key]: text for key, text in annotations.items()}
    meta = {"name": "p", "namespace": "team", "uid": "u", "annotations": by_key}
    return pod_from(msgspec.convert({"metadata": meta}, PodObject))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("90s", 90), ("90m", 5400), ("12h", 43_200), ("2d", 172_800), ("1h30m", 5400)],
)
def test_a_span_is_seconds_or_has_a_unit(text: str, seconds: float) -> None:
    pod = read(least=text)
    assert pod.eviction == EvictionTerms(seconds)
    assert pod.hint is None


@pytest.mark.parametrize("text", ["", "-1", "soon", "1.5", "30m1h ago", "9" * 10, " 9", "٣", "1w"])
def test_what_is_no_span_does_not_count_and_is_told(text: str) -> None:
    pod = read(least=text)
    assert pod.eviction == EvictionTerms()
    assert (pod.hint or "").startswith(f"{MIN_RUNTIME} is ")
    assert f"does not count: {HOW}" in (pod.hint or "")


def test_a_checkpoint_is_an_instant() -> None:
    assert read(saved="2026-08-01T10:00:00Z").eviction.checkpointed == 1785578400
    assert read(saved="2026-08-01T12:00:00.5+02:00").eviction.checkpointed == 1785578400.5


@pytest.mark.parametrize("text", ["", "noon", "2026-08-01T10:00:00", "1785578400"])
def test_what_is_no_instant_does_not_count_and_is_told(text: str) -> None:
    pod = read(saved=text)
    assert pod.eviction == EvictionTerms()
    assert "does not count: write an instant in RFC 3339" in (pod.hint or "")


@pytest.mark.parametrize(("text", "wanted"), [("true", True), ("false", False), ("True", None), ("", None)])
def test_an_incomplete_gang_is_evicted_if_all_of_its_pods_want_that(text: str, *, wanted: bool | None) -> None:
    pod = read(evict=text)
    assert pod.eviction == EvictionTerms(when_incomplete=wanted)
    assert (pod.hint is None) is (wanted is not None)
    assert together([pod.eviction, EvictionTerms(when_incomplete=True)]).when_incomplete is (wanted is not False)


@pytest.mark.parametrize(("text", "may"), [("true", True), ("false", False), ("yes", None), ("", None)])
def test_a_workload_is_restartable_if_all_that_say_so_agree(text: str, *, may: bool | None) -> None:
    pod = read(restart=text)
    assert pod.eviction == EvictionTerms(restartable=may)
    assert (pod.hint is None) is (may is not None)
    assert together([pod.eviction, EvictionTerms(restartable=True)]).restartable is (may is not False)


def test_all_that_cannot_be_read_is_told_at_once() -> None:
    pod = read(least="soon", saved="noon")
    assert [clause.partition(" is ")[0] for clause in (pod.hint or "").split("; ")] == [MIN_RUNTIME, CHECKPOINTED]
    obj = stored(INDEXED)
    obj["metadata"]["annotations"] = {MIN_RUNTIME: "soon", CHECKPOINTED: "noon"}
    hint = Reader().read(JOB, obj).hint or ""
    assert [clause.partition(" is ")[0] for clause in hint.split("; ")] == [MIN_RUNTIME, CHECKPOINTED]


def test_a_job_says_both_on_itself_or_in_its_template() -> None:
    obj = stored(INDEXED)
    obj["metadata"]["annotations"] = {CHECKPOINTED: "2026-08-01T10:00:00Z"}
    obj["spec"]["template"].setdefault("metadata", {})["annotations"] = {MIN_RUNTIME: "1h"}
    job = Reader().read(JOB, obj)
    assert job.eviction == EvictionTerms(None, 1785578400)
    assert job.podsets.podsets[0].template.eviction == EvictionTerms(3600)
    obj["metadata"]["annotations"] = {MIN_RUNTIME: "soon"}
    assert (Reader().read(JOB, obj).hint or "").startswith(f"{MIN_RUNTIME} is 'soon' and does not count")


def test_when_a_job_was_evicted_is_written_with_its_suspension_and_stays_on_it() -> None:
    obj = stored(INDEXED)
    suspend(JOB, obj, (1785578400.25, 1785578460.0))
    times = obj["metadata"]["annotations"][EVICTED_AT]
    assert times == "2026-08-01T10:00:00.250+00:00,2026-08-01T10:01:00.000+00:00"
    clean(JOB, obj)
    assert Reader().read(JOB, obj).evicted == (1785578400.25, 1785578460.0)


def test_a_suspension_for_another_reason_writes_nothing_of_it() -> None:
    obj = stored(INDEXED)
    suspend(JOB, obj)
    assert EVICTED_AT not in obj["metadata"].get("annotations", {})


@pytest.mark.parametrize("text", ["", "noon", ",,,", "2026-08-01"])
def test_what_cannot_be_read_counts_as_no_eviction(text: str) -> None:
    obj = stored(INDEXED)
    obj["metadata"]["annotations"] = {EVICTED_AT: text}
    assert Reader().read(JOB, obj).evicted == ()


@pytest.mark.parametrize(("text", "wanted"), [("true", True), ("false", False), ("yes", None)])
def test_a_workload_that_overruns_is_evicted_if_its_author_wants_that(text: str, *, wanted: bool | None) -> None:
    pod = read(overrun=text)
    assert pod.eviction == EvictionTerms(when_overrun=wanted)
    assert (pod.hint is None) is (wanted is not None)
    assert together([pod.eviction, EvictionTerms(when_overrun=False)]).when_overrun is False
