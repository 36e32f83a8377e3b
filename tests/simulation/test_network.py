"""Requests and watches of the model are lost, late, cut and refused as those of the real API server may be."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.effects import Nominate
from extender.simulation.chance import Chance
from extender.simulation.clock import Clock
from policies.model import Node, Pod
from tests.builders import single
from tests.simulation.model.apiserver import CONFLICT, ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.informer import Informer
from tests.simulation.model.network import NO_ANSWER, Network, Weather
from tests.simulation.model.requests import carry_out
from tests.simulation.model.tasks import Process, spawn


def test_a_lost_answer_does_not_undo_what_was_written() -> None:
    clock, api = Clock(), ApiServer()
    network = Network(clock, Chance(1).stream("network"), Weather(losses=1.0))
    pod = single("pod")
    api.create_pod(pod)
    heard: list[int] = []

    def client() -> Process[None]:
        status = yield from network.request(lambda: api.bind(pod.uid, ("default", "pod"), "a", {}), 5.0)
        heard.append(status)

    spawn(clock, client())
    clock.run(10)
    assert heard == [NO_ANSWER]
    assert api.pods[pod.uid].node == "a"
    assert api.bind(pod.uid, ("default", "pod"), "b", {}) == CONFLICT


def watched(kind: Kind = Kind.PODS) -> tuple[Clock, ApiServer, Informer, list[str]]:
    clock, api, log = Clock(), ApiServer(), []

    def seen(change: Change, before: Change | None) -> None:
        log.append(f"{'changed' if before else 'new'} {change.uid}")

    network = Network(clock, Chance(1).stream("network"), Weather(lag_s=0.1, repeats=0.5))
    informer = Informer(api, network, kind, seen, lambda last: log.append(f"gone {last.uid}"))
    return clock, api, informer, log


def test_a_watch_lags_and_repeats_itself_but_nothing_is_told_twice() -> None:
    clock, api, _, log = watched()
    pods = [single(f"p{number}") for number in range(20)]
    for pod in pods:
        api.create_pod(pod)
    assert log == []
    clock.run(5)
    assert log == [f"new {pod.uid}" for pod in pods]


def test_after_a_break_the_watch_catches_up_and_a_list_tells_only_the_difference() -> None:
    for relist, expected in (
        (False, ["new uid-a", "changed uid-a", "changed uid-a", "gone uid-a", "new uid-a+"]),
        (True, ["new uid-a", "gone uid-a", "new uid-a+"]),
    ):
        clock, api, informer, log = watched()
        api.create_pod(single("a"))
        clock.run(1)
        informer.interrupt(10, relist=relist)
        for phase in ("Running", "Succeeded"):
            api.change_pod("uid-a", phase=phase)
        api.remove_pod("uid-a")
        anew = single("a")
        api.create_pod(Pod(f"{anew.uid}+", anew.namespace, anew.name))
        clock.run(9)
        assert log == ["new uid-a"]
        clock.run(30)
        assert log == expected


def test_half_a_line_of_a_watch_comes_again() -> None:
    clock, api, informer, log = watched()
    api.create_pod(single("a"))
    clock.run(1)
    informer.cut()
    api.change_pod("uid-a", phase="Running")
    api.remove_pod("uid-a")
    clock.run(1.3)
    assert log == ["new uid-a"]
    clock.run(3)
    assert log == ["new uid-a", "changed uid-a", "gone uid-a"]


def test_a_watch_that_is_refused_with_410_again_and_again_shows_what_each_list_shows() -> None:
    clock, api, informer, log = watched()
    api.create_pod(single("a"))
    informer.expire(4)
    clock.run(0.1)
    assert log == ["new uid-a"]
    api.change_pod("uid-a", phase="Running")
    api.create_pod(single("b"))
    api.remove_pod("uid-b")
    clock.run(1.4)
    assert log == ["new uid-a", "changed uid-a"]
    api.remove_pod("uid-a")
    clock.run(20)
    assert log == ["new uid-a", "changed uid-a", "gone uid-a"]
    api.create_pod(single("c"))
    clock.run(30)
    assert log[3:] == ["new uid-c"]


def test_a_request_that_hangs_may_be_carried_out_and_is_answered_to_nobody() -> None:
    landed = []
    for seed in range(9):
        clock, api = Clock(), ApiServer()
        network = Network(clock, Chance(seed).stream("network"))
        network.hanging = 1
        pod = single("pod")
        api.create_pod(pod)
        heard: list[tuple[int, float]] = []

        def client(
            api: ApiServer = api, network: Network = network, heard: list[tuple[int, float]] = heard
        ) -> Process[None]:
            wish = Nominate("uid-pod", "default", "pod", "a")
            response = yield from carry_out(wish, 5.0, api, network, lambda: 0.0)
            heard.append((response.status, network.clock.now))

        spawn(clock, client())
        clock.run(10)
        assert heard == [(NO_ANSWER, 5.0)]
        landed.append(api.pods[pod.uid].nominated_node)
    assert set(landed) == {None, "a"}


def test_a_node_that_returns_under_its_name_is_another_object() -> None:
    clock, api, informer, log = watched(Kind.NODES)
    uids: list[Iterable[str]] = []
    for _ in range(2):
        api.set_node(Node("n", (("pods", 10),)))
        clock.run(clock.now + 1)
        uids.append(list(informer.known))
        api.remove_node("n")
    clock.run(clock.now + 1)
    assert uids[0] != uids[1]
    assert [line.split()[0] for line in log] == ["new", "gone", "new", "gone"]
