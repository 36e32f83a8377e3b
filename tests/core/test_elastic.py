"""Elastic flavors: a job with quota and no nodes asks for them, keeps its quota, and is planned when they come.

The nodes stay while they are promised to pods that are not there yet.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import CapacityAnswered, PodTried, Verdict
from extender.core.events import CapacityServed, QueueGone, QueueSeen
from extender.core.explain.reasons import reason_of
from extender.core.gate.advisory import Mode
from extender.core.jobs import elastic
from extender.core.jobs.elastic import CapacityAsk, protected_nodes
from extender.core.limits import Elasticity, Limits
from policies.model import Node, PodSet, PodSets, Selection, Toleration
from policies.model.mentions import full
from policies.model.queues import ClusterQueue, Stop, Strategy
from tests.builders import key, node
from tests.core.jobs import Controlled, job, template
from tests.core.queues import FLAVOR, cluster_queue, in_queue, show, sort, used
from tests.core.queues import come as come_pods
from tests.core.script import Script

SPOT = Toleration("spot", "Exists", "", "NoSchedule")
LIMITS = Limits(elastic=Elasticity(frozenset(["spot"]), 900.0))


def of(sort_of: str, count: int, first: int = 0) -> list[Node]:
    return [node(f"{sort_of}-{first + at}", labels={FLAVOR: sort_of}) for at in range(count)]


def scene(
    *nodes: Node, owned: int = 8, spot: int = 16, served: bool = True, limits: Limits = LIMITS, **facts: object
) -> Script:
    """A queue with 8 GPUs of nodes that exist, and 16 of nodes that are made on demand."""
    script = Script(*(nodes or of("owned", 1)), limits=limits)
    flavor = replace(sort("spot"), tolerations=(SPOT,))
    show(script, sort("owned"), flavor, cluster_queue("team", {"owned": owned, "spot": spot}, **facts))
    script.feed(CapacityServed(served))
    return script


def come(script: Script, name: str, size: int = 2) -> Controlled:
    made = Controlled(script, replace(job(size, name=name), queue="team"))
    made.wait(0.5)
    return made


def asks(script: Script) -> dict[str, CapacityAsk]:
    return {ask.key.name: ask for ask in script.core.capacity_asks()}


def test_nodes_are_asked_for_with_what_the_api_server_adds_to_the_pods() -> None:
    """Otherwise an autoscaler makes none, because no template tolerates their taint."""
    script = scene(limits=replace(LIMITS, trials=True))
    plain = job(2, name="first")
    podset = replace(plain.podsets.podsets[0], shape="S")
    made = Controlled(script, replace(plain, podsets=PodSets(plain.key, (podset,)), queue="team"))
    gpu = Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule")
    added = Selection(node_selector=(("pool", "mine"),), tolerations=(gpu,))
    pod = replace(podset.template, uid="tried", selection=added)
    script.feed(PodTried(plain.key, "S", Verdict.PASSED, pod))
    made.wait(0.5)
    (pods,) = asks(script)["first"].pods
    assert pods.labels == (("pool", "mine"), (FLAVOR, "spot"))
    assert pods.tolerations == (gpu, SPOT)
    assert pods.requests == pod.requests


def reason(script: Script, name: str) -> tuple[str, str]:
    cause_told = reason_of(script.core.state.workloads[key(name)].reason_state.cause)
    return cause_told.code, full(cause_told.message)


def test_a_job_with_quota_and_no_nodes_asks_for_them_and_is_started_on_them() -> None:
    script = scene()
    first = come(script, "first")
    ask = asks(script)["first"]
    (pods,) = ask.pods
    assert (ask.job.name, ask.attempt, pods.count) == ("first", 1, 2)
    assert (pods.labels, pods.tolerations) == (((FLAVOR, "spot"),), (SPOT,))
    code, message = reason(script, "first")
    assert (code, first.starts) == ("AwaitingNodes", [])
    assert "it has quota of spot in ClusterQueue team, but no nodes: a ProvisioningRequest asks" in message
    assert used(script, "team", "spot") == 16
    script.see(*of("spot", 1))
    first.wait(1.0)
    assert "first" in asks(script), "one node is not enough"
    script.see(*of("spot", 1, first=1))
    first.wait(1.0)
    (start,) = first.starts
    assert set(start.plan[""]) == {"spot-0", "spot-1"}
    assert start.flavors[""]["nvidia.com/gpu"] == "spot"
    assert not asks(script)
    assert used(script, "team", "spot") == 16


def test_nobody_else_gets_its_quota_meanwhile_and_those_behind_it_say_why_they_wait() -> None:
    script = scene()
    first, second = come(script, "first"), come(script, "second")
    assert list(asks(script)) == ["first"]
    code, message = reason(script, "second")
    assert code == "NoQuota"
    assert "it is used by default/first (16)" in message
    small = come(script, "small", 1)
    assert len(small.starts) == 1, "there is quota and a node of the other flavor"
    script.see(*of("spot", 2))
    first.wait(1.0)
    assert (len(first.starts), second.starts) == (1, [])


@pytest.mark.parametrize("strategy", Strategy)
def test_it_is_first_on_its_nodes_whatever_was_found_for_others_of_its_shape(strategy: Strategy) -> None:
    script = scene(strategy=strategy)
    first, second = come(script, "first"), come(script, "second")
    second.show(podsets=second.seen.podsets)
    script.see(*of("spot", 2))
    second.wait(1.0)
    first.settle()
    assert (len(first.starts), len(second.starts)) == (1, 0)
    first.run()
    first.delete()
    first.show(finished=True)
    second.wait(1.0)
    assert len(second.starts) == 1


def test_nodes_that_do_not_come_in_time_give_the_quota_back_for_a_pause_that_grows() -> None:
    script = scene()
    come(script, "first")
    pauses = []
    for attempt in (1, 2, 3):
        assert asks(script)["first"].attempt == attempt
        script.advance(901)
        assert not asks(script)
        assert used(script, "team", "spot") == 0
        code, message = reason(script, "first")
        assert code == "NoRoom"
        assert "nodes of spot were requested and did not come: not enough joined within 900 s; it asks again" in message
        began = script.now
        while not asks(script):
            assert script.now < began + 300
            script.advance(1.0)
        pauses.append(round((script.now - began) / 10) * 10)
    assert pauses == [60, 120, 240]
    assert used(script, "team", "spot") == 16


def test_what_is_denied_gives_the_quota_to_the_next() -> None:
    script = scene()
    come(script, "first")
    second = come(script, "second")
    script.feed(CapacityAnswered(key("first"), 2, granted=False, detail="of another attempt"))
    assert list(asks(script)) == ["first"]
    script.feed(CapacityAnswered(key("first"), 1, granted=False, detail="Failed: out of stock"))
    second.wait(1.0)
    assert list(asks(script)) == ["second"]
    assert reason(script, "second")[0] == "AwaitingNodes"
    code, message = reason(script, "first")
    assert code == "NoQuota", message
    script.feed(CapacityAnswered(key("second"), 1, granted=False, detail="Failed: out of stock"))
    second.wait(1.0)
    assert "out of stock" in reason(script, "second")[1]


def test_nodes_that_are_granted_have_as_long_again_to_be_seen() -> None:
    script = scene()
    come(script, "first")
    script.advance(800)
    script.feed(CapacityAnswered(key("first"), 1, granted=True))
    script.advance(200)
    assert "the requested nodes are granted, but have not joined the cluster yet" in reason(script, "first")[1]
    script.advance(701)
    assert not asks(script)
    assert "they were granted, and it has no plan on them within 900 s" in reason(script, "first")[1]


def test_room_that_comes_free_is_as_good_as_new_nodes() -> None:
    script = scene(*of("spot", 2), spot=32)
    runs = come(script, "runs")
    runs.run()
    waits = come(script, "waits")
    assert list(asks(script)) == ["waits"]
    runs.delete()
    runs.show(finished=True)
    waits.wait(1.0)
    assert len(waits.starts) == 1
    assert not asks(script)


@pytest.mark.parametrize(
    ("facts", "size"),
    [({"owned": 8, "spot": 8}, 2), ({"limits": Limits()}, 2), ({"owned": 64, "spot": 0}, 2)],
)
def test_without_quota_of_an_elastic_flavor_nobody_asks(facts: dict[str, int], size: int) -> None:
    script = scene(**facts)  # type: ignore[arg-type]
    come(script, "first", size)
    assert not asks(script)
    assert used(script, "team", "spot") == 0


def test_where_nodes_cannot_be_asked_for_the_reason_says_why_and_no_quota_is_kept() -> None:
    script = scene(served=False)
    late = PodSet(template("first", series="1-late"), 1, 1, wave=1)
    first = Controlled(script, replace(job(1, late, name="first"), queue="team"))
    first.wait(0.5)
    code, message = reason(script, "first")
    assert (code, used(script, "team", "spot")) == ("NoRoom", 0)
    assert "no nodes are asked for: those of its pods that need such nodes are made one after the other" in message
    script.feed(CapacityServed(served=True))
    first.wait(0.5)
    assert list(asks(script)) == ["first"]
    script.feed(CapacityServed(served=False))
    first.wait(0.5)
    assert (asks(script), used(script, "team", "spot")) == ({}, 0)


def test_it_asks_no_more_when_it_waits_for_nodes_no_more() -> None:
    script = scene()
    first = come(script, "first")
    first.show(held=True)
    assert (asks(script), used(script, "team", "spot")) == ({}, 0)
    first.show(held=False)
    first.wait(0.5)
    assert list(asks(script)) == ["first"]
    stopped: ClusterQueue = replace(cluster_queue("team", {"owned": 8, "spot": 16}), stop=Stop.HOLD)
    script.feed(QueueSeen(stopped))
    first.wait(0.5)
    assert (asks(script), used(script, "team", "spot")) == ({}, 0)
    script.feed(QueueSeen(replace(stopped, stop=Stop.NONE)))
    first.wait(0.5)
    assert list(asks(script)) == ["first"]
    script.feed(QueueGone(sort("spot")))
    first.wait(0.5)
    assert not asks(script)
    first.gone()
    script.advance(0.5)
    assert not asks(script)


def test_one_that_asks_for_other_pods_by_now_asks_anew() -> None:
    script = scene(spot=32)
    first = come(script, "first")
    first.show(podsets=job(3, name="first").podsets)
    first.wait(0.5)
    (pods,) = asks(script)["first"].pods
    assert pods.count == 3
    assert used(script, "team", "spot") == 24


def test_who_only_advises_asks_for_nothing() -> None:
    script = Script(*of("owned", 1), limits=LIMITS, mode=Mode.ADVISE)
    show(script, sort("spot"), cluster_queue("team", {"spot": 16}))
    script.feed(CapacityServed(served=True))
    come(script, "first")
    assert (asks(script), used(script, "team", "spot")) == ({}, 0)


def test_no_more_ask_at_a_time_than_can_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic, "MOST", 2)
    script = scene(spot=64)
    made = [come(script, f"job-{at}") for at in range(3)]
    assert list(asks(script)) == ["job-0", "job-1"]
    assert reason(script, "job-2")[0] == "NoRoom"
    script.see(*of("spot", 2))
    made[0].wait(1.0)
    assert len(made[0].starts) == 1
    made[2].wait(1.0)
    assert list(asks(script)) == ["job-1", "job-2"]


def kept(script: Script) -> list[str]:
    return sorted(script.core.state.make(protected_nodes))


def test_the_nodes_of_a_job_are_kept_from_its_plan_on_until_its_pods_are_there() -> None:
    script = scene(*of("owned", 1), *of("spot", 3))
    assert not kept(script)
    first = come(script, "first")
    planned = sorted(first.starts[0].plan[""])
    assert kept(script) == planned
    assert len(planned) == 2
    pods = first.create()
    script.bind_all(pods)
    script.post(pods[0])
    assert kept(script) == [script.planned(pods[1])]
    script.post(pods[1])
    assert not kept(script)


def test_so_are_those_of_a_gang_of_pods_and_those_of_a_plan_that_is_gone_are_not() -> None:
    script = scene(*of("owned", 1), *of("spot", 2))
    pods = in_queue("gang", 2)
    come_pods(script, pods)
    assert kept(script) == ["spot-0", "spot-1"]
    script.gone(pods[0])
    assert not kept(script)


def test_nodes_of_other_flavors_are_nobodys_to_take_away() -> None:
    script = scene(*of("owned", 2), *of("spot", 1), owned=16)
    assert len(come(script, "first").starts) == 1
    assert not kept(script)
    without = scene(*of("spot", 2), limits=Limits())
    assert len(come(without, "first").starts) == 1
    assert not kept(without)
