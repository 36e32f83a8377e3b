"""Jobs are evicted by being suspended, and run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Milestone, SuspendJob
from policies.model import PodSets
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job, template
from tests.core.preempting import Cluster, lacks


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.REFUSED])
def test_a_job_whose_suspension_did_not_come_about_in_time_runs_on(outcome: Outcome) -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, job(1, name="low"))
    pods = low.run()
    low.obeys = False
    script.see(gang("high", 1, priority=10))
    low.wait(65)
    assert script.milestones(Milestone.UNRESERVED) == 1
    script.feed(JobWritten(low.seen.key, low.seen.uid, outcome))
    low.wait(120)
    assert len(low.stops) == 1, "nobody waits for its room any more"
    assert (script.reason("low"), script.bound(pods)) == ("Running", ["a-0"])


def test_a_pod_of_a_job_that_is_to_be_suspended_says_so_until_nobody_waits_for_its_room() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = Controlled(script, job(2, name="low"))
    first, _ = low.run()
    low.obeys = False
    high = gang("high", 1, priority=10)
    script.see(high)
    script.see(replace(first, uid="uid-again", name="again"))
    script.change(first, deleting=True)
    assert "default/high" in lacks(script, "low")
    script.see(*cluster("b: 1x8"))
    assert script.planned(high[0]) == "b-0"
    assert "default/high" not in lacks(script, "low")


def test_a_pod_of_a_job_says_so_before_its_suspension_can_be_written_again() -> None:
    script, seen = Cluster(*cluster("a: 2x8")), job(2, name="low")
    fewer = PodSets(seen.key, (replace(seen.podsets.podsets[0], minimum=1),))
    low = Controlled(script, replace(seen, podsets=fewer))
    first, _ = low.run()
    low.obeys = False
    script.see(gang("high", 1, priority=10), *cluster("b: 1x8"))
    script.feed(JobWritten(seen.key, seen.uid, Outcome.REFUSED))
    script.change(first, deleting=True)
    script.see(replace(first, uid="uid-again", name="again"), gang("next", 1, priority=10))
    assert sum(isinstance(effect, SuspendJob) for effect in script.effects) == 1
    assert "default/next" in lacks(script, "low")


def test_that_its_victims_did_not_go_is_said_after_its_reservation_has_come_off_it() -> None:
    script, seen = Cluster(*cluster("a: 1x8")), job(1, name="high")
    Controlled(script, job(1, name="low")).run()
    urgent = replace(seen.podsets.podsets[0], template=template("high", priority=10))
    high = Controlled(script, replace(seen, podsets=PodSets(seen.key, (urgent,))))
    high.show(reservation=script.kept)
    script.advance(61)
    assert script.milestones(Milestone.UNRESERVED) == 1
    high.show(reservation=None)
    assert script.message("high") == (
        "0 of 1 members fit at once: 0 of 1 nodes have room for 8 nvidia.com/gpu; "
        "the eviction of default/low for it has ended: after 60 s default/low still had pods; it is tried again"
    )


def test_a_job_is_suspended_and_runs_again_when_there_is_room() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, job(1, name="low"))
    low.run()
    high = gang("high", 1, priority=10)
    script.see(high)
    low.settle()
    assert len(low.stops) == 1
    assert "default/high" in low.stops[0]
    assert not script.evicted, "what deletes the pods of a job counts as a failure"
    low.delete()
    low.show(stopped=True)
    low.settle()
    assert script.planned(high[0]) == "a-0"
    script.run(high)
    script.see(*cluster("b: 1x8"))
    low.settle()
    assert len(low.starts) == 2
    assert len(script.bound(low.run())) == 1


def test_a_job_that_preempts_says_so_on_itself() -> None:
    script = Cluster(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0"))
    seen = job(1, name="high")
    podset = seen.podsets.podsets[0]
    urgent = replace(podset, template=replace(podset.template, priority=10))
    high = Controlled(script, replace(seen, podsets=replace(seen.podsets, podsets=(urgent,))))
    write = script.written[0]
    assert write.job is not None
    assert write.pod is None
    assert script.evicted == ["dev"]
    script.leave(script.pods["uid-dev"])
    high.settle()
    assert len(high.starts) == 1
    assert not script.core.state.preemptions.under_way


def test_a_suspension_that_was_refused_is_told_of_when_the_eviction_ends() -> None:
    script, seen = Cluster(*cluster("a: 1x8")), job(1, name="low")
    low = Controlled(script, seen)
    low.run()
    low.obeys = False
    script.see(gang("high", 1, priority=10))
    script.feed(JobWritten(seen.key, seen.uid, Outcome.REFUSED, "denied by a webhook"))
    script.advance(61)
    assert script.message("high").endswith(
        "still had pods: the suspension was refused: denied by a webhook; it is tried again"
    )
