"""The status of queue objects: its content, and when it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from extender.kube.queues.resources import FollowedQueue
from extender.kube.queues.status import QueueWriter, quantity, status_of
from policies.model import GroupKey
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueReport,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Stop,
)
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused

GPU = "nvidia.com/gpu"
NOW, BEFORE = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
GROUPS = (ResourceGroup(("cpu", GPU), (("h100", {GPU: Quota(8), "cpu": Quota(1500)}), ("a100", {GPU: Quota(16)}))),)
QUEUE = ClusterQueue("research", GROUPS, "all")
REPORT = QueueReport(
    pending=(GroupKey("team", "a"), GroupKey("team", "b")),
    reserving=3,
    admitted=2,
    used={("h100", GPU): 12, ("h100", "cpu"): 1500},
    borrowed={("h100", GPU): 4},
    share=250,
)
READY = {"type": "Active", "status": "True", "reason": "Ready", "message": "It can admit workloads"}


def test_a_cluster_queue_with_what_is_used_and_borrowed() -> None:
    h100 = [{"name": GPU, "total": "12", "borrowed": "4"}, {"name": "cpu", "total": "1500m", "borrowed": "0"}]
    used = [
        {"name": "h100", "resources": h100},
        {"name": "a100", "resources": [{"name": GPU, "total": "0", "borrowed": "0"}]},
    ]
    assert status_of(QUEUE, REPORT, (), NOW) == {
        "pendingWorkloads": 2,
        "reservingWorkloads": 3,
        "admittedWorkloads": 2,
        "flavorsReservation": used,
        "flavorsUsage": used,
        "fairSharing": {"weightedShare": 250},
        "conditions": [READY | {"lastTransitionTime": NOW}],
    }


def test_a_local_queue_says_what_is_used_of_it_alone() -> None:
    status = status_of(LocalQueue("team", "q", "research"), QueueReport(used={("f", GPU): 1}), (), NOW)
    assert status["flavorsUsage"] == [{"name": "f", "resources": [{"name": GPU, "total": "1"}]}]
    assert "fairSharing" not in status


def test_a_cohort_has_conditions_and_its_share() -> None:
    status = status_of(Cohort("all"), QueueReport(share=0), (), NOW)
    assert set(status) == {"conditions", "fairSharing"}


def test_what_is_wrong_is_said_and_since_when() -> None:
    others = {"type": "example.com/Other", "status": "True", "lastTransitionTime": BEFORE}
    report = QueueReport(problems=("the flavor x does not exist", "it is odd"), warnings=("nobody may use it",))
    first = status_of(QUEUE, report, [others, READY | {"lastTransitionTime": BEFORE}], NOW)["conditions"]
    problem = {"reason": "Misconfigured", "message": "the flavor x does not exist; it is odd"}
    assert first == [
        others,
        {"type": "Active", "status": "False", **problem, "lastTransitionTime": NOW},
        {
            "type": "Warning",
            "status": "True",
            "reason": "Warning",
            "message": "nobody may use it",
            "lastTransitionTime": NOW,
        },
    ]
    later = status_of(QUEUE, QueueReport(problems=("it is odd",)), first, "2026-01-03T00:00:00Z")["conditions"]
    assert [(condition["type"], condition["lastTransitionTime"]) for condition in later] == [
        ("example.com/Other", BEFORE),
        ("Active", NOW),
    ]


def test_a_queue_that_is_stopped_says_so() -> None:
    stopped = ClusterQueue("q", stop=Stop.HOLD)
    (condition,) = status_of(stopped, QueueReport(problems=("it is stopped",)), (), NOW)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Stopped")


def test_amounts_are_written_as_kubernetes_writes_them() -> None:
    amounts = [quantity("cpu", 1500), quantity("cpu", 2000), quantity("cpu", 0), quantity("memory", 1 << 30)]
    assert amounts == ["1500m", "2", "0", "1073741824"]


# When.

PATH = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/research"
STATUS = f"{PATH}/status"


class Played:
    """A core that gives the answers of a test, and the writer of its reports."""

    def __init__(self, api: FakeApi, writer: QueueWriter) -> None:
        self.api, self.writer = api, writer
        self.acts, self.now, self.uid = True, 0.0, "first"
        self.queue_version = 1
        self.report = QueueReport(reserving=1)

    def queue_reports(self, _: float, /) -> dict[tuple[str, str, str], QueueReport]:
        return {("ClusterQueue", "", "research"): self.report}

    def known(self) -> list[FollowedQueue]:
        return [FollowedQueue(QUEUE, self.uid, PATH), FollowedQueue(ResourceFlavor("f"), "f", "/elsewhere")]

    def change(self, **report: Any) -> None:
        self.queue_version += 1
        self.report = QueueReport(**report)

    @property
    def written(self) -> list[int]:
        return [body["status"]["reservingWorkloads"] for body in self.api.bodies("PATCH")]


def played(check: Callable[[Played], Awaitable[None]], status: dict[str, Any] | None = None) -> None:
    async def scenario() -> None:
        async with fake_api() as (api, kube):
            api.on("GET", STATUS, Answer(body={"status": status or {}}))
            api.on("PATCH", STATUS, OK)
            harness: Played
            writer = QueueWriter(
                kube, lambda: harness if harness.acts else None, lambda: harness.known(), clock=lambda: harness.now
            )
            harness = Played(api, writer)
            await check(harness)

    asyncio.run(scenario())


def test_it_is_looked_at_once_and_written_when_it_differs() -> None:
    async def check(harness: Played) -> None:
        await harness.writer.write()
        await harness.writer.write()
        harness.change(reserving=2)
        await harness.writer.write()
        harness.change(reserving=2)
        await harness.writer.write()
        assert [(request.method, request.path) for request in harness.api.asked] == [
            ("GET", STATUS),
            ("PATCH", STATUS),
            ("PATCH", STATUS),
        ]
        assert harness.written == [1, 2]

    played(check)


def test_what_stands_there_from_before_a_restart_is_not_written_again() -> None:
    async def check(harness: Played) -> None:
        await harness.writer.write()
        assert harness.written == []

    played(check, status_of(QUEUE, QueueReport(reserving=1), (), BEFORE))


def test_only_who_acts_writes_and_looks_again_when_it_acts_again() -> None:
    async def check(harness: Played) -> None:
        harness.acts = False
        await harness.writer.write()
        assert harness.api.asked == []
        for harness.acts in (True, False, True):
            await harness.writer.write()
        assert [request.method for request in harness.api.asked] == ["GET", "PATCH", "GET", "PATCH"]

    played(check)


@pytest.mark.parametrize("answer", [OK, refused(404, "NotFound")])
def test_one_that_was_deleted_and_made_anew_with_the_same_figures_is_written_at_once(answer: Answer) -> None:
    """This holds even where the status of the earlier object could not be written any more."""

    async def check(harness: Played) -> None:
        harness.api.on("PATCH", STATUS, answer)
        await harness.writer.write()
        harness.api.on("PATCH", STATUS, OK)
        harness.uid = "second"
        harness.change(reserving=1)
        await harness.writer.write()
        assert harness.written == [1, 1]

    played(check)


@pytest.mark.parametrize("status", [403, 404, 409, 422, 429, 500])
def test_a_write_that_fails_is_tried_again_less_and_less_often(status: int) -> None:
    """A 404 counts, too: a proxy that has lost the API server may answer it."""

    async def check(harness: Played) -> None:
        harness.api.on("PATCH", STATUS, refused(status, "No"))
        for harness.now in range(60):
            await harness.writer.write()
        assert harness.written == [1] * 6, "after 1, 2, 4, 8, 16 and 32 s"
        harness.api.on("PATCH", STATUS, OK)
        for harness.now in range(60, 180):
            await harness.writer.write()
        assert harness.written == [1] * 7

    played(check)


def test_a_status_that_cannot_be_encoded_fails_alone_and_is_tried_again() -> None:
    async def check(harness: Played) -> None:
        harness.report = QueueReport(reserving=1, used={("\ud800", GPU): 8})
        await harness.writer.write()
        assert harness.written == []
        harness.change(reserving=2)
        harness.now = 1
        await harness.writer.write()
        assert harness.written == [2]

    played(check)
