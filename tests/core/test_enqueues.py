"""PodGroups whose job makes no pods until a scheduler has taken them up: asked for once, and again if that failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Enqueue, Report
from extender.core.events import Enqueued, GroupGone
from policies.model import Controller, Dialect, GroupKey, GroupRef, Pod, PodGroup
from tests.builders import cluster, requests
from tests.core.script import Script

KEY = GroupKey("default", "train-uid")
JOB = Controller("batch.volcano.sh/v1alpha1", "Job", "train", "uid")
WAITS = PodGroup(KEY, "group-uid", 2, dialect=Dialect.VOLCANO, job=JOB, pending=True)
TAKEN_UP = replace(WAITS, pending=False)
ASKED = Enqueue(KEY, "group-uid", JOB)


def asked(script: Script) -> int:
    """How often, since this was asked last."""
    found = [effect for effect in script.effects if isinstance(effect, Enqueue)]
    assert set(found) <= {ASKED}
    script.effects.clear()
    return len(found)


def test_it_is_asked_for_when_it_is_seen_and_not_again_while_it_stays_as_it_is() -> None:
    script = Script(*cluster("a: 2x8"))
    script.see(WAITS)
    assert asked(script) == 1
    script.feed(Enqueued(KEY))
    script.see(WAITS)
    script.advance(10_000)
    assert asked(script) == 0


def test_those_from_before_the_start_are_asked_for_when_muster_acts() -> None:
    script = Script(WAITS, synced=False)
    assert asked(script) == 0
    script.feed_synced()
    assert asked(script) == 1


@pytest.mark.parametrize(
    "group", [TAKEN_UP, replace(WAITS, deleting=True), replace(WAITS, job=None, dialect=Dialect.COSCHEDULING)]
)
def test_nothing_else_is_asked_for(group: PodGroup) -> None:
    script = Script(*cluster("a: 2x8"))
    script.see(group)
    assert asked(script) == 0


def test_what_failed_is_asked_for_again_ever_more_seldom() -> None:
    script = Script(*cluster("a: 2x8"))
    script.see(WAITS)
    pauses = []
    for _ in range(12):
        asked(script)
        script.feed(Enqueued(KEY, "the right is missing"))
        began = script.now
        while not asked(script):
            script.advance(1)
        pauses.append(round(script.now - began))
    assert pauses[:3] == [5, 10, 20]
    assert pauses[-2:] == [900, 900]
    script.feed(Enqueued(KEY))
    script.feed(Enqueued(KEY, "the right is missing"))
    script.advance(6)
    assert asked(script) == 1, "what has failed before that went well is forgotten"


@pytest.mark.parametrize("how", ["taken up", "gone"])
def test_what_failed_is_not_asked_for_when_it_waits_no_more(how: str) -> None:
    script = Script(*cluster("a: 2x8"))
    script.see(WAITS)
    script.feed(Enqueued(KEY, "no answer"))
    asked(script)
    if how == "gone":
        script.feed(GroupGone(KEY, "group-uid", Dialect.VOLCANO))
    else:
        script.see(TAKEN_UP)
    script.advance(10_000)
    assert asked(script) == 0
    assert script.core.next_wake() is None


def test_its_reports_are_for_a_podgroup_of_volcano_only_where_a_job_of_volcano_made_it() -> None:
    for group, uid, dialect in [
        (TAKEN_UP, "group-uid", Dialect.VOLCANO),
        (replace(TAKEN_UP, job=None), None, Dialect.COSCHEDULING),
    ]:
        ref = GroupRef(KEY.name, Dialect.VOLCANO)
        pods = [Pod(f"u{at}", "default", f"p{at}", requests(8), group=ref) for at in range(2)]
        script = Script(*cluster("a: 2x8"), group, *pods)
        script.run(pods)
        script.advance(60)
        (told,) = [effect for effect in script.effects if isinstance(effect, Report)]
        assert (told.code, told.group_uid, told.dialect) == ("Running", uid, dialect)
