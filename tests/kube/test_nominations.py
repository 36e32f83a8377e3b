"""How nominations and wakes are written: on that very pod, again while a retry may succeed, and abandoned."""

from __future__ import annotations

import pytest

from extender.core.effects import Nominate, Wake
from extender.kube.reading.constraints import WOKEN
from tests.kube.fake_api import CUT, OK, Answer, FakeApi, refused
from tests.kube.writing import POD, STATUS, Writer, pod, written


def test_a_nomination_sets_the_node_of_that_very_pod() -> None:
    result, api, _ = written(
        lambda api: api.on("PATCH", STATUS, OK),
        lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))),
    )
    assert result == ""
    assert api.bodies("PATCH") == [{"metadata": {"uid": "u"}, "status": {"nominatedNodeName": "n1"}}]
    assert api.asked[0].content_type == "application/strategic-merge-patch+json"


@pytest.mark.parametrize(
    ("effect", "nodes"),
    [
        (Nominate("u", "team", "p", None), [None]),
        (Nominate("u", "team", "p", "n1", renew=True), [None, "n1"]),
        (Nominate("u", "team", "p", None, renew=True), [None]),
    ],
)
def test_a_nomination_is_cleared_and_renewed(effect: Nominate, nodes: list[str]) -> None:
    _, api, _ = written(
        lambda api: api.on("PATCH", STATUS, OK), lambda writer: writer.run(writer.writes.nominate(effect))
    )
    assert [body["status"]["nominatedNodeName"] for body in api.bodies("PATCH")] == nodes


def test_a_pod_that_only_plugins_have_refused_gets_other_labels_with_each_write() -> None:
    """The label wakes the pod if pod affinity has refused it: the end of a nomination does not wake that plugin."""
    effect = Nominate("u", "team", "p", "n1", parked=True)
    _, api, _ = written(
        lambda api: api.on("PATCH", STATUS, OK), lambda writer: writer.run(writer.writes.nominate(effect))
    )
    patches = [(body["status"]["nominatedNodeName"], body["metadata"]["labels"]) for body in api.bodies("PATCH")]
    led = ("n1", {WOKEN: "true"})
    assert patches == [led, (None, {WOKEN: None}), led]


@pytest.mark.parametrize("lost", [CUT, refused(429), refused(500), refused(409)], ids=lambda answer: str(answer.status))
def test_a_nomination_is_repeated_while_it_may_go_better(lost: Answer) -> None:
    def setup(api: FakeApi) -> None:
        api.on("PATCH", STATUS, lost, lost, OK)
        api.on("GET", POD, pod())

    result, api, _ = written(setup, lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))))
    assert (result, len(api.bodies("PATCH"))) == ("", 3)


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (refused(404), refused(404)),
        (refused(409), pod(uid="another")),
        (refused(422), pod(uid="another")),
        (refused(422), pod("n2")),
    ],
)
def test_nobody_minds_a_nomination_of_a_pod_that_is_gone_or_bound(answer: Answer, seen: Answer) -> None:
    def setup(api: FakeApi) -> None:
        api.on("PATCH", STATUS, answer)
        api.on("GET", POD, seen)

    assert written(setup, lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))))[0] == ""


def test_a_nomination_is_given_up_with_the_last_error() -> None:
    result, _, time = written(
        lambda api: api.on("PATCH", STATUS, refused(503, "Down", "later")),
        lambda writer: writer.run(writer.writes.nominate(Nominate("u", "team", "p", "n1"))),
    )
    assert result == "503 Down: later"
    assert time.now == pytest.approx(110.0)


def test_a_wake_changes_the_pod_every_time() -> None:
    async def twice(writer: Writer) -> None:
        for _ in range(2):
            assert await writer.run(writer.writes.persist(Wake("u", "team", "p"), "wake")) == ""

    _, api, _ = written(lambda api: api.on("PATCH", STATUS, OK), twice)
    first, second = (body["status"]["conditions"] for body in api.bodies("PATCH"))
    assert first[0]["type"] == second[0]["type"] == "muster.dev/Woken"
    assert first != second
