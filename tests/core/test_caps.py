"""A node that accepts some members and refuses the next is planned with those, and not abandoned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.ledger.kube_scheduler import GANG_WAITS, LEFT_OUT, part_of_plugins
from extender.core.workload.members import Step
from policies.model import Pod
from tests.builders import cluster, gang, requests, single
from tests.core.script import Script

WORDS = "0/4 nodes are available: 4 node(s) exceed max volume count."


class Limited(Script):
    """kube-scheduler lets ``most`` members in on each node, for a reason that Muster does not know."""

    most = 1

    def cycles(self, pods: list[Pod], tries: int) -> list[str]:
        """Run one cycle for each pod, again and again until all are bound. Returns their nodes."""
        for _ in range(tries):
            for pod in pods:
                node = self.planned(pod)
                member = self.gang("train").members.get(pod.uid)
                if not node or member is None or member.hold is not None or member.step is Step.LATER:
                    continue
                there = [pod for pod in self.gang("train").members.placed.values() if pod.node == node]
                if sum(pod.hold is not None for pod in there) < self.most:
                    self.bind(pod)
                else:
                    self.change(pod, refusal=WORDS, nominated_node=None)
            self.post_all()
            if len(self.bound(pods)) == len(pods):
                break
            self.advance(1.5)
        return self.bound(pods)


def test_four_members_on_four_nodes_that_take_one_each_start() -> None:
    pods = gang("train", 4, gpus=1)
    script = Limited(*cluster("a: 4x8"), *pods)
    assert len({script.planned(pod) for pod in pods}) == 1
    assert set(script.cycles(pods, tries=12)) == {"a-0", "a-1", "a-2", "a-3"}


def test_what_a_node_has_let_in_is_planned_there_again() -> None:
    pods = gang("train", 4, gpus=1)
    script = Limited(*cluster("a: 2x3"), *pods)
    assert [script.planned(pod) for pod in pods] == ["a-0", "a-0", "a-0", "a-1"]
    script.bind_all(pods[:2])
    script.change(pods[2], refusal=WORDS, nominated_node=None)
    assert [script.planned(pod) for pod in pods] == ["a-0", "a-0", "a-1", "a-1"]


def test_while_others_are_nominated_there_a_refusal_says_nothing_about_how_many_a_node_takes() -> None:
    """kube-scheduler counts nominated pods as though they were bound.

    Afterwards the members of a node are tried one by one.
    """
    pods = gang("train", 3, gpus=1)
    script = Limited(*cluster("a: 1x8"), *pods)
    script.bind(pods[0])
    script.change(pods[1], refusal=WORDS, nominated_node=None)
    assert not script.gang("train").retries.caps
    later = [script.gang("train").members[pod.uid].step is not Step.LATER for pod in pods]
    assert later == [True, False, False]
    for pod in pods:
        assert script.filter(pod) == ("a-0",)
        script.bind(pod)
    script.post_all()
    assert len(script.bound(pods)) == 3


def test_members_that_do_not_reach_bind_in_time_one_by_one_are_tried_at_once_again() -> None:
    """The refusal was about pods that have gone.

    If all members are steered at once, kube-scheduler binds them in time.
    """
    pods = gang("train", 8, gpus=1)
    script = Limited(*cluster("a: 1x8"), *pods)
    script.change(pods[0], refusal=WORDS, nominated_node=None)
    script.advance(2)
    call = script.bind(pods[0], expires_s=8)
    for pod in pods[1:4]:
        script.advance(1.4)
        script.bind(pod, expires_s=8)
    script.advance(3)
    assert "only 4 of 8 members reached bind" in script.answers[call]
    assert all(script.gang("train").members[pod.uid].step is Step.STEERED for pod in pods)
    script.run(pods)
    assert len(script.bound(pods)) == 8


def test_a_node_that_refuses_is_left_out_when_members_are_tried_at_once_after_a_try_that_took_too_long() -> None:
    """a-0 refuses. One by one the members do not reach bind on a-1 in time, but at once they do."""
    pods = gang("train", 8, gpus=1)
    script = Limited(*cluster("a: 2x8"), *pods)
    for _ in range(200):
        members = [script.gang("train").members[pod.uid] for pod in pods]
        in_turn = any(member.step is Step.LATER for member in members)
        match script.planned(pods[0]):
            case "a-0":
                script.change(pods[0], refusal=WORDS, nominated_node=None)
            case "a-1" if in_turn:
                call = script.bind(pods[0], expires_s=8)
                script.advance(6)
                assert "only 1 of 8 members reached bind" in script.answers[call]
            case "a-1":
                script.run(pods)
        script.advance(1)
    assert script.bound(pods) == ["a-1"] * 8


def test_a_gang_that_all_nodes_together_do_not_let_in_waits_with_the_words_of_kube_scheduler() -> None:
    pods = gang("train", 3, gpus=1)
    script = Limited(*cluster("a: 2x8"), *pods)
    assert script.cycles(pods, tries=12) == []
    assert not any(script.planned(pod) for pod in pods)
    assert script.reason("train") == "Refused"
    assert "exceed max volume count" in script.message("train")
    assert "kube-scheduler lets fewer members in on 2 nodes" in script.message("train")
    others = gang("others", 2)
    script.see(others)
    assert all(script.planned(pod) for pod in others)


def test_what_plugins_say_of_some_nodes_is_told_beside_what_is_lacking() -> None:
    """The question to filter comes before the condition, which also names the nodes that Muster refused."""
    pods = gang("train", 1)
    script = Script(*cluster("a: 2x8"), *pods)
    for _ in range(2):
        node = script.planned(pods[0])
        script.filter(pods[0], [name for name in ("a-0", "a-1") if name != node])
        script.advance(0.1)
    assert script.reason("train") == "NoRoom"
    detail = "1 node(s) exceed max volume count"
    script.change(pods[0], refusal=f"0/2 nodes are available: 1 {GANG_WAITS}, {detail}. no new claims to deallocate")
    assert script.reason("train") == "Refused"
    assert f"says: 0/2 nodes are available: {detail}. no new claims to deallocate; without those nodes, " in (
        script.message("train")
    )


@pytest.mark.parametrize(
    ("refusal", "of_plugins"),
    [
        (f"0/2 nodes are available: 1 {GANG_WAITS}, 1 too old.", "0/2 nodes are available: 1 too old"),
        (f"0/3 nodes are available: 1 a, 1 {GANG_WAITS}, 1 b.", "0/3 nodes are available: 1 a, 1 b"),
        (f"0/2 nodes are available: 1 too old, 1 {GANG_WAITS}. more", "0/2 nodes are available: 1 too old. more"),
        (f"0/2 nodes are available: 2 {GANG_WAITS}. no victims, preemption: 0/2 nodes are available: 2 none", ""),
        (f"0/2 nodes are available: 1 {LEFT_OUT}, 1 too old.", "0/2 nodes are available: 1 too old"),
        ("0/2 nodes are available: 2 too old.", "0/2 nodes are available: 2 too old"),
        (None, ""),
    ],
)
def test_what_plugins_say_is_told_apart_from_what_muster_says(refusal: str | None, of_plugins: str) -> None:
    assert part_of_plugins(replace(single("any"), refusal=refusal)) == of_plugins


def test_one_question_shows_all_nodes_that_plugins_refuse() -> None:
    """kube-scheduler asks about every node that its plugins accept for the pod, if there are few."""
    pods = gang("train", 2, gpus=1)
    script = Script(*cluster("a: 4x8", "b: 2x8"), *pods)
    assert {script.planned(pod) for pod in pods} == {"b-0"}
    script.filter(pods[0], ["a-2"])
    script.advance(0.1)
    assert {script.planned(pod) for pod in pods} == {"a-2"}
    assert {cap.node for cap in script.gang("train").retries.caps} == {"a-0", "a-1", "a-3", "b-0", "b-1"}


def test_nodes_of_its_siblings_may_be_refused_because_of_those() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 6x8"), *pods)
    nodes = [script.planned(pod) for pod in pods]
    script.filter(pods[2], ["a-3", "a-4"])
    script.advance(0.1)
    assert {script.planned(pod) for pod in pods[:2]} == set(nodes[:2])
    assert script.planned(pods[2]) in ("a-3", "a-4")


def test_where_many_nodes_are_asked_about_there_may_be_more_that_were_not_looked_at() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 120x8"), *pods)
    node = script.planned(pods[0])
    script.filter(pods[0], [name for name in script.core.state.claims.nodes if name != node][:100])
    assert [cap.node for cap in script.gang("train").retries.caps] == [node]


def test_a_cap_concerns_members_of_that_shape_alone() -> None:
    workers = gang("train", 2, gpus=1)
    leader = replace(gang("train", 3, gpus=1)[2], requests=requests(4))
    pods = [replace(pod, group=pod.group._replace(min_member=3)) for pod in (*workers, leader) if pod.group]
    script = Limited(*cluster("a: 1x8"), *pods)
    script.change(pods[2], refusal=WORDS, nominated_node=None)
    script.advance(0.1)
    (cap,) = script.gang("train").retries.caps
    assert (cap.node, cap.most, cap.shape[0]) == ("a-0", 0, leader.requests)


def test_room_that_others_leave_on_the_node_ends_the_cap() -> None:
    pods, busy = gang("train", 2, gpus=1), single("busy", gpus=1, node="a-0")
    script = Limited(*cluster("a: 1x8"), busy, *pods)
    script.bind(pods[0])
    script.change(pods[1], refusal=WORDS, nominated_node=None)
    script.advance(5)
    assert not any(script.planned(pod) for pod in pods)
    script.gone(busy)
    assert all(script.planned(pod) == "a-0" for pod in pods)
