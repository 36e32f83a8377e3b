"""Pods beyond the slots of a job: where nobody can say which room is kept for those that wait."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import (
    PodGone,
    PodSeen,
)
from tests.simulation.judged_life import Life, batch


def test_nobody_can_say_what_a_job_keeps_for_its_slots_while_a_pod_beyond_them_is_led_and_another_waits() -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    pods = [life.pod(index) for index in range(3)]
    assert not life.admissions.slots.crowded({pods[0].uid: "a-0"} | {pods[1].uid: "a-1", pods[2].uid: "a-2"})
    assert life.admissions.slots.crowded({pods[0].uid: "a-0", pods[2].uid: "a-1"})
    life.tell(PodGone(pods[1].uid))
    assert not life.admissions.slots.crowded({pods[0].uid: "a-0", pods[2].uid: "a-1"})


def test_nobody_can_say_whether_a_pod_that_waits_has_the_slot_of_one_that_has_ended_well() -> None:
    life = Life(batch(2, indexed=False), "a-0", "a-1")
    life.show()
    running, ended = life.pod(0, node="a-0", phase="Running"), life.pod(1, node="a-1", phase="Running")
    waiting = life.pod(2)
    assert not life.admissions.slots.crowded({})
    life.tell(PodSeen(replace(ended, phase="Succeeded")))
    assert life.admissions.slots.crowded({})
    assert not life.admissions.slots.crowded({waiting.uid: "a-1"})
    life.tell(PodGone(running.uid))
    assert not life.admissions.slots.crowded({})
