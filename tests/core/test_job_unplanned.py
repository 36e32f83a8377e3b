"""A job that somebody started without a plan, and whose template says that its pods are a gang."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Dialect, GroupRef
from tests.builders import cluster
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
