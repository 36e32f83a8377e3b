"""Pods of jobs that are created, or are not, while Muster does not see what happens."""

from __future__ import annotations

from extender.core.answers import JobWritten, Outcome
from extender.core.events import Tick
from extender.core.limits import Limits
from tests.builders import cluster
from tests.core.jobs import Controlled, job
from tests.core.script import Script


def test_others_do_not_wait_for_pods_that_have_come_while_the_watch_does_not_show_the_start_of_their_job() -> None:
    script = Script(*cluster("a: 900x8"), checked=100)
    large = Controlled(script, job(400), obeys=False)
    other = Controlled(script, job(300, name="other"))
    script.feed(JobWritten(large.seen.key, large.seen.uid, Outcome.DONE))
    assert script.reason("other") == "Creating"
    large.create()
    other.wait(3)
    assert len(other.starts) == 1


def test_pods_that_have_not_come_while_this_process_stood_still_get_their_time_once_more() -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(creation_s=10.0))
    train = Controlled(script, job(2))
    script.now += 100
    script.feed(Tick())
    train.wait(5)
    assert not train.stops
    train.wait(5)
    assert len(train.stops) == 1
