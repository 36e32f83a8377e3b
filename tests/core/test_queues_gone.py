"""What becomes of workloads whose queue goes, stops or comes back."""

from __future__ import annotations

from extender.core.events import QueueGone, QueueSeen
from policies.model.queues import (
    LocalQueue,
    Stop,
)
from tests.builders import cluster
from tests.core.queues import cluster_queue, come, flavor, in_queue, planned, reason, show, used
from tests.core.script import Script


def test_who_names_a_queue_where_there_is_none_waits_for_it_only_while_there_are_others() -> None:
    script, other = Script(*cluster("a: 2x8")), cluster_queue("other", {"gpus": 8})
    script.feed(QueueSeen(other))
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "QueueMissing"
    script.feed(QueueGone(other))
    script.advance(0.5)
    assert planned(script, "first") == 2


def test_a_gang_that_runs_grows_while_its_queue_is_stopped_and_not_while_there_is_none() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 64}))
    first, second, third, last = in_queue("first", 4, min_member=2)
    come(script, [first, second])
    script.run([first, second])
    show(script, cluster_queue("team", {"gpus": 64}, stop=Stop.HOLD))
    come(script, [third])
    assert script.planned(third)
    come(script, in_queue("second", 2))
    assert reason(script, "second").code == "QueueStopped"
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    come(script, [last])
    assert not script.planned(last)
    assert "there is no LocalQueue team" in script.message("first")


def test_a_gang_that_comes_with_the_news_that_its_queue_is_gone_waits_for_that_reason() -> None:
    """Before a pass has drawn the picture anew."""
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 40}))
    script.advance(0.5)
    script.feed(QueueGone(script.core.state.quotas.queues.picture.locals["default", "team"]))
    script.see(*in_queue("late", 2))
    assert planned(script, "late") == 0
    script.advance(0.5)
    assert reason(script, "late").code == "QueueMissing"


def test_a_gang_that_runs_goes_on_when_its_queue_is_deleted_and_counts_again_when_that_is_back() -> None:
    """Nothing says meanwhile where it belongs: after a restart nobody could tell."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    pods = in_queue("first", 2)
    come(script, pods)
    script.run(pods)
    script.feed(QueueGone(LocalQueue("default", "team", "team")))
    script.advance(0.5)
    assert used(script, "team") == 0
    assert reason(script, "first").code == "Running"
    script.feed(QueueSeen(LocalQueue("default", "team", "team")))
    script.advance(0.5)
    assert used(script, "team") == 16
