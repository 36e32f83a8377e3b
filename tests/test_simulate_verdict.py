"""The sentences of a report: which scheduler starts which jobs, and why jobs of some sizes wait longer with Muster."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from extender.simulation.report.outcome import Figures, Outcome, Preempted, Times, Waits
from extender.simulation.report.page import page, snapshot_page
from extender.simulation.report.tables import Input, Table
from extender.simulation.report.verdict import longer_waits, verdict

ABOUT = Input("jobs", "cluster", 0.8, 3600, 30, 1800, 0, "0.1.0")
SMALL, LARGE = 1, 32


def outcome(name: str, small_s: float | None, large_s: float | None, *, held: float = 0.0, never: int = 0) -> Outcome:
    """10 jobs of one pod and 4 gangs; median and 95th percentile alike."""
    small = Waits(SMALL, 10, 10, small_s, small_s)
    large = Waits(LARGE, 4, 4 - never, large_s, large_s)
    overall = Waits(0, 14, 14 - never, small_s, large_s)
    figures = Figures(
        scheduler=name, gpus=64, jobs=14, completed=14 - never, never_started=never, observed_s=7200, makespan_s=None,
        productive=10, starting=1, held=held, free=100, held_at_most=0, utilisation=0.5, overall=overall,
        waits=(small, large), spans=None, scattered=0, window_s=3600, held_in_vain=held, rendezvous=0,
    )  # fmt: skip
    return Outcome(figures, [(0.0, 1.0, 0.0, 0.0, 0.0)], frozenset({LARGE}))


KUBE = outcome("kube-scheduler", 7200, 600, held=100, never=2)
MUSTER = outcome("muster", 0, 36_000)


def test_the_verdict_names_what_starts_what_is_held_and_the_waits() -> None:
    text = verdict([KUBE, MUSTER], 2.0)
    assert text == (
        "With muster all 14 jobs start and no GPU is held without work. "
        "With kube-scheduler 2 of 14 jobs never start and 100.00 GPU-hours (200 USD) are held without work. "
        "The median and the 95th percentile of the waiting time are 0 s / 10.0 h with muster, and 2.0 h / 10.0 min "
        "with kube-scheduler."
    )


def test_one_scheduler_alone_has_a_verdict_too() -> None:
    text = verdict([replace(MUSTER, figures=replace(MUSTER.figures, jobs=1))], 2.0)
    assert text.startswith("With muster the only job starts and no GPU is held without work. The median")
    assert longer_waits([MUSTER]) == []


def test_the_changed_setting_is_answered_first_with_the_reason_why_nobody_starts() -> None:
    failing = outcome("muster, queue_policy=mine", None, None, never=14)
    failing = replace(failing, reasons={"train": "PolicyFailed: order() raised KeyError."})
    text = verdict([KUBE, MUSTER, failing], 2.0)
    assert text.startswith(
        "With queue_policy=mine none of the 14 jobs starts (the first of them waits: PolicyFailed: order() raised "
        "KeyError) and no GPU is held without work. Jobs wait longer than with muster: 1 GPU: median never against 0 s"
    )
    assert "With muster all 14 jobs start" in text
    assert verdict([failing], 2.0).startswith("With muster, queue_policy=mine none of the 14 jobs starts")


def test_a_changed_setting_that_changes_nothing_is_said_to() -> None:
    same = outcome("muster, topology_policy=balanced", 0, 36_000)
    text = verdict([MUSTER, same], 2.0)
    assert text.startswith(
        "With topology_policy=balanced nothing changes: all figures are those of muster. With muster"
    )


def test_a_changed_setting_names_what_waits_less_and_what_evictions_cost() -> None:
    changed = outcome("muster, preemption=on", 3600, 600)
    times = [
        Times(priority, gangs=False, jobs=7, waited=(priority, 2.0 * priority, None), took=(None, None, None))
        for priority in (100, 0)
    ]
    changed = replace(changed, figures=replace(changed.figures, lost=3.0), preempted=Preempted(4, 3, 2, tuple(times)))
    before = replace(MUSTER, preempted=Preempted(priorities=tuple(times)))
    text = verdict([before, changed], 2.0)
    assert "Jobs wait longer than with muster: 1 GPU: median 60.0 min against 0 s" in text
    assert "Jobs wait less long than with muster: 17-32 GPUs: median 10.0 min against 10.0 h" in text
    assert "4 evictions cost 3.00 GPU-hours of work; with muster: 0 evictions, 0.00 GPU-hours." in text
    assert "Jobs of priority 100 wait 1.7 min / 3.3 min (median / 95th percentile) against 1.7 min / 3.3 min." in text


def test_the_percentile_is_named_where_only_one_is_longer() -> None:
    """The same size may wait less by the other one."""
    mine, theirs = outcome("muster", 600, 600), outcome("kube-scheduler", 0, 600)
    small = Waits(SMALL, 10, 10, 600, 600)
    mine = replace(mine, figures=replace(mine.figures, waits=(small, mine.figures.waits[1])))
    other = Waits(SMALL, 10, 10, 0, 36_000)
    theirs = replace(theirs, figures=replace(theirs.figures, waits=(other, theirs.figures.waits[1])))
    (sentence,) = longer_waits([theirs, mine])
    assert sentence.startswith(
        "Longer than with kube-scheduler: 1 GPU: median 10.0 min against 0 s. In turn jobs of 1 GPU "
    )
    assert "jobs of 1 GPU (95th percentile) wait less" in sentence


@pytest.mark.parametrize(("jobs", "never", "words"), [
    (1, 0, "the only job starts"), (2, 0, "both jobs start"), (3, 0, "all 3 jobs start"),
    (1, 1, "the only job never starts"), (2, 1, "1 of 2 jobs never starts"), (2, 2, "none of the 2 jobs starts"),
])  # fmt: skip
def test_jobs_are_counted_in_plain_words(jobs: int, never: int, words: str) -> None:
    figures = replace(MUSTER.figures, jobs=jobs, never_started=never)
    assert verdict([replace(MUSTER, figures=figures)], 2.0).startswith(f"With muster {words} and")


def test_a_gang_that_waits_whole_is_the_reason_where_the_other_holds_parts() -> None:
    (sentence,) = longer_waits([KUBE, MUSTER])
    assert sentence.startswith(
        "Longer than with kube-scheduler: 17-32 GPUs: median 10.0 h against 10.0 min, 95th percentile 10.0 h against "
    )
    assert "kube-scheduler never starts 2 jobs" in sentence
    assert "A gang waits as a whole until there is room for all of its pods" in sentence
    assert "100.00 GPU-hours were held without work" in sentence


def test_a_reason_that_the_figures_do_not_support_is_not_given() -> None:
    nothing_held = outcome("kube-scheduler", 7200, 600)
    (sentence,) = longer_waits([nothing_held, MUSTER])
    assert "GPU-hours" not in sentence
    assert "never starts" not in sentence


def test_an_ordered_queue_is_the_reason_against_fifo() -> None:
    (sentence,) = longer_waits([outcome("fifo", 7200, 600), MUSTER])
    assert "fifo lets no job pass an older one" in sentence


def test_single_pods_wait_longer_for_gangs_that_wait_less() -> None:
    (sentence,) = longer_waits([outcome("kube-scheduler", 0, 36_000), outcome("muster", 3600, 60)])
    assert sentence.startswith(
        "Longer than with kube-scheduler: 1 GPU: median 60.0 min against 0 s, 95th percentile 60.0 min against "
    )
    assert "In turn jobs of 17-32 GPUs (median and 95th percentile) wait less" in sentence


@pytest.mark.parametrize("other", [outcome("ideal", 0, 0), outcome("fifo", 0, 36_000 - 50), outcome("fifo", 0, 35_000)])
def test_a_bound_and_small_differences_are_no_longer_waits(other: Outcome) -> None:
    assert longer_waits([MUSTER, other]) == []


def test_never_is_longer_than_any_time() -> None:
    (sentence,) = longer_waits([outcome("fifo", 0, 600), outcome("muster", 0, None)])
    assert "median never against 10.0 min" in sentence


def test_the_page_begins_with_the_verdict_and_gives_the_reasons_beside_the_waits() -> None:
    html = page(ABOUT, [KUBE, MUSTER], 2.0)
    assert html.index('<p class="verdict">With muster all 14 jobs start') < html.index('<div class="cards">')
    assert html.index("Waiting time by gang size") < html.index("A gang waits as a whole") < html.index("<h2>Cost")


@pytest.mark.parametrize(
    "told",
    [
        page(ABOUT, [KUBE, MUSTER], 2.0),
        snapshot_page("Snapshot", ["1 node"], [Table("Would wait", ("gang", "reason"), [("a", "b")], words=True)]),
    ],
)
def test_everything_wide_can_be_moved_sideways_on_a_phone(told: str) -> None:
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in told
    wide = re.findall(r"(.{0,20})<(?:svg|table)\b", told, re.DOTALL)
    assert wide
    assert all(before.endswith('<div class="scroll">') for before in wide)


def test_on_a_phone_all_labels_and_dots_are_inside_the_first_screen() -> None:
    html = page(ABOUT, [KUBE, MUSTER, outcome("muster, topology_policy=balanced", 0, None)], 2.0)
    shown = re.findall(
        r'<div class="narrow phone"><div class="scroll">(<svg viewBox="0 0 350 .*?</svg>)', html, re.DOTALL
    )
    assert len(shown) == 2, "waiting and cost"
    assert html.count('<div class="wide">') == 2, "and each of them for a wide screen"
    for picture in shown:
        places = re.findall(r' (?:x|x1|x2|cx)="([-\d.]+)"', picture)
        assert places
        assert all(0 <= float(place) <= 350 for place in places)
        for x, anchor, text in re.findall(r'<text class="\w+" x="([\d.]+)"[^>]*anchor="(\w+)">(.*?)</text>', picture):
            wide = 7.5 * len(text)
            begin = float(x) - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
            assert begin >= 0, text
            assert begin + wide <= 350, text
    assert ".wide { display: none }" in html
    assert ".phone svg { min-width: 0 }" in html


def test_the_page_says_what_each_scheduler_is() -> None:
    html = page(ABOUT, [KUBE, MUSTER, outcome("fifo", 0, 0), outcome("ideal", 0, 0)], 2.0)
    for name in ("kube-scheduler: pod by pod", "fifo: whole gangs, strictly in order", "ideal: a bound"):
        assert name in html


def test_the_page_of_a_snapshot_is_text_and_never_markup() -> None:
    rows = [("<b>team</b>", "<script>")]
    html = snapshot_page(
        "<i>", ["a < b"], [Table("Would wait", ("gang", "reason"), rows), Table("None", ("gang",), [])]
    )
    assert "<script" not in html
    assert "&lt;b&gt;team&lt;/b&gt;" in html
    assert "<h3>None: none</h3>" in html
