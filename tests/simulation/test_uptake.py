"""The referee's reading of gangs whose pods come when their PodGroup is taken up."""

from __future__ import annotations

import pytest

from policies.model import Dialect
from tests.builders import requests
from tests.simulation.drawing import draw
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.rest import _uptake_complaints
from tests.simulation.sight import left_over
from tests.simulation.test_models import let, world


@pytest.mark.parametrize(("least", "complaint"), [(2, True), (3, False)])
def test_a_podgroup_that_asks_for_more_pods_than_its_job_makes_need_not_be_taken_up(
    least: int, *, complaint: bool
) -> None:
    it, role = world("a: 4x8", muster=False), Role(2, requests(8), series="worker")
    it.jobs.submit(JobSpec("train", (role,), min_member=least, dialect=Dialect.VOLCANO, pending=True))
    let(it, 5)
    assert it.api.groups
    assert bool(list(_uptake_complaints(it, left_over(it.api.nodes, ()), draw(1)))) is complaint
