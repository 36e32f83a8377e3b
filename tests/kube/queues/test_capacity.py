"""ProvisioningRequests: their content, their conditions as the core is notified of them, and when they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from extender.core.answers import CapacityAnswered
from extender.core.events import CapacityServed, Event
from extender.core.jobs.elastic import CapacityAsk, RequestedPods
from extender.kube.api.connection import ApiError
from extender.kube.kinds.registry import Registry
from extender.kube.queues import capacity
from extender.kube.queues.capacity import CapacityKeeper
from extender.kube.queues.rounds import TurnError
from policies.model import Controller, GroupKey, InVain, Toleration
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused

KEY = GroupKey("team", "job-train")
SPOT = RequestedPods("", 4, (("pool", "spot"),), (Toleration("spot", "Exists", "", "NoSchedule"),))
ASK = CapacityAsk(KEY, Controller("batch/v1", "Job", "train", "uid-1"), (SPOT,), 1)
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/team/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/team/podtemplates"
JOBS = "/apis/batch/v1/namespaces/team/jobs/train"
ALL = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
JOB: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": "team", "uid": "uid-1"},
    "spec": {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 4,
        "template": {
            "metadata": {"labels": {"app": "train"}, "creationTimestamp": None},
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "own", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
            },
        },
    },
}


class How:
    provisioning_class = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    timeout_s = 900.0


class Core:
    def __init__(self, *asks: CapacityAsk) -> None:
        self.asks = asks
        self.rest: InVain | None = None

    def capacity_asks(self) -> tuple[CapacityAsk, ...]:
        return self.asks

    def capacity_rest(self, key: GroupKey) -> InVain | None:
        assert key == KEY
        return self.rest


class Keeping:
    """A keeper, its events, and the API server."""

    def __init__(self, api: FakeApi, keeper: CapacityKeeper, told: list[Event], core: Core) -> None:
        self.api, self.keeper, self.told, self.core = api, keeper, told, core

    @property
    def name(self) -> str:
        """The name of the ProvisioningRequest that was made last."""
        return str(
            [request.body for request in self.api.asked if (request.method, request.path) == ("POST", REQUESTS)][-1][
                "metadata"
            ]["name"]
        )

    def says(self, **conditions: str) -> None:
        entries = [{"type": kind, "status": "True", "message": text} for kind, text in conditions.items()]
        self.api.on("GET", f"{REQUESTS}/{self.name}", Answer(body={"status": {"conditions": entries}}))

    def deleted(self) -> list[str]:
        return [request.path for request in self.api.asked if request.method == "DELETE"]


def run(work: Callable[[Keeping], Awaitable[None]], *asks: CapacityAsk, served: bool = True) -> list[Event]:
    async def connected() -> list[Event]:
        async with fake_api() as (api, kube):
            events: list[Event] = []
            core = Core(*asks)
            api.on("GET", JOBS, Answer(body=JOB))
            api.on("POST", TEMPLATES, OK)
            api.on("POST", REQUESTS, OK)
            api.on("GET", ALL, Answer(body={"items": []}))
            keeper = CapacityKeeper(kube, lambda: core, lambda: served, events.append, Registry(), How())
            await work(Keeping(api, keeper, events, core))
            return events

    return asyncio.run(connected())


def test_it_asks_for_pods_as_they_will_be_with_their_flavor() -> None:
    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        await harness.keeper.look()
        template, request = harness.api.bodies("POST")
        assert template["metadata"]["name"] == f"{harness.name}-0"
        for body in (template, request):
            assert body["metadata"]["labels"] == {"muster.dev/capacity": "true"}
            (owner,) = body["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "train", "uid-1")
        pod = template["template"]
        assert pod["metadata"] == {"labels": {"app": "train"}}
        assert pod["spec"]["nodeSelector"] == {"disk": "fast", "pool": "spot"}
        assert pod["spec"]["tolerations"] == [
            {"key": "own", "operator": "Exists"},
            {"key": "spot", "operator": "Exists", "effect": "NoSchedule"},
        ]
        assert pod["spec"]["containers"] == JOB["spec"]["template"]["spec"]["containers"]
        assert request["spec"] == {
            "provisioningClassName": How.provisioning_class,
            "parameters": {"ValidUntilSeconds": "900"},
            "podSets": [{"count": 4, "podTemplateRef": {"name": f"{harness.name}-0"}}],
        }

    assert run(work, ASK)[:1] == [CapacityServed(served=True)]


def test_it_asks_for_what_is_added_to_its_pods_when_they_are_created() -> None:
    """A sidecar of 100m: an autoscaler that counts only the containers makes nodes that are too small."""
    asks = (("cpu", 100), ("memory", 1 << 27), ("nvidia.com/gpu", 8), ("pods", 1))

    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        spec = harness.api.bodies("POST")[0]["template"]["spec"]
        assert spec["overhead"] == {"cpu": "100m", "memory": str(1 << 27)}
        assert spec["containers"] == JOB["spec"]["template"]["spec"]["containers"]

    run(work, replace(ASK, pods=(replace(SPOT, requests=asks),)))


def test_what_has_become_of_it_is_told_once() -> None:
    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        harness.says(Accepted="it is looked at")
        await harness.keeper.look()
        harness.says(Accepted="", Provisioned="")
        await harness.keeper.look()
        await harness.keeper.look()
        harness.says(Provisioned="", CapacityRevoked="the\nnodes are gone")
        await harness.keeper.look()
        await harness.keeper.look()

    assert run(work, ASK)[1:] == [
        CapacityAnswered(KEY, 1, granted=True),
        CapacityAnswered(KEY, 1, granted=False, detail="CapacityRevoked: the nodes are gone"),
    ]


def test_what_nobody_asks_for_any_more_is_deleted_with_its_templates() -> None:
    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        name = harness.name
        harness.api.on("DELETE", f"{REQUESTS}/{name}", OK)
        harness.core.asks = (replace(ASK, attempt=2),)
        await harness.keeper.look()
        assert harness.deleted() == [f"{REQUESTS}/{name}", f"{TEMPLATES}/{name}-0"]
        assert harness.name != name, "another attempt is another object"

    run(work, ASK)


def test_an_object_that_may_not_be_deleted_keeps_nobody_from_asking() -> None:
    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        former = harness.name
        harness.api.on("DELETE", f"{REQUESTS}/{former}", refused(403, "Forbidden"))
        harness.core.asks = (replace(ASK, attempt=2),)
        with pytest.raises(TurnError):
            await harness.keeper.look()
        assert harness.name != former
        harness.api.on("DELETE", f"{REQUESTS}/{former}", OK)
        await harness.keeper.look()
        assert harness.deleted()[-1] == f"{TEMPLATES}/{former}-0", "tried again until it is gone"

    run(work, ASK)


@pytest.mark.parametrize("status", [0, 409, 422])
def test_a_job_that_rests_says_so_before_its_request_goes(status: int) -> None:
    """A conflict is tried again; any other refusal does not delay the deletion."""

    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        harness.api.on("DELETE", f"{REQUESTS}/{harness.name}", OK)
        harness.api.on("PATCH", JOBS, *([refused(status)] if status else []), OK)
        harness.core.asks, harness.core.rest = (), InVain(120.0, 1)
        await harness.keeper.look()
        (patch,) = harness.api.bodies("PATCH")
        assert patch["metadata"]["annotations"] == {
            "muster.dev/nodes-in-vain": "no nodes came by attempt 1; none are asked for before 1970-01-01T00:02:00Z"
        }
        assert bool(harness.deleted()) is (status != 409)
        await harness.keeper.look()
        assert len(harness.api.bodies("PATCH")) == (2 if status == 409 else 1)
        assert harness.deleted()

    run(work, ASK)


def test_one_of_an_earlier_life_goes_on_and_another_goes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "_GRACE", 2)

    async def work(harness: Keeping) -> None:
        metas = [{"namespace": "team", "name": name} for name in ("other",)]
        harness.api.on("GET", ALL, Answer(body={"items": [{"metadata": meta} for meta in metas]}))
        harness.api.on("POST", TEMPLATES, refused(409))
        harness.api.on("POST", REQUESTS, refused(409))
        await harness.keeper.look()
        harness.says(Provisioned="")
        await harness.keeper.look()
        assert harness.deleted() == []
        await harness.keeper.look()
        assert harness.deleted()[0] == f"{REQUESTS}/other"
        assert f"{TEMPLATES}/other-0" in harness.deleted()
        assert not any(harness.name in path for path in harness.deleted())

    assert CapacityAnswered(KEY, 1, granted=True) in run(work, ASK)


@pytest.mark.parametrize("status", [403, 422])
def test_what_the_api_server_refuses_is_an_answer(status: int) -> None:
    async def work(harness: Keeping) -> None:
        harness.api.on("POST", TEMPLATES, refused(status, "Refused", "no podtemplates"))
        await harness.keeper.look()

    (_, answer) = run(work, ASK)
    assert isinstance(answer, CapacityAnswered)
    assert (answer.granted, "no podtemplates" in answer.detail) == (False, True)


def test_an_outage_is_none() -> None:
    async def work(harness: Keeping) -> None:
        harness.api.on("POST", REQUESTS, refused(500, "Internal", "etcd"), OK)
        with pytest.raises(ApiError):
            await harness.keeper.look()
        await harness.keeper.look()
        harness.says(Provisioned="")
        await harness.keeper.look()

    assert run(work, ASK)[1:] == [CapacityAnswered(KEY, 1, granted=True)]


def test_a_job_that_is_gone_is_an_answer_and_so_is_a_request_that_somebody_deleted() -> None:
    async def gone(harness: Keeping) -> None:
        harness.api.on("GET", "/apis/batch/v1/namespaces/team/jobs/train", refused(404))
        await harness.keeper.look()

    async def odd(harness: Keeping) -> None:
        harness.api.on("GET", "/apis/batch/v1/namespaces/team/jobs/train", Answer(body={"metadata": {"name": 3}}))
        await harness.keeper.look()

    async def deleted(harness: Keeping) -> None:
        await harness.keeper.look()
        await harness.keeper.look()

    cases = (gone, "its job is gone"), (odd, "no readable metadata"), (deleted, "its ProvisioningRequest was deleted")
    for work, detail in cases:
        (_, answer) = run(work, ASK)
        assert isinstance(answer, CapacityAnswered)
        assert detail in answer.detail


def test_where_the_kind_is_not_served_nothing_is_written() -> None:
    async def work(harness: Keeping) -> None:
        await harness.keeper.look()
        assert harness.api.asked == []

    assert run(work, ASK, served=False) == [CapacityServed(served=False)]
