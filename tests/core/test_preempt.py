"""Preemption before whole gangs can preempt: a gang's pod preempts no pod, and no pod preempts a gang's pod."""

from __future__ import annotations

from extender.core.effects import Nominate
from extender.core.gate.advisory import Mode
from tests.builders import cluster, gang, single
from tests.core.script import Script

Victims = dict[str, tuple[str, ...]]
"""The UIDs of victims, by node."""


def test_a_gang_member_preempts_nobody() -> None:
    pods, victim = gang("train", 2), single("victim", node="a-0")
    script = Script(*cluster("a: 1x8"), *pods, victim)
    assert script.preempt(pods[0], {"a-0": (victim.uid,)}) == {}


def test_a_single_may_preempt_singles_and_never_members() -> None:
    member, victim = gang("train", 1, node="a-0")[0], single("victim", node="a-1")
    preemptor = single("urgent", priority=9)
    script = Script(*cluster("a: 3x8"), member, victim, preemptor)
    victims = {"a-0": (member.uid,), "a-1": (victim.uid,), "a-2": (victim.uid, member.uid)}
    assert script.preempt(preemptor, victims) == {"a-1": (victim.uid,)}


def test_nobody_is_evicted_for_a_single_that_promised_room_would_keep_out() -> None:
    victims: Victims = {node: (f"uid-busy-{node}",) for node in ("a-0", "a-1")}
    busy, member = [single(f"busy-{node}", gpus=2, node=node) for node in victims], gang("train", 1, gpus=4)[0]
    script = Script(*cluster("a: 2x8"), *busy, member)
    here = script.planned(member)
    assert here
    for gpus, nodes in ((8, victims.keys() - {here}), (4, victims.keys())):
        assert script.preempt(single("urgent", gpus=gpus, priority=9), victims).keys() == nodes


def test_the_room_of_a_victim_that_is_being_bound_is_no_promise_to_others() -> None:
    victim = single("victim", gpus=8)
    script = Script(*cluster("a: 1x8"), victim)
    script.bind(victim, "a-0")
    victims: Victims = {"a-0": (victim.uid,)}
    assert script.preempt(single("urgent", gpus=8, priority=9), victims) == victims


def test_a_member_of_a_native_gang_is_not_kept_from_promised_room() -> None:
    victim, member = single("victim", gpus=2, node="a-0"), gang("train", 1, gpus=4)[0]
    script = Script(*cluster("a: 1x8"), victim, member)
    assert script.planned(member)
    victims: Victims = {"a-0": (victim.uid,)}
    native = single("native", gpus=8, native_group="them")
    assert script.preempt(native, victims) == victims


def test_victims_that_nobody_knows_and_empty_lists_are_taken_out() -> None:
    script = Script(*cluster("a: 2x8"))
    assert script.preempt(single("urgent"), {"a-0": ("who",), "a-1": ()}) == {}


def test_each_candidate_is_answered_with_the_victims_that_are_on_it() -> None:
    """Victims of a native group are on several nodes, and kube-scheduler looks for each on the candidate alone."""
    group = [single(f"native-{at}", node=f"a-{at}", native_group="native") for at in range(3)]
    other, waits = single("other", node="a-1"), single("waits", native_group="native")
    preemptor = single("urgent", gpus=8, priority=9)
    script = Script(*cluster("a: 4x8"), *group, other, waits, preemptor)
    all_of_it = tuple(pod.uid for pod in group)
    victims = {"a-0": all_of_it, "a-1": (*all_of_it, other.uid), "a-2": (other.uid,), "a-3": (waits.uid,)}
    assert script.preempt(preemptor, victims) == {
        "a-0": (group[0].uid,),
        "a-1": (group[1].uid, other.uid),
        "a-3": (waits.uid,),
    }


def test_a_nomination_without_a_victim_left_is_cleared() -> None:
    """kube-scheduler would keep the nomination, and its room from all pods of no higher priority."""
    member, preemptor = gang("train", 1, gpus=6, node="a-0")[0], single("urgent", gpus=8, priority=9)
    script = Script(*cluster("a: 1x8"), member, preemptor)
    script.change(preemptor, nominated_node="a-0")
    assert script.preempt(script.pods[preemptor.uid], {"a-0": (member.uid,)}) == {}
    assert script.pods[preemptor.uid].nominated_node is None
    script.effects.clear()
    script.preempt(script.pods[preemptor.uid], {"a-0": (member.uid,)})
    assert not [effect for effect in script.effects if isinstance(effect, Nominate)], "once"


def test_a_nomination_stays_where_a_victim_is_allowed_and_where_muster_only_advises() -> None:
    member, victim = gang("train", 1, gpus=6, node="a-0")[0], single("victim", node="a-1")
    preemptor = single("urgent", gpus=8, priority=9, nominated_node="a-0")
    answers: dict[Mode, Victims] = {
        Mode.ENFORCE: {"a-1": (victim.uid,)},
        Mode.ADVISE: {"a-0": (member.uid,)},
    }
    for mode, victims in answers.items():
        script = Script(*cluster("a: 2x8"), member, victim, preemptor, mode=mode)
        script.preempt(preemptor, victims)
        assert script.pods[preemptor.uid].nominated_node == "a-0"
