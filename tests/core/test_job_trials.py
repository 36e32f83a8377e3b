"""Before a job is planned, a dry run asks the API server how it completes a pod of a new shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import PodTried, Verdict
from extender.core.effects import TryPod
from extender.core.events import JobGone, JobSeen, NamespaceSeen, Paused
from extender.core.limits import Limits, Preempts
from policies.model import GroupKey, Pod, PodSets
from tests.builders import gang
from tests.core.jobs import Controlled
from tests.core.preempting import Cluster
from tests.core.script import Script
from tests.core.test_job_additions import LARGE, LARGER, SMALL, shaped

LIMITS = Limits(trials=True)
PSA = "403 Forbidden: pods are forbidden: violates PodSecurity"
QUOTA = "403 Forbidden: pods are forbidden: exceeded quota: none"
Answer = tuple[Verdict, str]


class Server:
    """Answers the dry runs of a script, each when ``answer`` is called."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._read = 0
        self.asked: list[TryPod] = []

    def pending(self) -> list[TryPod]:
        fresh = [effect for effect in self.script.effects[self._read :] if isinstance(effect, TryPod)]
        self._read = len(self.script.effects)
        self.asked += fresh
        return fresh

    def answer(self, verdict: Verdict = Verdict.PASSED, detail: str = "", **facts: Any) -> int:
        """Answer all pending dry runs. Returns how many there were."""
        answered = self.pending()
        for trial in answered:
            made = _pod(trial, **facts) if verdict is Verdict.PASSED else None
            self.script.feed(PodTried(trial.job.key, trial.shape, verdict, made, detail))
        return len(answered)


def _pod(trial: TryPod, **facts: Any) -> Pod:
    podset = next(podset for podset in trial.job.podsets.podsets if podset.name == trial.podset)
    return replace(podset.template, uid="tried", name="tried", **facts)


def test_a_job_is_planned_for_what_the_api_server_would_make_of_its_pods() -> None:
    script = Script(*SMALL, *LARGE, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    assert (train.starts, script.reason("job")) == ([], "Trying")
    server.answer(requests=LARGER)
    train.settle()
    assert set(train.starts[0].plan[""]) == {"b-0", "b-1"}
    script.run(train.create(requests=LARGER))
    assert (script.reason("job"), train.stops) == ("Running", [])


@pytest.mark.parametrize("verdict", [Verdict.UNANSWERED, Verdict.UNAVAILABLE, None])
def test_without_an_answer_the_template_counts(verdict: Verdict | None) -> None:
    script = Script(*SMALL, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    if verdict is None:
        train.wait(2)
    else:
        server.answer(verdict)
        train.settle()
    assert set(train.starts[0].plan[""]) == {"a-0", "a-1"}


def test_187_jobs_of_one_shape_ask_once() -> None:
    script = Script(*SMALL, limits=LIMITS)
    server = Server(script)
    for number in range(187):
        script.feed(JobSeen(shaped(f"job-{number}")))
    server.answer()
    script.advance(300)
    for number in range(187, 200):
        script.feed(JobSeen(shaped(f"job-{number}")))
    script.advance(5)
    assert (server.answer(), len(server.asked)) == (0, 1)


def test_no_more_than_five_are_asked_a_second_and_each_namespace_has_its_turn() -> None:
    script = Script(limits=LIMITS)
    server = Server(script)
    for number in range(100):
        script.feed(JobSeen(shaped(f"job-{number}", shape=f"S{number}")))
    other = shaped("other", shape="T")
    elsewhere = replace(other, podsets=PodSets(GroupKey("elsewhere", "other"), other.podsets.podsets))
    script.feed(JobSeen(elsewhere))
    counts = []
    for _ in range(3):
        script.advance(1.0)
        counts.append(server.answer())
    assert sum(counts) <= 16
    assert min(counts) >= 4
    assert "T" in [trial.shape for trial in server.asked[:4]]


def test_a_refusal_is_the_reason_and_is_asked_for_again_after_a_minute() -> None:
    script = Script(*SMALL, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer(Verdict.REFUSED, PSA)
    script.advance(55)
    assert (script.reason("job"), train.starts, server.answer()) == ("PodsRefused", [], 0)
    remedy = "change its pod template, or the pod-security labels of its namespace"
    assert script.message("job") == f"the API server refuses its pods: {PSA}; {remedy}"
    script.advance(10)
    train.settle()
    assert (script.reason("job"), train.starts) == ("PodsRefused", []), "until there is another answer"
    assert server.answer() == 1
    train.wait(1)
    assert len(train.starts) == 1


def test_a_refusal_is_asked_for_again_when_the_namespace_changes() -> None:
    script = Script(*SMALL, limits=LIMITS)
    script.feed(NamespaceSeen("default", ()))
    server, train = Server(script), Controlled(script, shaped())
    server.answer(Verdict.REFUSED, PSA)
    script.feed(NamespaceSeen("default", (("pod-security.kubernetes.io/enforce", "privileged"),)))
    script.advance(0.2)
    assert server.answer() == 0, "the API server may not have seen that yet"
    script.advance(0.4)
    assert server.answer() == 1
    train.settle()
    assert len(train.starts) == 1


def test_what_is_refused_for_now_is_the_reason_and_holds_no_room() -> None:
    """A ResourceQuota is used up.

    A job with quota gets the nodes meanwhile, and this job starts soon after it has some.
    """
    script = Script(*SMALL, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer(Verdict.NOT_NOW, QUOTA)
    script.advance(14)
    train.settle()
    assert (script.reason("job"), train.starts, server.answer()) == ("PodsRefused", [], 0)
    assert f"the API server refuses its pods: {QUOTA}; it is tried again" in script.message("job")
    other = Controlled(script, shaped("other", shape="T"))
    server.answer()
    other.settle()
    assert len(other.starts) == 1
    script.advance(2)
    assert server.answer() == 1
    train.settle()
    assert script.reason("job") == "NoRoom"


def test_podsets_that_are_refused_are_all_tried_again() -> None:
    """The first passes before the second, which had been refused when the job waited for the first alone."""
    script = Script(*SMALL, limits=LIMITS)
    server, first = Server(script), shaped(count=1)
    podset = first.podsets.podsets[0]
    second = replace(podset, template=replace(podset.template, series="1"), shape="T")
    train = Controlled(script, replace(first, podsets=PodSets(first.key, (podset, second))))
    for seconds in range(100):
        script.advance(1)
        server.answer(Verdict.NOT_NOW if seconds < 40 else Verdict.PASSED, QUOTA)
    train.settle()
    assert len(train.starts) == 1


POOL = (("scheduler.alpha.kubernetes.io/node-selector", "pool=mine"),)


@pytest.mark.parametrize("known_by", ["trial", "pods"])
def test_what_a_namespace_added_is_asked_for_again_when_its_annotations_change(known_by: str) -> None:
    script = Script(*SMALL, limits=LIMITS)
    script.feed(NamespaceSeen("default", (), annotations=POOL))
    server, train = Server(script), Controlled(script, shaped())
    chosen = replace(shaped().podsets.podsets[0].template.selection, node_selector=(("pool", "mine"),))
    if known_by == "trial":
        server.answer(selection=chosen)
        train.settle()
    else:
        server.answer(Verdict.UNANSWERED)
        train.settle()
        train.create(selection=chosen)
        train.delete()
        train.show(stopped=True)
        train.wait(10)
    assert script.reason("job") == "NoRoom"
    assert "node selector pool=mine" in script.message("job")
    before = len(train.starts)
    script.feed(NamespaceSeen("default", (), annotations=POOL))
    assert script.reason("job") == "NoRoom", "nothing has changed"
    script.feed(NamespaceSeen("default", ()))
    assert script.reason("job") == "Trying"
    script.advance(1)
    assert server.answer() == 1
    train.settle()
    assert len(train.starts) == before + 1


def test_pods_that_were_not_created_are_tried_once_more() -> None:
    """The reason has the words of the present refusal, and the job is not started again and again."""
    script = Script(*SMALL, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer()
    train.settle()
    while not train.stops:
        train.wait(0.25)
    assert server.answer(Verdict.REFUSED, PSA) == 1
    train.wait(30)
    assert (len(train.starts), script.reason("job")) == (1, "PodsRefused")


def test_a_quota_with_room_for_one_of_two_pods_is_named_when_the_other_does_not_come() -> None:
    """The pod that was created uses the quota up until it is deleted, so the job is suspended after the dry run."""
    script = Script(*SMALL, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer()
    train.settle()
    train.create(only=1)
    script.bind_all(list(script.pods.values()), expires_s=600)
    while not server.answer(Verdict.NOT_NOW, QUOTA):
        train.wait(0.25)
        assert not train.stops
    train.wait(1)
    assert len(train.stops) == 1
    assert not server.pending(), "the answer is as new as it can be"
    train.delete()
    train.show(stopped=True)
    train.wait(2)
    assert script.reason("job") == "PodsRefused"
    assert QUOTA in script.message("job")
    while not server.answer():
        train.wait(1)
    train.settle()
    assert len(train.starts) == 2


def test_another_template_is_another_shape() -> None:
    script = Script(*SMALL, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer(Verdict.REFUSED, PSA)
    train.show(podsets=shaped(shape="T").podsets)
    server.answer()
    train.settle()
    assert len(train.starts) == 1


def test_where_none_can_be_tried_nothing_is_asked_for_a_minute() -> None:
    script = Script(*SMALL, *LARGE, limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer(Verdict.UNAVAILABLE)
    train.settle()
    second = Controlled(script, shaped("second", shape="T"))
    assert (len(train.starts), len(second.starts), server.answer()) == (1, 1, 0)
    script.advance(60)
    Controlled(script, shaped("third", shape="U"))
    assert server.answer() == 1


def test_a_job_that_has_gone_is_not_asked_about() -> None:
    script = Script(*SMALL, limits=LIMITS)
    server = Server(script)
    first = Controlled(script, shaped("first"))
    gone = shaped("gone", shape="T")
    for event in (JobSeen(shaped("before", shape="R")), JobSeen(gone), JobGone(gone.key, gone.uid)):
        script.feed(event)
    script.advance(5)
    server.answer()
    first.settle()
    assert first.starts
    assert "T" not in [trial.shape for trial in server.asked]


def low_and_high(script: Cluster, server: Server) -> tuple[Controlled, Controlled]:
    """A job runs on all nodes; another one of a higher priority comes."""
    low = Controlled(script, shaped("low", shape="L"))
    server.answer()
    low.settle()
    low.run()
    high = shaped("high", shape="H")
    podset = high.podsets.podsets[0]
    template = replace(podset.template, priority=10)
    return low, Controlled(script, replace(high, podsets=PodSets(high.key, (replace(podset, template=template),))))


ON = Limits(trials=True, preemption=Preempts.ON)


def test_nobody_is_evicted_for_pods_that_a_resource_quota_refuses() -> None:
    script = Cluster(*SMALL, limits=ON)
    server = Server(script)
    low, high = low_and_high(script, server)
    for _ in range(20):
        server.answer(Verdict.NOT_NOW, QUOTA)
        high.wait(5)
        low.settle()
    assert (low.stops, high.starts) == ([], [])
    assert f"the API server refuses its pods: {QUOTA}" in script.message("high")
    assert 5 <= len(server.asked) <= 10, "it is asked every 15 s"
    for _ in range(4):
        server.answer()
        high.wait(5)
        low.settle()
    assert len(low.stops) == 1, "there is quota by now"


def test_pods_that_were_tried_a_moment_ago_are_not_tried_again() -> None:
    script = Cluster(*SMALL, limits=ON)
    server = Server(script)
    low, high = low_and_high(script, server)
    server.answer()
    low.settle()
    low.delete()
    low.show(stopped=True)
    high.wait(1)
    assert (len(low.stops), len(high.starts), len(server.asked)) == (1, 1, 2)


def test_what_was_tried_long_ago_is_tried_again_before_anybody_is_evicted() -> None:
    script = Cluster(*SMALL, limits=ON)
    server = Server(script)
    low = Controlled(script, shaped("low", shape="L"))
    server.answer()
    low.settle()
    low.run()
    script.advance(60)
    job = shaped("high", shape="L")
    podset = job.podsets.podsets[0]
    template = replace(podset.template, priority=10)
    high = Controlled(script, replace(job, podsets=PodSets(job.key, (replace(podset, template=template),))))
    assert not low.stops
    assert "before the API server has been asked about its pods" in script.message("high")
    assert server.answer() == 1
    high.wait(2)
    low.settle()
    assert len(low.stops) == 1


@pytest.mark.parametrize("trials", [True, False])
def test_nobody_is_evicted_twice_for_pods_that_were_not_created(trials: bool) -> None:
    """The dry run of one pod does not matter: a quota may have room for one, and not for two."""
    script = Cluster(*SMALL, limits=replace(ON, trials=trials))
    server = Server(script)
    low, high = low_and_high(script, server)
    for _ in range(200):
        server.answer()
        high.wait(2)
        low.settle()
        if low.stops and low.pods:
            low.delete()
            low.show(stopped=True)
        if not low.seen.suspended and not low.pods:
            low.run()
    assert len(low.stops) == 1
    assert len(high.starts) >= 1
    assert script.reason("low") == "Running"
    assert "its pods were not created in time" in script.message("high")


@pytest.mark.parametrize("verdict", [Verdict.UNANSWERED, Verdict.UNAVAILABLE])
def test_what_is_not_remembered_is_asked_again_without_holding_anybody_up(verdict: Verdict) -> None:
    script = Script(limits=LIMITS)
    server, train = Server(script), Controlled(script, shaped())
    server.answer(verdict)
    train.settle()
    assert script.reason("job") == "NoRoom"
    script.advance(61)
    train.show(hint="a change")
    assert script.reason("job") == "NoRoom"
    script.advance(0.2)
    assert server.answer(requests=LARGER) == 1
    script.advance(1)
    assert script.message("job").startswith("its pods ask for 16.1 cpu")


def test_pods_that_were_created_count_for_more_than_a_dry_run() -> None:
    """The controller may have added fields that a dry run does not know of."""
    script = Cluster(*SMALL, *LARGE, limits=ON)
    server, train = Server(script), Controlled(script, shaped())
    server.answer()
    train.settle()
    train.create(requests=LARGER)
    train.delete()
    train.show(stopped=True)
    script.feed(PodTried(train.seen.key, "S", Verdict.PASSED, train.seen.podsets.podsets[0].template))
    train.wait(5)
    assert set(train.starts[-1].plan[""]) == {"b-0", "b-1"}


def test_nothing_is_tried_while_nothing_new_is_planned() -> None:
    """A dry run's answer may be what the core has failed on again and again, without any faulty object."""
    script = Script(*SMALL, limits=LIMITS, synced=False)
    script.feed(Paused(script.now + 300.0))
    script.feed_synced()
    server, train = Server(script), Controlled(script, shaped())
    train.wait(5)
    assert (server.pending(), train.starts) == ([], [])
    assert (due := script.core.next_wake()) is None or due > script.now
    train.wait(300)
    assert server.answer() == 1
    train.settle()
    assert train.starts


def test_after_a_restart_no_job_loses_its_turn_to_a_question() -> None:
    """The job came first, and a gang of pods that waits, too, would take its node while it is asked for."""
    script = Script(*SMALL, limits=LIMITS, synced=False)
    job = Controlled(script, shaped())
    script.see(*gang("later", 1, created=5000.0))
    script.feed_synced()
    server = Server(script)
    assert script.reason("later") != "Placed", "the job has the nodes"
    server.answer()
    job.settle()
    assert len(job.starts) == 1
