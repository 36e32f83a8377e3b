"""Hints for authors of pods: once for each template, bounded in number and in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Hint
from extender.core.events import JobSeen, PodGone, PodSeen
from policies.model import Controller, Pod
from tests.builders import cluster, gang, single
from tests.core.jobs import job
from tests.core.script import Script

TEXT = "muster.dev/podgroup means nothing to Muster: write muster.dev/pod-group"


def hinted(script: Script) -> list[str]:
    return [effect.name for effect in script.effects if isinstance(effect, Hint)]


def typo(name: str, owner: str = "", **facts: object) -> Pod:
    maker = Controller("batch/v1", "Job", owner, f"uid-{owner}") if owner else None
    pod = replace(single(name), hint=TEXT, owner=f"uid-{owner}" if owner else "", controller=maker)
    return replace(pod, **facts)  # type: ignore[arg-type]


def test_a_template_is_told_of_once_on_a_pod_and_on_its_owner() -> None:
    script = Script(*cluster("a: 2x8"))
    script.see(*(typo(f"train-{at}", "train") for at in range(3)))
    (hint,) = [effect for effect in script.effects if isinstance(effect, Hint)]
    assert (hint.name, hint.message, hint.owner) == (
        "train-0",
        TEXT,
        Controller("batch/v1", "Job", "train", "uid-train"),
    )
    script.change(typo("train-1", "train"), nominated_node="a-0")
    assert hinted(script) == ["train-0"]


def test_pods_from_before_the_start_are_told_of_when_muster_acts() -> None:
    script = Script(*cluster("a: 2x8"), typo("old", "old"), synced=False)
    assert not hinted(script)
    synced = Script(*cluster("a: 2x8"), typo("old", "old"))
    assert hinted(synced) == ["old"]


@pytest.mark.parametrize("synced", [True, False])
def test_a_job_that_waits_is_told_before_it_has_pods(synced: bool) -> None:
    script = Script(*cluster("a: 2x8"), synced=synced)
    train = replace(job(2), hint=TEXT)
    script.feed(JobSeen(train))
    if not synced:
        assert not hinted(script)
        script.feed_synced()
    (hint,) = [effect for effect in script.effects if isinstance(effect, Hint)]
    assert (hint.uid, hint.namespace, hint.name, hint.owner) == ("", train.key.namespace, train.owner.name, train.owner)


def test_nothing_is_said_about_pods_of_others_or_pods_that_run() -> None:
    script = Script(*cluster("a: 2x8"))
    script.see(typo("other", scheduler="default-scheduler"), typo("runs", node="a-0"), typo("going", deleting=True))
    script.see(gang("train", 2))
    assert not hinted(script)


def test_many_templates_are_told_of_at_a_bounded_rate() -> None:
    script = Script(*cluster("a: 2x8"))
    for at in range(200):
        script.feed(PodSeen(typo(f"p-{at}", f"job-{at}")))
    assert len(hinted(script)) == 20
    script.advance(30)
    for at in range(200):
        script.feed(PodSeen(typo(f"q-{at}", f"other-{at}")))
    assert len(hinted(script)) == 30


def unpinned(script: Script) -> list[tuple[str, str]]:
    return [(effect.name, effect.message) for effect in script.effects if isinstance(effect, Hint) and effect.once]


def test_each_pod_without_its_pin_is_told_of_once_and_counted() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = [replace(single(f"train-{at}"), unpinned=True) for at in range(3)]
    script.see(*pods, replace(single("led")))
    assert [name for name, _ in unpinned(script)] == ["train-0", "train-1", "train-2"]
    assert all("Muster's filter leads it" in text for _, text in unpinned(script))
    for pod in pods:
        script.change(pod, nominated_node="a-0")
    script.change(pods[0], group=gang("moved", 1)[0].group)
    assert len(unpinned(script)) == 3
    assert script.core.state.counts.unpinned == 3


def test_a_pod_without_its_pin_is_told_of_whoever_schedules_it() -> None:
    """kube-scheduler may have bound it before the watch shows it."""
    script = Script(*cluster("a: 2x8"))
    script.see(replace(single("train-0", scheduler="default-scheduler", node="a-0"), unpinned=True))
    ((name, text),) = unpinned(script)
    assert (name, "its scheduler default-scheduler does not ask Muster" in text) == ("train-0", True)


def test_after_a_restart_only_pods_that_wait_are_told_of() -> None:
    pods = [replace(single("waits"), unpinned=True), replace(single("runs", node="a-0"), unpinned=True)]
    pods.append(replace(single("over", phase="Succeeded"), unpinned=True))
    script = Script(*cluster("a: 2x8"), *pods)
    assert [name for name, _ in unpinned(script)] == ["waits"]
    assert script.core.state.counts.unpinned == 1


def test_all_pods_without_their_pin_are_counted_and_few_are_told_of() -> None:
    script = Script(*cluster("a: 2x8"))
    for at in range(50):
        script.feed(PodSeen(replace(single(f"train-{at}"), unpinned=True)))
    assert (len(unpinned(script)), script.core.state.counts.unpinned) == (20, 50)


def test_what_is_remembered_is_bounded() -> None:
    script = Script(*cluster("a: 2x8"), checked=1000)
    for at in range(11_000):
        script.now += 3
        script.feed(PodSeen(typo("p", f"job-{at}", uid=f"uid-{at}")))
        script.feed(PodGone(f"uid-{at}"))
    assert len(hinted(script)) == 11_000
    assert len(script.core._apply._hints._given) <= 1024
