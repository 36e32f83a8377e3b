"""How one workload is shown to people: its pods before they exist, its places, their order, and one history."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from extender.cli.inspection.tables import show_explanation
from extender.core.explain.reasons import turn_text
from extender.core.workload.workload import Workload
from extender.observe.topology import domains
from extender.observe.views import view
from policies.words import natural
from tests.builders import busy, cluster, gang
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster
from tests.core.script import Script
from tests.explaining import explain, running


def shown(script: Script, name: str) -> str:
    out = io.StringIO()
    explanation = explain(script.core.state, script.gang(name), script.now)
    show_explanation(explanation, Console(file=out, width=300))
    return out.getvalue()


def history(gang: Workload) -> list[str]:
    return [turn_text(turn).partition(":")[0] for _, turn in gang.reason_state.story]


@pytest.mark.parametrize("held", [True, False])
def test_a_job_without_pods_says_what_it_will_make(held: bool) -> None:
    script = Script(*cluster("a: 2x8"))
    Controlled(script, replace(job(4, level="clique"), held=held))
    text = shown(script, "job")
    assert "suspended: 4 pods of 8 GPUs are made when it starts" in text
    assert "asks for: 4 x 8 GPUs, required clique" in text
    assert "members: 0" not in text


def test_a_job_that_has_pods_counts_them() -> None:
    script = Script(*cluster("a: 4x8"))
    Controlled(script, job(4)).run()
    assert "members: 4, of which 4 bound" in shown(script, "job")


def test_places_that_are_not_listed_are_counted() -> None:
    script = Script(
        *cluster(*(f"c{at}: 1x8" for at in range(30))), *running("run", " ".join(f"c{at}-0" for at in range(30)))
    )
    (line,) = [line for line in shown(script, "run").splitlines() if line.startswith("is in: ")]
    assert line.startswith("is in: c0 (1), c1 (1), c2 (1), c3 (1)")
    assert line.endswith("c23 (1) and 6 more")


def test_members_and_domains_are_in_the_order_in_which_people_count() -> None:
    pods = gang("wait", 12)
    script = Script(
        *cluster(*(f"c{at}: 1x8" for at in range(11))), *(pods[at] for at in (3, 10, 0, 2, 11, *range(4, 10), 1))
    )
    explanation = explain(script.core.state, script.gang("wait"), script.now)
    assert [pod.name for pod in explanation.gang.pods] == [f"wait-{at}" for at in range(12)]
    assert [domain.name for domain in explanation.domains] == [f"c{at}" for at in range(11)]
    assert [domain.name for domain in domains(script.core.state)] == [f"c{at}" for at in range(11)]
    named = [replace(pod, index=None, name=f"web-{at}-x") for at, pod in enumerate(gang("web", 11))]
    script.see(reversed(named))
    assert [pod.name for pod in view(script.core.state, script.gang("web"), script.now).pods] == [
        f"web-{at}-x" for at in range(11)
    ]


def test_its_status_is_shown_with_its_changes_among_the_history() -> None:
    script = Script(*cluster("a: 2x8"), *(pods := gang("train", 2)))
    script.run(pods)
    script.advance(65)
    text = shown(script, "train")
    assert "status: RUNNING for 1m 5s" in text
    turns = [line.split(maxsplit=2)[2].partition(":")[0] for line in text.partition("WHAT")[2].splitlines()[2:]]
    assert [turn for turn in turns if turn in ("Placed", "Running") or "status" in turn] == [
        "status PENDING", "Placed", "status PLANNED", "status HOLDING", "status RELEASING", "Running", "status RUNNING",
    ]  # fmt: skip


def test_names_are_ordered_by_their_numbers() -> None:
    names = ["b", "a10", "a9", "a", "a9b10", "a9b9", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "a", "a9", "a9b9", "a9b10", "a10", "b"]


def test_the_history_has_the_numbers_of_the_reason() -> None:
    script = Script(*cluster("a: 2x8"), *busy("a-0 a-1", 8), *gang("wait", 2))
    assert "0 of 2 members fit" in turn_text(script.gang("wait").reason_state.story[-1][1])
    script.gone(script.pods["uid-busy-a-0"])
    script.advance(1)
    assert "1 of 2 members fit" in script.message("wait")
    assert history(script.gang("wait")).count("NoRoom") == 1
    assert "1 of 2 members fit" in turn_text(script.gang("wait").reason_state.story[-1][1])


def test_a_job_that_is_preempted_says_so_once() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = Controlled(script, job(2, name="low"))
    low.run()
    script.advance(30)
    high = gang("high", 2, priority=10)
    script.see(high)
    low.wait(1)
    low.delete()
    low.show(stopped=True)
    low.wait(1)
    script.run(high)
    low.wait(5)
    story = [turn_text(turn) for _, turn in script.gang("low").reason_state.story]
    assert sum("preempted by" in text for text in story) == 1, story
    assert not any("forgotten" in text or "its job is suspended" in text for text in story), story


def test_a_job_that_somebody_else_suspends_says_that() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2))
    train.run()
    train.show(suspended=True)
    story = [turn_text(turn) for _, turn in script.gang("job").reason_state.story]
    assert sum("its job is suspended" in text for text in story) == 1, story
