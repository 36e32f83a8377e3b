"""Reports of queues and of jobs that name one, from the day a job waits to its end.

A report is kept until a part of it changes, and then rebuilt.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.explain.reports import QueueReports, WorkloadReport
from extender.core.ledger.quotas import QueueMembers
from extender.core.limits import Limits
from policies.chosen import OURS
from policies.model.queues import Cohort
from tests.builders import GPU, cluster, gang, key
from tests.core.jobs import Controlled, job
from tests.core.queue_course import Course, carry_out
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script
from tests.effort import calls

STEPS = 40


def play(seed: int) -> None:
    """Check that after each event the kept reports equal freshly built ones."""
    course, script = Course(seed), Script(limits=Limits(fair_sharing=seed % 2 == 0), checked=20)
    course.begin(script)
    show(script, *(Cohort(f"tree-{number}") for number in range(2)))
    for number in range(STEPS):
        step = course.step()
        carry_out(script, step)
        fresh = script.core.state.make(QueueReports, policy=OURS.queue).all()
        assert script.core.queue_reports(script.now) == fresh, f"seed {seed}, step {number}: {step}"


def play_all(seeds: int) -> None:
    for seed in range(seeds):
        play(seed)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_what_is_said_anew(seed: int) -> None:
    play(seed)


def test_a_change_that_nobody_tells_of_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueueMembers, "touch", lambda *_: None)
    with pytest.raises(AssertionError, match="seed"):
        play_all(4)


def test_only_the_tree_that_changed_is_said_anew() -> None:
    script = Script(*cluster("a: 9x8"), checked=10_000)
    queues = [cluster_queue(f"q-{number}", {"gpus": 8}, cohort=f"tree-{number % 4}") for number in range(8)]
    show(script, flavor("gpus"), *queues, *(Cohort(f"tree-{number}") for number in range(4)))
    for number in range(40):
        script.see([replace(pod, queue=f"q-{number % 8}") for pod in gang(f"g-{number}", 1)])
    script.advance(5)
    everything = calls(lambda: script.core.queue_reports(script.now))
    nothing = calls(lambda: script.core.queue_reports(script.now))
    script.gone(script.pods["uid-g-0-0"])
    script.advance(5)
    a_tree = calls(lambda: script.core.queue_reports(script.now))
    assert nothing < everything / 20
    assert a_tree < everything / 2, "one of four trees"


def test_it_waits_has_quota_is_started_and_ends() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    first = Controlled(script, replace(job(2, name="first"), queue="team"), obeys=False)
    assert [*script.core.queued()] == [key("first")]
    has = told(script, "first")
    assert (has.reserved, has.admitted, has.queue, has.local) == (True, False, "team", "team")
    (podset,) = has.podsets
    assert (podset.count, podset.flavors, podset.used) == (2, {GPU: "gpus"}, {GPU: 16})
    assert dict(podset.requests)[GPU] == 8
    first.show(suspended=False, stopped=False, marked=True, plan={"": ("a-0", "a-1")})
    assert told(script, "first").admitted
    second = Controlled(script, replace(job(2, name="second"), queue="team"))
    waits = told(script, "second")
    assert (waits.reserved, waits.admitted, waits.reason.code) == (False, False, "NoQuota")
    assert not waits.podsets[0].flavors
    first.show(finished=True)
    assert told(script, "first").finished
    first.gone()
    second.settle()
    assert [*script.core.queued()] == [key("second")]
    assert told(script, "second").admitted


def told(script: Script, name: str) -> WorkloadReport:
    report = script.core.workload_report(key(name))
    assert report is not None
    return report


def test_a_gang_of_pods_and_a_job_of_others_have_no_report() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    Controlled(script, replace(job(2), queue="team", managed=False))
    assert script.core.workload_report(key("job")) is None
    assert script.core.workload_report(key("nobody")) is None


def test_a_job_whose_queue_does_not_exist_is_reported_with_that_reason() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    Controlled(script, replace(job(2), queue="nowhere"))
    report = told(script, "job")
    assert (report.queue, report.local, report.reason.code) == ("", "nowhere", "QueueMissing")
