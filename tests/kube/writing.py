"""Writes, one after the other, with an API server and a clock that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from extender.kube.client import Kube
from extender.kube.writer import KubeApi
from extender.runtime.requests import OK as DONE
from extender.runtime.requests import Pause
from extender.runtime.writes import Procedure, Writes
from tests.kube.fake_api import Answer, FakeApi, FakeTime, fake_api

POD = "/api/v1/namespaces/team/pods/p"
BINDING, STATUS, EVICTION = f"{POD}/binding", f"{POD}/status", f"{POD}/eviction"
EVENTS = "/apis/events.k8s.io/v1/namespaces/team/events"
GROUP_STATUS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/podgroups/train/status"

EndingT = TypeVar("EndingT")
Written = tuple[Any, FakeApi, FakeTime]


def pod(node: str = "", uid: str = "u") -> Answer:
    return Answer(body={"metadata": {"name": "p", "namespace": "team", "uid": uid}, "spec": {"nodeName": node}})


class Writer:
    """Procedures, one after the other, with an API server and a clock that the test plays."""

    def __init__(self, kube: Kube, time: FakeTime) -> None:
        self.retried: list[str] = []
        self.writes = Writes(time.clock, lambda: 1.0, self.retried.append)
        self._api = KubeApi(kube)
        self._time = time

    async def run(self, procedure: Procedure[EndingT]) -> EndingT:
        try:
            wish = next(procedure)
            while True:
                if isinstance(wish, Pause):
                    await self._time.pause(wish.seconds)
                    wish = procedure.send(DONE)
                else:
                    answer = await self._api.send(wish.call, wish.timeout_s)
                    self.writes.heard(answer)
                    wish = procedure.send(answer)
        except StopIteration as end:
            ending: EndingT = end.value
            return ending


def written(setup: Callable[[FakeApi], None], write: Callable[[Writer], Awaitable[Any]]) -> Written:
    async def scenario() -> Written:
        time = FakeTime()
        async with fake_api() as (api, kube):
            setup(api)
            result = await write(Writer(kube, time))
            return result, api, time

    return asyncio.run(scenario())


def posts(api: FakeApi) -> int:
    return len(api.bodies("POST"))
