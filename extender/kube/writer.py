"""Carry out one request of the driver at the API server, and report how it ended."""

from __future__ import annotations

from contextlib import suppress
from typing import assert_never

from extender.core.effects import (
    CleanJob,
    Confirm,
    Deallocate,
    Enqueue,
    Evict,
    Hint,
    Nominate,
    PostBinding,
    Report,
    Reserve,
    StartJob,
    SuspendJob,
    TryPod,
    Ungate,
    Wake,
)
from extender.core.gate.stamps import RELEASE_COMPLETE
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.jobs import JobWriter
from extender.kube.kinds.read import Reader
from extender.kube.reading.constraints import WOKEN
from extender.kube.reports import Reporter, instant
from extender.runtime.requests import OK, ApiCall, LookAtPod, Response

_RECOVERY_S = 20.0
"""Seconds after an outage without evictions: twice kube-scheduler's longest backoff (10 s by default)."""


class KubeApi:
    """The Api of the runner. Make a new one for each term of leadership, since it remembers the reports it has
    written."""

    def __init__(self, kube: Kube, reader: Reader | None = None) -> None:
        self._kube = kube
        self._reporter = Reporter(kube)
        self._jobs = JobWriter(kube, reader or Reader(), self._reporter)

    async def send(self, call: ApiCall, timeout_s: float) -> Response:
        """Make one attempt, answered within ``timeout_s`` seconds; status 0 without an answer."""
        try:
            return await self._send(call, timeout_s)
        except ApiError as error:
            return Response(error.status, str(error), error.retry_after_s or 0.0)

    async def _send(self, call: ApiCall, timeout_s: float) -> Response:
        match call:
            case PostBinding():
                await self._kube.post_binding(call, timeout_s=timeout_s)
            case Nominate(uid, namespace, name, node):
                labels = {WOKEN: "true" if node else None} if call.parked else None
                nominated = {"nominatedNodeName": node}
                await self._kube.patch_status(namespace, name, uid, nominated, labels, timeout_s=timeout_s)
            case Ungate(uid, namespace, name):
                await self._kube.ungate(namespace, name, uid, call.pin, timeout_s=timeout_s)
            case Wake(uid, namespace, name):
                status = {"conditions": [_woken()]}
                await self._kube.patch_status(namespace, name, uid, status, timeout_s=timeout_s)
            case Confirm(uid, namespace, name):
                await self._kube.annotate(namespace, name, uid, {RELEASE_COMPLETE: "true"}, timeout_s=timeout_s)
            case Evict():
                return await self._evict(call, timeout_s)
            case StartJob() | SuspendJob() | CleanJob() | Enqueue() | Reserve() | TryPod() | Deallocate():
                return await self._jobs.write(call, timeout_s)
            case Report() | Hint():
                await (self._reporter.report(call) if isinstance(call, Report) else self._reporter.hint(call))
            case LookAtPod(uid, namespace, name):
                node = await self._kube.get_pod_node(namespace, name, uid, timeout_s=timeout_s)
                return Response(200, node=node)
            case _:
                assert_never(call)
        return OK

    async def _evict(self, pod: Evict, timeout_s: float) -> Response:
        """Evict the pod with its own grace period, and write on it why.

        Refused right after an outage, since no gang could be completed meanwhile. Refused as well while the watch is
        older than this replica's lead, since the gang may be complete.
        """
        if self._kube.behind:
            return Response(412, "the watch of pods lags behind, and the gang may be whole")
        if self._kube.was_away(_RECOVERY_S):
            return Response(412, "the API server was away a moment ago, and the gang may become whole yet")
        await self._kube.evict(pod.namespace, pod.name, pod.uid, timeout_s=timeout_s)
        # The eviction is done; the Event is optional.
        with suppress(ApiError):
            await self._reporter.report_evicted(pod)
        return OK


def _woken() -> dict[str, str]:
    return {
        "type": "muster.dev/Woken",
        "status": "True",
        "lastTransitionTime": instant("seconds"),
        "reason": "RoomMayHaveChanged",
        # Conditions have whole seconds, and two wakes in one second must differ.
        "message": f"Woken at {instant('microseconds')}.",
    }
