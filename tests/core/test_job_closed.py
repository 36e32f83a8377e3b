"""Jobs without indexes of which pods have ended well: whether others are made depends on what their status says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script
from tests.core.test_job_done import LIMITS, finish, restarted


def test_a_job_that_makes_no_more_pods_is_not_suspended_after_a_restart_while_a_pod_of_it_waits_for_room() -> None:
    """Its controller would take it for complete."""
    script = Script(*cluster("a: 1x8"), limits=LIMITS)
    whole = job(3, indexed=False)
    least = replace(whole.podsets, podsets=(replace(whole.podsets.podsets[0], minimum=1),))
    train = Controlled(script, replace(whole, podsets=least))
    first, second, waiting = train.create()
    script.run([first])
    script.gone(second)
    finish(train, first)
    script.see(foreign := single("foreign", gpus=8, node="a-0", scheduler="other"))
    train.wait(3)
    assert not train.stops
    again = restarted(train)
    again.wait(70)
    assert not again.stops
    again.script.gone(foreign)
    again.wait(3)
    again.script.run([waiting])
    again.wait(3)
    assert len(again.script.bound([waiting])) == 1
    assert not again.stops


@pytest.mark.parametrize("closed", [False, True])
def test_room_is_kept_for_pods_without_an_index_that_have_gone_until_the_status_says_that_none_is_made_again(
    closed: bool,
) -> None:
    """All others have ended well, so the job may be over."""
    script = Script(*cluster("a: 2x8"), limits=LIMITS)
    train = Controlled(script, job(2, indexed=False))
    first, second = train.run()
    script.change(script.pods[first.uid], phase="Succeeded")
    script.gone(script.pods[second.uid])
    script.see(rivals := gang("rival", 2, min_member=1))
    train.wait(3)
    assert sum(bool(script.planned(one)) for one in rivals) == 1, "that of the pod that has ended"
    train.show(closed=2 if closed else 0)
    train.wait(3)
    assert sum(bool(script.planned(one)) for one in rivals) == (2 if closed else 1)
    assert not train.stops
