"""The core is notified of the right queue objects while kinds, versions and Kueue's own controller come and go."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from extender.core.events import Event, JobSeen, QueueGone, QueueSeen
from extender.kube import following
from extender.kube.kinds.job import JOB
from extender.kube.queues.following import LEASE
from extender.kube.queues.resources import QUEUE_KINDS, path_of
from policies.model.queues import LocalQueue
from tests.kube.fake_api import FakeApi, refused, watch
from tests.kube.kinds.following import JOBS, Followed, change, followed, job, listed, served
from tests.running import eventually

GROUP = "kueue.x-k8s.io"
LEASES = "/apis/coordination.k8s.io/v1/leases"
OLD, NEW = "v1beta1", "v1beta2"


def obj(name: str, spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", **meta}
    return {"metadata": meta, "spec": {"namespaceSelector": {}} if spec is None else spec}


def kinds(*versions: str) -> list[tuple[str, str, str]]:
    return [JOBS, *((GROUP, version, plural) for version in versions for plural in (*QUEUE_KINDS, CLASSES))]


CLASSES = "workloadpriorityclasses"


def serve(api: FakeApi, *versions: str, **objects: list[dict[str, Any]]) -> None:
    """``objects``: by plural; none of the other kinds."""
    api.on("GET", "/apis", served(*kinds(*versions)))
    api.on("GET", JOB.path, listed())
    api.on("GET", LEASES, listed())
    for version in versions:
        for plural in (*QUEUE_KINDS, CLASSES):
            api.on("GET", path_of(version, plural), listed(*objects.get(plural, ())))
            api.on("WATCH", path_of(version, plural), watch(stays_open=True))


def told(events: list[Event]) -> list[str]:
    """The events about queues in a word each: +name for seen, -name for gone."""
    words = []
    for event in events:
        match event:
            case QueueSeen(item):
                words.append(f"+{item.name}")
            case QueueGone(item):
                words.append(f"-{item.name}")
    return words


def lease(age_s: float) -> dict[str, Any]:
    renewed = datetime.now(UTC) - timedelta(seconds=age_s)
    spec = {"holderIdentity": "kueue", "leaseDurationSeconds": 15, "renewTime": renewed.isoformat()}
    return {"metadata": {"name": LEASE, "namespace": "kueue-system"}, "spec": spec}


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 0.01)


def test_a_cluster_without_these_kinds_is_asked_for_nothing() -> None:
    def setup(api: FakeApi) -> None:
        api.on("GET", JOB.path, listed(job("a")))

    async def check(watched: Followed) -> None:
        looked = watched.asked("/apis")
        await eventually(lambda: watched.asked("/apis") > looked + 3)
        paths = {request.path for request in watched.api.asked}
        assert not [path for path in paths if GROUP in path or path == LEASES]

    followed(setup, check)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_objects_of_either_version_are_told_before_jobs(version: str) -> None:
    queue = obj("q", namespace="team", uid="lq")
    spec = {"cohort": "all", "admissionChecks": ["x"]}

    def setup(api: FakeApi) -> None:
        resources = {"resourceflavors": [obj("f")], "clusterqueues": [obj("cq", spec)], "localqueues": [queue]}
        serve(api, version, cohorts=[obj("all")], **resources)
        api.on("GET", JOB.path, listed(job("a")))

    async def check(watched: Followed) -> None:
        assert told(watched.events) == ["+f", "+all", "+cq", "+q"]
        (seen,) = [event for event in watched.events if isinstance(event, QueueSeen) and event.object.name == "cq"]
        assert seen.problems == ("spec.admissionChecks is not implemented",)
        assert "namespaceSelector" in seen.warnings[0]
        assert isinstance(watched.events[-1], JobSeen)
        watched.events.clear()
        watched.follower.repeat()
        assert told(watched.events) == ["+f", "+all", "+cq", "+q"]

    followed(setup, check)


def test_of_two_versions_the_newer_one_is_followed() -> None:
    async def check(watched: Followed) -> None:
        assert told(watched.events) == ["+cq"]
        assert not watched.asked(path_of(OLD, "clusterqueues"))

    followed(lambda api: serve(api, OLD, NEW, clusterqueues=[obj("cq")]), check)


def test_one_that_cannot_be_converted_is_read_in_the_other_version() -> None:
    def setup(api: FakeApi) -> None:
        serve(api, OLD, NEW, clusterqueues=[obj("cq")])
        api.on("GET", path_of(NEW, "clusterqueues"), refused(500, "InternalError", "conversion webhook failed"))

    async def check(watched: Followed) -> None:
        assert told(watched.events) == ["+cq"]

    followed(setup, check)


def test_another_version_is_taken_up_without_losing_an_object() -> None:
    async def check(watched: Followed) -> None:
        assert told(watched.events) == ["+cq"]
        serve(watched.api, NEW, clusterqueues=[obj("cq"), obj("more")])
        await eventually(lambda: "+more" in told(watched.events))
        assert told(watched.events) == ["+cq", "+more"]

    followed(lambda api: serve(api, OLD, clusterqueues=[obj("cq")]), check)


def test_kinds_that_are_gone_take_their_objects_along() -> None:
    async def check(watched: Followed) -> None:
        watched.api.on("GET", "/apis", served(JOBS))
        await eventually(lambda: "-cq" in told(watched.events))
        assert told(watched.events) == ["+f", "+cq", "-f", "-cq"]

    followed(lambda api: serve(api, NEW, resourceflavors=[obj("f")], clusterqueues=[obj("cq")]), check)


def test_while_kueue_runs_no_queue_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def setup(api: FakeApi) -> None:
        serve(api, NEW, clusterqueues=[obj("cq")])
        api.on("GET", LEASES, listed(lease(5)))

    async def check(watched: Followed) -> None:
        assert (told(watched.events), watched.follower.queues.kueue_runs) == ([], True)
        assert "Muster does not manage queues" in caplog.text
        watched.api.on("GET", LEASES, listed(lease(300)))
        await eventually(lambda: told(watched.events) == ["+cq"])
        assert not watched.follower.queues.kueue_runs
        watched.api.on("GET", LEASES, listed(lease(0)))
        await eventually(lambda: told(watched.events) == ["+cq", "-cq"])

    followed(setup, check)


@pytest.mark.parametrize(("value", "problem"), [(7, ""), (None, "its WorkloadPriorityClass high does not exist")])
def test_a_job_has_the_priority_of_its_workload_priority_class(value: int | None, problem: str) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}
    classes = [] if value is None else [{"metadata": {"name": "high", "uid": "h"}, "value": value}]

    def setup(api: FakeApi) -> None:
        serve(api, NEW, **{CLASSES: classes})
        api.on("GET", JOB.path, listed(job("a", labels=labels)))

    async def check(watched: Followed) -> None:
        await eventually(lambda: watched.last().problem == problem)
        assert (watched.last().of_class, watched.last().priority) == (value, value or 0)
        assert {podset.template.priority for podset in watched.last().podsets.podsets} <= {0}, "kube-scheduler's"

    followed(setup, check)


def test_the_uid_of_every_object_and_where_it_is_at_the_api_server() -> None:
    local = obj("q", {"clusterQueue": "cq"}, namespace="team")

    async def check(watched: Followed) -> None:
        assert [(uid, path) for _, uid, path in watched.follower.queues.known()] == [
            ("uid-of-cq", path_of(NEW, "clusterqueues/cq")),
            ("uid-of-q", path_of(NEW, "namespaces/team/localqueues/q")),
        ]
        await asyncio.sleep(0)

    followed(lambda api: serve(api, NEW, clusterqueues=[obj("cq")], localqueues=[local]), check)


def test_past_usage_that_was_written_is_told_to_whoever_leads_next() -> None:
    stored = {"consumedResources": {"cpu": "2"}, "lastUpdate": "2026-01-01T00:00:00Z"}
    status = {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": stored}}
    before = obj("q", {"clusterQueue": "cq"}, namespace="team", uid="lq")
    after = obj("q", {"clusterQueue": "cq"}, namespace="team", uid="lq", resourceVersion="2") | {"status": status}

    def setup(api: FakeApi) -> None:
        serve(api, NEW, clusterqueues=[obj("cq")], localqueues=[before])
        api.on("WATCH", path_of(NEW, "localqueues"), watch(change("MODIFIED", after), stays_open=True))

    def past(events: list[Event]) -> list[dict[str, float] | None]:
        objects = [event.object for event in events if isinstance(event, QueueSeen)]
        return [dict(queue.past.consumed) if queue.past else None for queue in objects if isinstance(queue, LocalQueue)]

    async def check(watched: Followed) -> None:
        assert past(watched.events) == [None]

        def repeated() -> bool:
            watched.events.clear()
            watched.follower.repeat()
            return past(watched.events) == [{"cpu": 2000.0}]

        await eventually(repeated)

    followed(setup, check)
