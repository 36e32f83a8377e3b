"""How a job that names a queue is reported, from the day it waits to its end."""

from __future__ import annotations

from dataclasses import replace

from extender.core.explain.reports import WorkloadReport
from tests.builders import GPU, cluster, key
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script


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
    found = script.core.workload_report(key(name))
    assert found is not None
    return found


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
