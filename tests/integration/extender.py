"""The extender's client on a real API server, with the rights of its account and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.api import Object
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.writer import KubeApi
from extender.runtime.requests import OK, ApiCall

TIMEOUT_S = 30.0
ATTEMPTS, CONFLICT = 10, 409
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Extender:
    """The extender's own client, with the token of its account."""

    identity: Path

    def do(self, work: Callable[[Kube], Awaitable[Any]]) -> Any:
        async def connected() -> Any:
            kube = await Kube.connect(self.identity)
            try:
                return await work(kube)
            finally:
                await kube.close()

        return asyncio.run(connected())

    def write(self, effect: ApiCall) -> None:
        """Write as the driver does: again, if another client has written to the object in between."""
        answers = (self.do(lambda kube: KubeApi(kube).send(effect, TIMEOUT_S)) for _ in range(ATTEMPTS))
        answer = next(answer for answer in answers if answer.status != CONFLICT)
        assert answer == OK, answer

    def patch(self, path: str, body: Object) -> None:
        self.do(lambda kube: kube.call("PATCH", path, body=body, content_type=MERGE))

    def refused(self, method: str, path: str, body: Any, kind: str = STRATEGIC) -> str:
        """The API server's words. Fails unless it was a policy that refused."""
        with pytest.raises(ApiError) as refusal:
            self.do(lambda kube: kube.call(method, path, body=body, content_type=kind))
        assert "ValidatingAdmissionPolicy 'muster-extender" in refusal.value.message, refusal.value
        return refusal.value.message
