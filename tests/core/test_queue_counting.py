"""The quota counts when the objects change, and after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.ledger.quotas import Quotas
from policies.model.queues import ClusterQueue, Quota
from tests.builders import GPU, cluster
from tests.core.queues import Queued, cluster_queue, come, flavor, in_queue, planned, reason, show, used
from tests.core.script import Script


@pytest.mark.parametrize("lending", [None, 8, 0])
def test_other_quota_is_as_if_it_had_been_so_from_the_beginning_and_nobody_is_counted_anew(
    lending: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def objects(nominal: int, lending: int | None) -> list[ClusterQueue]:
        other = cluster_queue("other", {"gpus": 16}, cohort="all")
        return [cluster_queue("team", {"gpus": Quota(nominal, lending=lending)}, cohort="all"), other]

    changed, fresh = Script(*cluster("a: 4x8")), Script(*cluster("a: 4x8"))
    show(changed, flavor("gpus"), *objects(32, 0))
    show(fresh, flavor("gpus"), *objects(16, lending))
    for script in (changed, fresh):
        come(script, in_queue("first", 2))
    with monkeypatch.context() as patch:
        patch.setattr(Quotas, "recount", None)
        show(changed, *objects(16, lending))
        changed.advance(0.5)
    trees = [script.core.state.quotas.queues.snapshot.tree for script in (changed, fresh)]
    totals = [
        {node.name: (+node.used, node.left(("gpus", GPU))) for node in (*tree.queues.values(), *tree.cohorts.values())}
        for tree in trees
    ]
    assert totals[0] == totals[1]
    assert totals[0]["team"][0] == {("gpus", GPU): 16}


def test_what_a_queue_has_no_flavor_for_any_more_uses_nothing_whatever_amounts_change_at_once() -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), flavor("new"), *(cluster_queue(name, {"gpus": 32}) for name in ("other", "team")))
    come(script, in_queue("first", 2))
    assert used(script, "team") == 16
    show(script, cluster_queue("other", {"gpus": 16}), cluster_queue("team", {"new": 32}))
    script.advance(0.5)
    assert used(script, "team") == 0


def test_after_a_restart_no_plan_is_taken_over_that_there_is_no_quota_for() -> None:
    """Both were nominated by former leaders: one before the other one's quota was given back."""
    script = Script(*cluster("a: 2x8"), synced=False)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    for at, name in enumerate(("first", "second")):
        script.see(*(replace(pod, nominated_node=f"a-{at}") for pod in in_queue(name, 1, "team")))
    script.feed_synced()
    script.advance(0.5)
    assert (planned(script, "first"), planned(script, "second")) == (1, 0)
    assert reason(script, "second").code == "NoQuota"
    assert used(script, "team") == 8


def test_after_a_restart_a_gang_of_which_all_pods_terminate_uses_its_quota_until_they_are_gone() -> None:
    things = flavor("gpus"), cluster_queue("team", {"gpus": 8})
    script = Queued(*cluster("a: 2x8"), things=things)
    (old,) = script.start("old", 1, "team")
    script.change(old, deleting=True)
    again = Queued(*cluster("a: 2x8"), *script.pods.values(), things=things)
    new = again.come("new", 1, "team")
    assert used(again, "team") == 8
    assert again.reason("new") == "NoQuota"
    again.gone(old)
    again.advance(1)
    assert all(map(again.planned, new))
