"""Workload objects: their content about a job, and which of them are written when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from extender.core.explain.reasons import Reason
from extender.core.explain.reports import PodSetReport, WorkloadReport
from extender.kube.queues import workloads
from extender.kube.queues.rounds import TurnError, Turns, go_round
from extender.kube.queues.workloads import WorkloadWriter, name_of, record_status, spec_of
from policies.model import GroupKey
from policies.model.group import Controller
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused

GPU = "nvidia.com/gpu"
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
JOB = Controller("batch/v1", "Job", "train", "6b2d9b9a")
ASKED = PodSetReport("", 4, 4, (("pods", 1), ("cpu", 1500), (GPU, 8)))
HELD = replace(ASKED, flavors={GPU: "h100"}, used={GPU: 32})
WAITS = WorkloadReport(
    GroupKey("team", "job-train"), JOB, "q", "research", 5, (ASKED,),
    reserved=False, admitted=False, finished=False, reason=Reason("NoQuota", "0 of 32 are left"),
)  # fmt: skip
RUNS = replace(WAITS, podsets=(HELD,), reserved=True, admitted=True, reason=Reason("Running", "it runs"))
STOPPED = replace(WAITS, reason=Reason("NodeLost", "node a is gone"))
ENDED = replace(RUNS, podsets=(ASKED,), reserved=False, admitted=False, finished=True)


def said(status: dict[str, object]) -> dict[str, tuple[str, str]]:
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in conditions}


def test_the_name_is_the_one_that_kueue_gives() -> None:
    """The name follows Kueue's workload_names.go at v0.16: kind and name, and five characters of a hash."""
    assert name_of(JOB) == "job-train-785e1"
    long = name_of(replace_name("n" * 253))
    assert (len(long), long[:10]) == (253, "job-nnnnnn")


def replace_name(name: str) -> Controller:
    return Controller("batch/v1", "Job", name, "uid")


def test_what_it_asks_for() -> None:
    (podset,) = spec_of(WAITS)["podSets"]
    assert (podset["name"], podset["count"], "minCount" in podset) == ("main", 4, False)
    (container,) = podset["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1500m", GPU: "8"}
    assert (spec_of(WAITS)["queueName"], spec_of(WAITS)["priority"]) == ("q", 5)
    roles = replace(WAITS, podsets=(replace(ASKED, name="PS Worker", minimum=2),))
    (podset,) = spec_of(roles)["podSets"]
    assert (podset["name"], podset["minCount"]) == ("ps-worker", 2)


def test_it_waits_runs_is_evicted_runs_again_and_ends() -> None:
    waits = record_status(WAITS, (), 3, NOW)
    assert said(waits) == {"QuotaReserved": ("False", "WaitingForQuota"), "Admitted": ("False", "NoReservation")}
    assert (waits["position"], waits["admission"]) == (3, None)
    runs = record_status(RUNS, waits["conditions"], 1, LATER)
    assert said(runs) == {"QuotaReserved": ("True", "QuotaReserved"), "Admitted": ("True", "Admitted")}
    assert runs["position"] is None
    assert runs["admission"] == {
        "clusterQueue": "research",
        "podSetAssignments": [{"name": "main", "flavors": {GPU: "h100"}, "resourceUsage": {GPU: "32"}, "count": 4}],
    }
    stopped = record_status(STOPPED, runs["conditions"], None, LATER)
    assert said(stopped)["Evicted"] == ("True", "JobStopped")
    still = record_status(WAITS, stopped["conditions"], 1, LATER)
    assert said(still)["Evicted"] == ("True", "JobStopped"), "until it is started again"
    again = record_status(RUNS, still["conditions"], None, LATER)
    assert said(again)["Evicted"] == ("False", "QuotaReserved")
    ended = record_status(ENDED, again["conditions"], None, LATER)
    assert said(ended) == said(again) | {"Finished": ("True", "JobFinished")}
    assert "admission" not in ended, "what it had stays in the record"


def test_conditions_keep_their_instant_while_they_stay_and_those_of_others_stay_whole() -> None:
    other = {"type": "PodsReady", "status": "True", "lastTransitionTime": NOW}
    before = [other, *record_status(WAITS, (), None, NOW)["conditions"]]
    after = record_status(RUNS, before, None, LATER)["conditions"]
    assert after[0] == other
    assert {condition["lastTransitionTime"] for condition in after[1:]} == {LATER}
    same = record_status(replace(WAITS, reason=Reason("NoQuota", "8 of 32 are left")), before, None, LATER)
    assert {condition["lastTransitionTime"] for condition in same["conditions"]} == {NOW}


# When.

WITHIN = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
PATH = f"{WITHIN}/{name_of(JOB)}"


class Played:
    """A core that gives the answers of a test, and the writer of its reports."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.reports = {WAITS.key: WAITS}
        self.version = "v1beta2"
        self.places: dict[GroupKey, int] = {}
        self.writer: WorkloadWriter

    def queued(self) -> Sequence[GroupKey]:
        return [*self.reports]

    def workload_report(self, key: GroupKey) -> WorkloadReport | None:
        return self.reports.get(key)

    async def tell(self, report: WorkloadReport) -> list[tuple[str, str]]:
        """Report this, and return the requests that the API server then gets."""
        self.reports[report.key] = report
        return await self.asked()

    async def asked(self) -> list[tuple[str, str]]:
        before = len(self.api.asked)
        with suppress(TurnError):
            await self.writer.write()
        return [(request.method, request.path) for request in self.api.asked[before:]]


def played(check: Callable[[Played], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with fake_api() as (api, kube):
            api.on("POST", WITHIN, OK)
            api.on("PATCH", PATH, OK)
            api.on("PATCH", f"{PATH}/status", OK)
            harness = Played(api)
            harness.writer = WorkloadWriter(kube, lambda: harness, lambda: harness.version, lambda: harness.places)
            await check(harness)

    asyncio.run(scenario())


MADE, TOLD = ("POST", WITHIN), ("PATCH", f"{PATH}/status")


def test_it_is_made_once_and_written_when_it_differs() -> None:
    async def check(harness: Played) -> None:
        assert await harness.asked() == [MADE, TOLD]
        assert await harness.asked() == []
        assert await harness.tell(RUNS) == [TOLD]
        assert await harness.tell(replace(RUNS, local="other")) == [("PATCH", PATH)]
        (made,) = harness.api.bodies("POST")
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["name"], owner["uid"], owner["controller"]) == ("train", JOB.uid, True)
        harness.reports.clear()
        assert await harness.asked() == [], "it goes with its job"

    played(check)


def test_what_is_there_from_before_a_restart_is_looked_at_and_that_of_others_left_alone() -> None:
    async def check(harness: Played) -> None:
        harness.api.on("POST", WITHIN, refused(409, "AlreadyExists"))
        record = {"metadata": {"labels": {"muster.dev/record": "true"}}, "spec": spec_of(WAITS)}
        harness.api.on("GET", PATH, Answer(body=record | {"status": record_status(WAITS, (), None, NOW)}))
        assert await harness.asked() == [MADE, ("GET", PATH)]
        assert await harness.tell(RUNS) == [TOLD]
        harness.version = ""
        assert await harness.asked() == [], "Kueue runs"
        harness.version = "v1beta2"
        harness.api.on("GET", PATH, Answer(body={"metadata": {"labels": {}}, "spec": {}}))
        assert await harness.asked() == [MADE, ("GET", PATH)]
        assert await harness.tell(WAITS) == []

    played(check)


def test_a_job_that_had_ended_before_is_not_recorded() -> None:
    async def check(harness: Played) -> None:
        assert await harness.tell(ENDED) == []

    played(check)


def test_so_many_are_written_at_a_time_and_those_first_whose_conditions_change() -> None:
    async def check(harness: Played) -> None:
        many = {GroupKey("team", f"job-{at}"): replace_key(at) for at in range(workloads.WRITTEN + 5)}
        harness.reports = dict(many)
        for report in many.values():
            harness.api.on("PATCH", f"{WITHIN}/{name_of(report.job)}/status", OK)
        for count in (workloads.WRITTEN, 5, 0):
            assert (await harness.asked()).count(MADE) == count
        harness.places = {key: at for at, key in enumerate(many)}
        last = [*many][-1]
        harness.reports[last] = replace(many[last], reserved=True, admitted=True)
        first = (await harness.asked())[0]
        assert first == ("PATCH", f"{WITHIN}/{name_of(many[last].job)}/status")

    played(check)


def replace_key(at: int) -> WorkloadReport:
    return replace(WAITS, key=GroupKey("team", f"job-{at}"), job=Controller("batch/v1", "Job", f"{at}", f"uid-{at}"))


def test_after_a_refusal_it_rests_and_tries_again() -> None:
    async def check(harness: Played) -> None:
        harness.api.on("POST", WITHIN, refused(403, "Forbidden"), OK)
        assert await harness.asked() == [MADE]
        rests = 0
        while not (requests := await harness.asked()):
            rests += 1
            assert rests < 100
        assert (requests, rests > 1) == ([MADE, TOLD], True)

    played(check)


@pytest.mark.parametrize("status", [403, 422, None], ids=["forbidden", "invalid", "cannot be encoded"])
def test_an_object_that_is_refused_keeps_no_other_from_being_written(status: int | None) -> None:
    """A namespace may refuse Workloads by a ResourceQuota of its own; a text may be no UTF-8."""

    async def check(harness: Played) -> None:
        bad = replace_key(0)
        if status is None:
            bad = replace(bad, podsets=(replace(HELD, flavors={GPU: "\ud800"}),), reserved=True)
        else:
            harness.api.on("PATCH", f"{WITHIN}/{name_of(bad.job)}/status", refused(status, "Refused"))
        harness.reports = {bad.key: bad, WAITS.key: WAITS}
        assert TOLD in await harness.asked()
        rounds = [await harness.asked() for _ in range(4)]
        assert rounds == [[]] * 4, "it rests, and what is written stays"

    played(check)


def test_nor_does_one_of_which_the_core_cannot_say_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(harness: Played) -> None:
        bad = replace_key(0)
        harness.reports = {bad.key: bad, WAITS.key: WAITS}
        monkeypatch.setattr(harness, "workload_report", lambda key: {WAITS.key: WAITS}[key])
        assert await harness.asked() == [MADE, TOLD]

    played(check)


def test_what_one_object_makes_fail_is_logged_once_and_slows_no_round(caplog: pytest.LogCaptureFixture) -> None:
    pauses, left_out, turns = list[float](), list[int](), Turns(2)

    async def fail() -> None:
        raise ZeroDivisionError

    async def do() -> None:
        pass

    async def look() -> None:
        turns.begin()
        await turns.take("good", do())
        if turns.comes("bad"):
            await turns.take("bad", fail())
        else:
            left_out.append(len(pauses))
        turns.end()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            raise asyncio.CancelledError

    async def scenario() -> None:
        with pytest.raises(asyncio.CancelledError):
            await go_round(look, "it failed", every_s=1.0, pause=pause)

    asyncio.run(scenario())
    assert (pauses, left_out) == ([1.0] * 6, [2, 3, 5])
    assert [record.getMessage().partition(":")[::2] for record in caplog.records] == [("it failed", " bad: ")]


def test_no_error_ends_the_rounds_and_unforeseen_ones_come_farther_and_farther_apart() -> None:
    pauses: list[float] = []

    async def look() -> None:
        if len(pauses) < 4:
            raise ZeroDivisionError

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            raise asyncio.CancelledError

    async def scenario() -> None:
        with pytest.raises(asyncio.CancelledError):
            await go_round(look, "it failed", every_s=1.0, pause=pause)

    asyncio.run(scenario())
    assert pauses == [1.0, 2.0, 4.0, 8.0, 1.0, 1.0]
