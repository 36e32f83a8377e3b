"""Remembered results of waiting workloads change no decision: looking at all of them again gives the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.cycle import flavors as quota_plans
from extender.core.cycle.admission import QueueAdmission
from extender.core.cycle.cycle import Cycle
from extender.core.effects import Effect
from extender.core.engine import Engine
from extender.core.events import Event, PodGone, QueueSeen, Tick
from extender.core.explain.reasons import reason_of
from extender.core.ledger import queues
from extender.core.limits import Limits
from extender.core.queue.demands import Demands
from extender.core.queue.shortfalls import Shortfalls
from extender.core.workload.workload import Workload
from policies.model import Pod
from policies.steps import Steps, quickly
from tests.builders import cluster, gang
from tests.core.queue_course import Course, carry_out
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script
from tests.effort import calls

STEPS = 40


class Forgetful(Engine):
    """A core that looks at a whole tree when quota comes back, at all of them when queues change, and skips none."""

    def handle(self, event: Event, now: float) -> list[Effect]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(QueueAdmission, "_given_back", _at_everybody)
            patch.setattr(QueueAdmission, "still_lacks_quota", lambda *_: False)
            patch.setattr(Cycle, "_has_known_shortfall", lambda *_: False)
            patch.setattr(queues, "_others", lambda *_: None)
            return super().handle(event, now)


def _at_everybody(self: QueueAdmission, queue: str) -> Steps[None]:
    self._shortfalls.reopen(queue)
    yield from self.strict.reset(queue)


def script_of(limits: Limits, *, forgetful: bool = False) -> Script:
    script = Script(limits=limits, checked=20, synced=False)
    script.core = Forgetful(limits=limits) if forgetful else script.core
    script.feed_synced()
    return script


def decided(script: Script, *, why: bool) -> dict[str, object]:
    """The placement of each workload, and (``why``) why the others wait.

    A workload that lacked quota is not reported at once as waiting behind another one.
    """
    codes = {"QueueOrder": "NoQuota"}
    return {
        str(workload.key): (
            workload.placement,
            {pod.uid: pod.node for pod in workload.bound},
            codes.get(code := reason_of(workload.reason_state.cause).code, code) if why else "",
        )
        for workload in script.core.state.workloads.values()
    }


def play(seed: int) -> None:
    course, limits = Course(seed), Limits(fair_sharing=seed % 3 == 0)
    scripts = [script_of(limits), script_of(limits, forgetful=True)]
    for script in scripts:
        course.begin(script)
    for number in range(STEPS):
        step = course.step()
        for script in scripts:
            carry_out(script, step)
        first, other = (decided(script, why=False) for script in scripts)
        assert first == other, f"seed {seed}, step {number}: {step}"
    for script in scripts:
        script.run([pod for pod in script.pods.values() if script.planned(pod)])
        script.advance(limits.refresh_s * 2)
    first, other = (decided(script, why=True) for script in scripts)
    assert first == other, f"seed {seed}, at rest"


@pytest.mark.parametrize("seed", range(16))
def test_looking_at_everybody_again_decides_alike(seed: int) -> None:
    play(seed)


def play_all(seeds: int) -> None:
    for seed in range(seeds):
        play(seed)


@pytest.mark.parametrize("forgotten", ["awaited", "reopen", "given_back", "others"])
def test_what_is_forgotten_is_seen(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these changes skips a workload for which the returned quota is enough."""
    if forgotten == "awaited":
        monkeypatch.setattr(quota_plans, "awaited", lambda *_: ())
    elif forgotten == "reopen":
        reopen = Shortfalls.reopen
        monkeypatch.setattr(
            Shortfalls, "reopen", lambda self, scope, known=None: reopen(self, scope) if known is None else {}
        )
    elif forgotten == "others":
        monkeypatch.setattr(queues, "_others", lambda *_: {})
    else:
        monkeypatch.setattr(QueueAdmission, "_given_back", lambda self, queue: quickly(self._shortfalls.reopen(queue)))
    with pytest.raises(AssertionError, match="seed"):
        play_all(16)


def crowded(waiting: int, trees: int = 1) -> tuple[Script, Pod]:
    """Two queues of each tree with used-up quota and ``waiting`` workloads each, and the pod that runs in the first."""
    script = Script(*cluster("a: 9x8"), checked=10_000)
    names = [(f"q-{tree}-{number}", f"tree-{tree}") for tree in range(trees) for number in range(2)]
    show(script, flavor("gpus"), *(cluster_queue(name, {"gpus": 8}, cohort=tree) for name, tree in names))
    runs = {name: replace(gang(f"run-{name}", 1)[0], queue=name) for name, _ in names}
    script.see(runs.values())
    script.run([*runs.values()])
    for number in range(waiting):
        script.see([replace(gang(f"wait-{number}-{name}", 1)[0], queue=name, created=number + 1) for name, _ in names])
    script.advance(200)
    return script, runs["q-0-0"]


def cost(script: Script, ended: Pod) -> int:
    """How many functions are called when one workload ends and the next one is admitted."""
    pod = script.pods.pop(ended.uid)
    script.now += 0.1
    steps = calls(lambda: script.core.handle(PodGone(pod.uid), script.now))
    script.now = max(script.now, script.core.next_wake() or 0.0)
    steps += calls(lambda: script.core.handle(Tick(), script.now))
    assert script.planned(script.pods["uid-wait-0-q-0-0-0"])
    return steps


def test_those_who_are_passed_by_cost_little_and_other_trees_nothing() -> None:
    few, many, others = cost(*crowded(4)), cost(*crowded(24)), cost(*crowded(4, trees=4))
    assert many - few < 30 * 40, "each of 40 more of the tree is passed by with all others that wait for the same"
    assert others - few < 24, "nobody of the 24 in other trees is looked at"


def test_only_the_tree_of_a_queue_that_changed_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    script, _ = crowded(4, trees=4)
    names: list[str] = []
    ask = Demands.ask

    def noted(self: Demands, workload: Workload) -> Steps[None]:
        names.append(workload.key.name)
        return ask(self, workload)

    monkeypatch.setattr(Demands, "ask", noted)
    script.feed(QueueSeen(cluster_queue("q-1-0", {"gpus": 7}, cohort="tree-1")))
    script.advance(1)
    assert sorted(names) == sorted(f"wait-{number}-q-1-{of}" for number in range(4) for of in range(2))
