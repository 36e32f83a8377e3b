"""Acts on a job that are decided before they can be taken: each is due, with its reason, until it is."""

from __future__ import annotations

from extender.core.answers import JobWritten, Outcome
from extender.core.workload.job import Due, JobRecord, JobWrite
from tests.builders import cluster, key
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def record(script: Script) -> JobRecord:
    record_found = script.gang("job").job
    assert record_found is not None
    return record_found


def test_a_suspension_waits_until_the_start_is_shown() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    script.drop("a-0")
    train.settle()
    due = record(script).due
    assert due is not None
    assert due.act is JobWrite.SUSPEND
    assert "a-0" in due.why
    assert train.stops == []
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    train.show(suspended=False, stopped=False, marked=True, plan=train.starts[0].plan)
    assert train.stops == [due.why]
    assert record(script).due == due, "the watch has yet to show it"
    train.obeys = True
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.DONE))
    train.show(suspended=True, stopped=True)
    assert record(script).due is None


def test_a_start_waits_while_the_job_rests_after_one_that_was_refused() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED, "a policy says no"))
    assert record(script).due is None, "its nodes were given back"
    train.show(requeued="again")
    assert record(script).due == Due(JobWrite.START, "its plan is committed")
    assert len(train.starts) == 1
    train.obeys = True
    train.wait(2)
    assert len(train.starts) == 2
    assert record(script).due is None


def test_a_start_that_is_due_goes_with_its_plan() -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(2), obeys=False)
    script.feed(JobWritten(train.seen.key, train.seen.uid, Outcome.REFUSED, "a policy says no"))
    train.show(requeued="again")
    script.drop("a-0")
    train.settle()
    assert record(script).due is None
    train.obeys = True
    train.wait(5)
    assert len(train.starts) == 1


def test_a_stop_is_withdrawn_by_the_workload_that_it_is_for_alone() -> None:
    preempted = "preempted by first"
    stopped = JobRecord(job(2))
    for preemptor, why in (("second", preempted), ("first", "")):
        stopped.decide_stop(preempted, key("first"))
        stopped.withdraw_stop(key(preemptor))
        assert stopped.stop == why
    lost = JobRecord(job(2))
    lost.decide_stop("node a-0 is gone")
    lost.decide_stop(preempted, key("first"))
    lost.withdraw_stop(key("first"))
    assert lost.stop == "node a-0 is gone", "it is started over all the same"
