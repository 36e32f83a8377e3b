"""The follower of jobs with an API server that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from extender.core.events import Event, JobGone, JobSeen
from extender.kube.following import JobFollower
from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import Registry
from extender.kube.reflector import Callback
from extender.observe.sight import Sight
from policies.model import Job
from tests.kube.fake_api import Answer, FakeApi, fake_api, watch
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import stored

LIMITS = "/api/v1/limitranges"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def job(name: str = "train", **meta: Any) -> Object:
    obj = stored(INDEXED)
    obj["metadata"] |= {"name": name, "uid": f"uid-of-{name}"} | meta
    return obj


def listed(*items: Object) -> Answer:
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": list(items)})


def served(*resources: tuple[str, str, str]) -> Answer:
    """Answer /apis as kube-apiserver 1.36 does: the versions of each group, and the resources of each version."""
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        {"resource": plural, "scope": "Namespaced", "subresources": [{"subresource": "status"}]}
                    ],
                    "freshness": "Current",
                }
            ],
        }
        for group, version, plural in resources
    ]
    return Answer(body={"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})


JOBS = ("batch", "v1", "jobs")


class Followed:
    """A follower on an API server that a test plays. Pauses are none."""

    def __init__(self, api: FakeApi, follower: JobFollower, events: list[Event], sight: Sight, reader: Reader) -> None:
        self.api, self.follower, self.events, self.sight, self.reader = api, follower, events, sight, reader

    @property
    def told(self) -> list[str]:
        return [
            f"+{event.job.key.name}" if isinstance(event, JobSeen) else f"-{event.key.name}" for event in self._of_jobs
        ]

    @property
    def _of_jobs(self) -> list[JobSeen | JobGone]:
        return [event for event in self.events if isinstance(event, JobSeen | JobGone)]

    def last(self) -> Job:
        return next(event.job for event in reversed(self.events) if isinstance(event, JobSeen))

    def asked(self, path: str) -> int:
        return sum(request.path == path for request in self.api.asked)


def followed(setup: Callable[[FakeApi], None], check: Callable[[Followed], Awaitable[None]], *own: Kind) -> None:
    async def scenario() -> None:
        async with fake_api() as (api, kube):
            for path in (LIMITS, RUNTIMES, PRIORITIES):
                api.on("GET", path, listed())
                api.on("WATCH", path, watch(stays_open=True))
            api.on("GET", "/apis", served(JOBS))
            api.on("WATCH", JOB.path, watch(stays_open=True))
            setup(api)
            events: list[Event] = []
            sight, reader = Sight(), Reader(registry=Registry(own))
            follower = JobFollower(kube, Callback(events.append), sight, reader, pause=lambda _: asyncio.sleep(0))
            running = asyncio.create_task(follower.run())
            try:
                await asyncio.wait_for(follower.synced.wait(), 20)
                await check(Followed(api, follower, events, sight, reader))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def change(kind: str, obj: Object) -> dict[str, Any]:
    return {"type": kind, "object": obj}
