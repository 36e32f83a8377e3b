"""A job that a user has started without a plan, and whose template says that its pods are a gang."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import Outcome
from policies.model import Dialect, GroupRef
from tests.builders import busy, cluster
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script


def test_none_of_its_pods_starts_and_it_is_suspended_and_planned() -> None:
    script = Script(*cluster("a: 4x8"))
    ref = GroupRef("job", Dialect.OWNER, owner="job")
    pods = [replace(template(), uid=f"uid-{at}", name=f"job-{at}", index=at, group=ref) for at in range(2)]
    script.see(*pods)
    assert script.reason("job") == "MinMemberMissing"
    assert all(script.filter(pod) == () for pod in pods)
    controlled = Controlled(script, replace(job(2), suspended=False, stopped=False))
    assert controlled.stops == ["it was started without a plan of Muster's"]
    script.gone(*pods)
    controlled.wait(1.0)
    assert len(controlled.starts) == 1


def test_one_whose_start_broke_off_is_suspended_after_a_while_although_others_have_started_it_again() -> None:
    """Before its pods had gone: one of them is bound, and there is no room for the other."""
    script = Script(*cluster("a: 2x8"))
    controlled = Controlled(script, job(2))
    pods = controlled.create()
    script.bind_all(pods)
    script.post(pods[0])
    script.post(pods[1], Outcome.REFUSED)
    script.see(*busy("a-1", 8))
    controlled.settle()
    assert "a-1" in controlled.stops[0]
    controlled.show(suspended=False, running=True, plan=None)
    controlled.wait(40.0)
    assert len(controlled.stops) == 1, "it may be completed still"
    controlled.wait(10.0)
    assert controlled.stops[1:] == ["its start broke off, and was not completed in time"]
