"""Pods that were bound before Muster came, or by another scheduler: they count, and are never evicted."""

from __future__ import annotations

from dataclasses import replace

from tests.builders import cluster, gang, reborn
from tests.core.script import Script


def test_pods_that_run_already_are_left_alone_and_the_rest_joins_them() -> None:
    pods = gang("train", 4)
    running = [replace(pod, node=f"a-{pod.index}") for pod in pods[:2]]
    script = Script(*cluster("a: 4x8"), *running, *pods[2:])
    script.run(pods[2:])
    assert len(script.bound(pods)) == 4
    assert script.reason("train") == "Running"
    script.advance(300)
    assert not script.evicted


def test_pods_that_run_already_are_not_evicted_for_want_of_the_rest() -> None:
    pods = gang("train", 4)
    script = Script(*cluster("a: 2x8"), *(replace(pod, node=f"a-{pod.index}") for pod in pods[:2]), *pods[2:])
    assert script.reason("train") == "NoRoom"
    script.advance(300)
    assert not script.evicted


def test_a_gang_that_was_bound_by_somebody_else_goes_on_when_it_loses_a_member() -> None:
    pods = [replace(pod, node=f"a-{pod.index}") for pod in gang("train", 3)]
    script = Script(*cluster("a: 3x8"), *pods)
    assert script.reason("train") == "Running"
    script.gone(pods[1])
    replacement = reborn(pods[1])
    script.see(replacement)
    script.run([replacement])
    assert len(script.bound([pods[0], replacement, pods[2]])) == 3
    script.advance(300)
    assert not script.evicted


def test_of_a_release_that_stays_broken_only_what_we_have_bound_is_evicted() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.change(pods[0], node=script.planned(pods[0]))
    calls = script.bind_all(pods[1:])
    (first,) = script.bindings
    last = next(pod for pod in pods[1:] if pod.uid != first)
    script.disconnect(calls[pods[1:].index(last)])
    script.gone(script.pods[last.uid])
    script.post(script.pods[first])
    assert script.reason("train") == "Partial"
    script.advance(100)
    assert set(script.evicted) == {script.pods[first].name}
