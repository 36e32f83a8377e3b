"""Gangs of pods whose PodGroup says a minimum for each role: none starts while a role is below its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.events import GroupGone
from extender.core.workload.slots import Stage
from policies.model import Dialect, GroupKey, GroupRef, Minima, Pod, PodGroup, Topology
from policies.model.topology import WHOLE_ROLE
from tests.builders import cluster, requests
from tests.core.invariants import validate
from tests.core.queues import cluster_queue, flavor, show
from tests.core.script import Script

KEY = GroupKey("default", "train")
NODES = "a: 6x8"


def podgroup(size: int, **minima: int) -> PodGroup:
    return PodGroup(KEY, "group-uid", size, dialect=Dialect.VOLCANO, minima=tuple(minima.items()))


def members(role: str, count: int, *, index: bool = False) -> list[Pod]:
    ref = GroupRef("train", Dialect.VOLCANO, role=role)
    pods = [Pod(f"{role}-{at}", "default", f"{role}-{at}", requests(8), group=ref) for at in range(count)]
    return [replace(pod, index=at, series=role) for at, pod in enumerate(pods)] if index else pods


def test_it_waits_for_the_members_of_each_role() -> None:
    script = Script(*cluster(NODES), podgroup(3, master=1, worker=2), *members("worker", 3))
    assert (script.reason("train"), script.message("train")) == (
        "MembersMissing",
        "0 of 1 members of role master exist",
    )
    script.see(*members("master", 1))
    script.run([*members("worker", 3), *members("master", 1)])
    assert script.reason("train") == "Running"


@pytest.mark.parametrize("index", [False, True])
def test_a_plan_that_leaves_a_role_short_is_made_for_the_least_of_each(index: bool) -> None:
    workers, masters = members("worker", 4, index=index), members("master", 2, index=index)
    script = Script(*cluster("a: 3x8"), podgroup(3, worker=1, master=2), *workers, *masters)
    planned = [pod for pod in (*workers, *masters) if script.planned(pod)]
    assert planned == [workers[0], *masters]


def test_nobody_is_bound_before_each_role_has_its_minimum_at_bind() -> None:
    workers, [master] = members("worker", 4), members("master", 1)
    script = Script(*cluster(NODES), podgroup(2, master=1, worker=1), *workers, master)
    script.bind_all(workers)
    assert not script.bindings, "four of two members are held, and no master"
    assert (script.reason("train"), script.message("train")) == (
        "Holding", "0 of 1 members of role master reached bind"
    )  # fmt: skip
    script.bind(master)
    script.post_all()
    assert {pod.uid for pod in script.gang("train").bound} == {pod.uid for pod in (*workers, master)}


def test_without_room_for_each_role_nobody_is_planned() -> None:
    script = Script(*cluster("a: 2x8"), podgroup(2, master=1, worker=2), *members("worker", 3), *members("master", 1))
    assert script.reason("train") == "NoRoom"
    assert not any(script.planned(pod) for pod in script.pods.values())


def test_a_release_that_left_a_role_short_is_completed_after_a_restart() -> None:
    workers, [master] = members("worker", 2), members("master", 1)
    script = Script(*cluster(NODES), podgroup(2, master=1, worker=1), *workers, master)
    script.bind_all([*workers, master])
    while script.bindings:
        pod = script.pods[next(iter(script.bindings))]
        script.post(pod, Outcome.REFUSED if pod.uid == master.uid else Outcome.DONE)
    assert script.gang("train").release.partial_since is not None
    later = Script(*cluster(NODES), podgroup(2, master=1, worker=1), *script.pods.values(), now=script.now)
    assert not later.gang("train").release.complete
    later.run([master])
    assert later.reason("train") == "Running"


def test_a_pod_whose_role_is_edited_counts_for_the_other() -> None:
    script = Script(*cluster(NODES), podgroup(2, master=1, worker=1), *members("worker", 2))
    assert script.reason("train") == "MembersMissing"
    member = members("worker", 2)[1]
    script.change(member, group=GroupRef("train", Dialect.VOLCANO, role="master"))
    assert all(script.planned(pod) for pod in members("worker", 2))
    script.gone(script.pods[member.uid])
    assert script.message("train") == "1 of 2 members exist"
    slots = script.gang("train").members.slots
    assert slots.roles == {"worker-0": "worker"}, "of what is gone nothing is kept"
    validate(script.core.state)


@pytest.mark.parametrize("first", [True, False])
def test_of_two_pods_of_one_index_the_first_one_says_the_role_in_any_order(first: bool) -> None:
    worker, other = members("worker", 1, index=True) + members("master", 1, index=True)
    twin = replace(worker, uid="twin", name="worker-0-twin", group=other.group)
    script = Script(*cluster(NODES), podgroup(2, master=1, worker=1), *((worker, twin) if first else (twin, worker)))
    slots = script.gang("train").members.slots
    assert [slots.of_role(Stage.THERE, role) for role in ("worker", "master")] == [1, 0]
    script.gone(worker)
    assert [slots.of_role(Stage.THERE, role) for role in ("worker", "master")] == [0, 1]


def test_a_running_gang_gets_back_what_it_has_lost() -> None:
    workers, [master] = members("worker", 2), members("master", 1)
    script = Script(*cluster(NODES), podgroup(3, master=1, worker=2), *workers, master)
    script.run([*workers, master])
    script.gone(script.pods[master.uid])
    [again] = members("master", 1)
    script.see(replace(again, uid="again", name="again"))
    assert script.planned(script.pods["again"])


def short_of_quota(gpus: int) -> tuple[Script, list[Pod]]:
    """A running gang of a worker and two masters, whose queue has no more quota. Two more masters wait.

    ``gpus``: of a worker. Returns also a master and the worker as replacements, which come last in the order of names.
    """
    masters = [replace(pod, queue="team") for pod in members("master", 4)]
    [worker] = (replace(pod, queue="team", requests=requests(gpus)) for pod in members("worker", 1))
    script = Script(*cluster(NODES), podgroup(3, master=2, worker=1))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16 + gpus}))
    script.see(*masters[:2], worker)
    script.run([*masters[:2], worker])
    script.see(*masters[2:])
    assert not any(map(script.planned, masters[2:]))
    return script, [replace(pod, uid=f"{pod.uid}-again", name=f"{pod.name}-again") for pod in (masters[1], worker)]


def test_a_replacement_without_gpus_does_not_wait_behind_members_that_lack_quota() -> None:
    """Seed 590050237."""
    script, (_, worker) = short_of_quota(0)
    script.gone(script.pods["worker-0"])
    script.see(worker)
    script.advance(1)
    assert script.planned(worker)


def test_what_a_running_gang_has_lost_of_a_role_gets_quota_before_more_of_another_role() -> None:
    script, again = short_of_quota(8)
    show(script, cluster_queue("team", {"gpus": 8}))
    script.see(*again)
    script.gone(script.pods["worker-0"])
    show(script, cluster_queue("team", {"gpus": 24}))
    script.advance(1)
    assert [pod.uid for pod in script.pods.values() if not pod.node and script.planned(pod)] == ["worker-0-again"]


def test_what_a_running_gang_has_lost_of_a_role_gets_room_before_more_of_another_role() -> None:
    masters, [worker] = members("master", 3), members("worker", 1)
    script = Script(*cluster("a: 3x8"), podgroup(3, master=2, worker=1), *masters[:2], worker)
    script.run([*masters[:2], worker])
    again = replace(worker, uid="again", name="worker-again")
    script.see(masters[2], again)
    script.gone(script.pods["worker-0"])
    script.advance(1)
    assert [bool(script.planned(pod)) for pod in (masters[2], again)] == [False, True]


def test_a_podgroup_of_another_kind_with_the_same_name_is_not_meant() -> None:
    other = PodGroup(KEY, "other-uid", 1)
    script = Script(*cluster(NODES), other, *members("worker", 2))
    assert script.reason("train") == "PodGroupMissing"
    script.see(podgroup(3, worker=1))
    assert script.message("train") == "2 of 3 members exist"
    script.feed(GroupGone(KEY, other.uid))
    assert script.gang("train").min_member == 3
    script.feed(GroupGone(KEY, "group-uid", Dialect.VOLCANO))
    script.advance(1)
    assert script.reason("train") == "PodGroupMissing"


def test_each_role_has_one_domain_where_it_asks_for_a_level_of_its_own() -> None:
    racks = Topology(None, None, WHOLE_ROLE, "clique")
    group = PodGroup(KEY, "group-uid", 5, dialect=Dialect.VOLCANO, minima=(("a", 2), ("b", 3)))
    group = replace(group, of_roles=(("a", racks), ("b", racks)))
    pods = [replace(pod, series=pod.group.role) for pod in (*members("a", 2), *members("b", 3)) if pod.group]
    script = Script(*cluster("x: 2x8", "y: 2x8", "z: 1x8"), group, *pods)
    assert script.reason("train") == "NoRoom", "five nodes, and no clique for role b"
    script.see(*cluster("y: 3x8")[2:])
    assert {script.planned(pod)[0] for pod in pods[:2]} == {"x"}
    assert {script.planned(pod)[0] for pod in pods[2:]} == {"y"}


@pytest.mark.parametrize(("word", "level"), [("1", "clique"), ("2", None), ("0", None), ("01", "clique")])
def test_a_level_may_be_counted_from_the_nearest(word: str, level: str | None) -> None:
    group = replace(podgroup(2), topology=Topology(word))
    script = Script(*cluster("x: 1x8", "y: 2x8"), group, *members("a", 2))
    if level is None:
        assert f'unknown topology level "{word}"' in script.message("train")
    else:
        assert {script.planned(pod)[0] for pod in script.pods.values()} == {"y"}


def task_group(role: str, count: int, minima: Minima = ()) -> list[Pod]:
    """Pods in YuniKorn's words; only the first says ``minima``."""
    ref = GroupRef("train", Dialect.YUNIKORN, role=role)
    pods = [replace(pod, group=ref) for pod in members(role, count)]
    return [replace(pods[0], group=ref._replace(minima=minima)), *pods[1:]]


BOTH = (("driver", 1), ("executor", 2))


def test_the_first_pod_of_an_application_says_the_minima_for_all() -> None:
    script = Script(*cluster(NODES), *task_group("driver", 1, BOTH))
    assert script.message("train") == "1 of 3 members exist; Muster makes no placeholders for pods that are yet to come"
    script.see(task_group("executor", 1), members("other", 0))
    script.see([replace(pod, group=GroupRef("train", Dialect.YUNIKORN)) for pod in members("beside", 1)])
    assert script.message("train").startswith("1 of 2 members of role executor exist; Muster makes no")
    pods = [*task_group("driver", 1, BOTH), *task_group("executor", 3), *members("beside", 1)]
    script.see(task_group("executor", 3)[1:])
    script.bind_all(pods[1:])
    assert not script.bindings
    script.bind(pods[0])
    script.post_all()
    assert script.reason("train") == "Running"
    script.change(pods[0], phase="Succeeded")
    assert script.reason("train") == "Running"


def test_an_application_of_which_nobody_says_the_minima_waits() -> None:
    script = Script(*cluster(NODES), *task_group("executor", 2))
    assert script.message("train") == (
        "no member says yunikorn.apache.org/task-groups: the size of the gang is never guessed"
    )
    script.see(task_group("driver", 1, BOTH))
    assert all(script.planned(pod) for pod in script.pods.values())


def test_pods_of_an_application_that_say_different_minima_contradict_each_other() -> None:
    script = Script(*cluster(NODES), *task_group("driver", 1, BOTH), *task_group("executor", 2, (("executor", 2),)))
    assert script.message("train") == "its members have different minMembers: 1 driver and 2 executor, 2 executor"
