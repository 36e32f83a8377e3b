"""Request nodes: a ProvisioningRequest for each job that has quota, but whose nodes do not exist yet.

The leader works in rounds. The objects' content follows from the job and its flavors. Objects that no job needs any
more are deleted, with their pod templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Protocol

import msgspec

from extender.core.answers import CapacityAnswered
from extender.core.events import CapacityServed, Event
from extender.core.jobs.elastic import CapacityAsk, RequestedPods
from extender.kube.api.connection import METADATA_ONLY, ApiError, decoded
from extender.kube.client import Kube
from extender.kube.keys import IN_VAIN
from extender.kube.kinds.kind import Object, UnreadableJobError, conditions
from extender.kube.kinds.plan import in_vain_text
from extender.kube.kinds.read import meta_of, templates_of
from extender.kube.kinds.registry import Registry
from extender.kube.kinds.template import acceptable, bare, originals_of, tolerate
from extender.kube.queues.resources import PROVISIONING
from extender.kube.queues.rounds import Turns, go_round
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import PodSpec
from extender.kube.reading.requests import requests_of
from policies.model import Controller, GroupKey, InVain, Requests

VERSION, PLURAL = PROVISIONING
CAPACITY = "muster.dev/capacity"
"""The label of Muster's ProvisioningRequests and of their pod templates."""
_GRACE = 30
"""Rounds until an object that an earlier process made, and that no job needs, is deleted."""
_MOST_PODSETS = 32
"""Most podsets of a ProvisioningRequest, as its CRD limits them."""
_GONE = "its job is gone, or cannot be read"
_TOO_MANY = f"its pods are of more than {_MOST_PODSETS} sorts, and a ProvisioningRequest has no more"
_COPIED_METADATA = ("labels", "annotations")


class Capacity(Protocol):
    """Settings for new nodes. ``timeout_s``: how many seconds the autoscaler may try."""

    @property
    def provisioning_class(self) -> str: ...

    @property
    def timeout_s(self) -> float: ...


class Core(Protocol):
    """The part of the core that says for which jobs nodes are wanted."""

    def capacity_asks(self) -> Sequence[CapacityAsk]: ...

    def capacity_rest(self, key: GroupKey) -> InVain | None: ...


@dataclass(slots=True)
class _Made:
    """The objects of one request for nodes. ``last_answer``: the last answer that was sent to the core."""

    namespace: str
    name: str
    templates: int
    last_answer: str = ""


class CapacityKeeper:
    """Keeps the ProvisioningRequests of all jobs that need nodes.

    ``core``: the core that decides now; None while none does.
    ``served``: whether the cluster serves ProvisioningRequests.
    """

    def __init__(
        self,
        kube: Kube,
        core: Callable[[], Core | None],
        served: Callable[[], bool],
        dispatch: Callable[[Event], None],
        registry: Registry,
        how: Capacity,
    ) -> None:
        self._kube = kube
        self._core = core
        self._served = served
        self._dispatch = dispatch
        self._registry = registry
        self._how = how
        self._of: Core | None = None
        self._last_served: bool | None = None
        """The last answer of ``served`` that was sent to the core."""
        self._made: dict[CapacityAsk, _Made] = {}
        self._strange: dict[tuple[str, str], int] | None = None
        """Objects of earlier processes, with the rounds in which no job needed them; None: not listed yet."""

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await go_round(self.look, "nodes cannot be asked for")

    async def look(self) -> None:
        """Run one round. Raises TurnError or ApiError."""
        core, served = self._core(), self._served()
        if core is not self._of:
            self._of, self._last_served, self._strange = core, None, None
            self._made.clear()
        if core is None:
            return
        if served != self._last_served:
            self._last_served = served
            self._dispatch(CapacityServed(served))
        if not served:
            return
        asks, turns = core.capacity_asks(), Turns()
        for ask in [ask for ask in self._made if ask not in asks]:
            await turns.take(f"attempt {ask.attempt} of {ask.key}", self._end(ask, core.capacity_rest(ask.key)))
        for ask in asks:
            if ask not in self._made:
                await turns.take(f"attempt {ask.attempt} of {ask.key}", self._make(ask))
            elif self._made[ask].last_answer != "Failed":
                await turns.take(f"attempt {ask.attempt} of {ask.key}", self._follow(ask, self._made[ask]))
        await turns.take("requests that no job needs any more", self._clear())
        turns.end()

    async def _end(self, ask: CapacityAsk, rest: InVain | None) -> None:
        """Delete the objects of a request that has ended, once its back-off is written on the job."""
        made = self._made[ask]
        if rest is None or await self._noted(ask, rest):
            await self._remove(made.namespace, made.name, made.templates)
            del self._made[ask]

    async def _make(self, ask: CapacityAsk) -> None:
        """Create the pod templates, and then the ProvisioningRequest that names them."""
        try:
            sorts = await self._sorts(ask)
            if len(sorts) > _MOST_PODSETS:
                raise UnreadableJobError(_TOO_MANY)
        except (UnreadableError, UnreadableJobError) as error:
            return self._deny(ask, str(error))
        made = _Made(ask.key.namespace, _name(ask, sorts), len(sorts))
        within, meta = f"namespaces/{made.namespace}", _metadata(ask.job)
        for at, (template, _) in enumerate(sorts):
            name = f"{made.name}-{at}"
            body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {**meta, "name": name}, "template": template}
            if not await self._create(ask, f"/api/v1/{within}/podtemplates", body):
                return None
        podsets = [
            {"podTemplateRef": {"name": f"{made.name}-{at}"}, "count": count} for at, (_, count) in enumerate(sorts)
        ]
        spec = {
            "provisioningClassName": self._how.provisioning_class,
            "parameters": {"ValidUntilSeconds": f"{self._how.timeout_s:.0f}"},
            "podSets": podsets,
        }
        body = {"apiVersion": VERSION, "kind": "ProvisioningRequest", "metadata": {**meta, "name": made.name}}
        if await self._create(ask, f"/apis/{VERSION}/{within}/{PLURAL}", {**body, "spec": spec}):
            self._made[ask] = made
        return None

    async def _create(self, ask: CapacityAsk, path: str, body: Object) -> bool:
        """Create the object; False if the API server refuses it, which is reported to the core as a denial."""
        try:
            await self._kube.call("POST", path, body=body)
        except ApiError as error:
            if error.status == 409:
                return True  # An earlier process made it. Its name is a hash of its content.
            if error.status not in (400, 403, 404, 422):
                raise
            self._deny(ask, str(error))
            return False
        return True

    async def _follow(self, ask: CapacityAsk, made: _Made) -> None:
        """Report the state of the ProvisioningRequest to the core."""
        path = f"/apis/{VERSION}/namespaces/{made.namespace}/{PLURAL}/{made.name}"
        if (raw := await self._kube.find(path)) is None:
            return self._deny(ask, "its ProvisioningRequest was deleted")
        obj = decoded(raw)
        status_of = conditions(obj)
        over = next(
            (name for name in ("Failed", "CapacityRevoked", "BookingExpired") if status_of.get(name) == "True"), ""
        )
        if over:
            made.last_answer = "Failed"
            return self._deny(ask, _message(obj, over))
        if status_of.get("Provisioned") == "True" and made.last_answer != "Provisioned":
            made.last_answer = "Provisioned"
            self._dispatch(CapacityAnswered(ask.key, ask.attempt, granted=True))
        return None

    def _deny(self, ask: CapacityAsk, detail: str) -> None:
        self._dispatch(CapacityAnswered(ask.key, ask.attempt, granted=False, detail=detail))

    async def _noted(self, ask: CapacityAsk, rest: InVain) -> bool:
        """Write the back-off on the job, for the next leader. False: try again in the next round.

        A kind that is read in another object keeps no back-off.
        """
        kind = self._registry.kind_of(ask.job.version, ask.job.kind)
        if kind is None or kind.shown_in is not None:
            return True
        path = kind.path_of(ask.key.namespace, ask.job.name)
        try:
            meta = decoded(await self._kube.call("GET", path, accept=METADATA_ONLY)).get("metadata") or {}
            if meta.get("uid") == ask.job.uid:
                patch = {"metadata": {"annotations": {IN_VAIN: in_vain_text(rest)}}}
                await self._kube.patch_job(path, meta, patch)
        except ApiError as error:
            if error.status not in (400, 403, 404, 409, 422):
                raise
            return error.status != 409
        return True

    async def _remove(self, namespace: str, name: str, templates: int) -> None:
        within = f"namespaces/{namespace}"
        paths = [f"/api/v1/{within}/podtemplates/{name}-{at}" for at in range(templates)]
        for path in (f"/apis/{VERSION}/{within}/{PLURAL}/{name}", *paths):
            try:
                await self._kube.call("DELETE", path)
            except ApiError as error:
                if error.status != 404:
                    raise

    async def _clear(self) -> None:
        """Delete what earlier processes requested, unless a job needs it again within the grace period."""
        if self._strange is None:
            answer = await self._kube.call("GET", f"/apis/{VERSION}/{PLURAL}", query={"labelSelector": CAPACITY})
            metas = [item.get("metadata") or {} for item in decoded(answer).get("items") or ()]
            self._strange = {(str(meta.get("namespace")), str(meta.get("name"))): 0 for meta in metas}
        for made in self._made.values():
            self._strange.pop((made.namespace, made.name), None)
        for namespace, name in list(self._strange):
            self._strange[namespace, name] += 1
            if self._strange[namespace, name] > _GRACE:
                await self._remove(namespace, name, _MOST_PODSETS)
                del self._strange[namespace, name]

    async def _sorts(self, ask: CapacityAsk) -> list[tuple[Object, int]]:
        """Pod templates equal to the job's pods, and how many pods each has.

        Raises UnreadableError or UnreadableJobError.
        """
        kind = self._registry.kind_of(ask.job.version, ask.job.kind)
        if kind is None:
            raise UnreadableJobError(_GONE)
        path = (kind.shown_in or kind).path_of(ask.key.namespace, ask.job.name)
        if (there := await self._kube.find(path)) is None:
            raise UnreadableJobError(_GONE)
        obj = decoded(there)
        originals, requested_pods = originals_of(meta_of(kind.name, obj)), {pod.podset: pod for pod in ask.pods}
        sorts: list[tuple[Object, int]] = []
        for template in templates_of(kind, obj):
            counts: dict[tuple[Any, ...], tuple[RequestedPods, int]] = {}
            for requested in (requested_pods[name] for name in template.series if name in requested_pods):
                sort = requested.labels, requested.tolerations, requested.requests
                counts[sort] = requested, counts.get(sort, (requested, 0))[1] + requested.count
            pod = bare(template, originals.get(template.name, {}))
            sorts += [(_as_created(pod, requested), count) for requested, count in counts.values()]
        if not sorts:
            raise UnreadableJobError(_GONE)
        return sorts


def _as_created(pod: Object, requested_pods: RequestedPods) -> Object:
    """The template of pods with that flavor."""
    spec = acceptable(pod.get("spec") or {})
    if requested_pods.labels:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **dict(requested_pods.labels)}
    made = {"metadata": {key: pod["metadata"][key] for key in _COPIED_METADATA if (pod.get("metadata") or {}).get(key)}}
    made["spec"] = spec
    tolerate(made, requested_pods.tolerations)
    if more := _beyond(spec, requested_pods.requests):
        # The API server adds nothing to a template, while it adds this to pods.
        spec["overhead"] = more
    return made


def _beyond(spec: Object, requests: Requests) -> dict[str, str]:
    """Return the requests of its pods beyond the containers of a template: LimitRanges, sidecars, a RuntimeClass."""
    try:
        requests_without = dict(requests_of(msgspec.convert({**spec, "overhead": None}, PodSpec)))
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableJobError(str(error)) from None
    beyond = {name: much - requests_without.get(name, 0) for name, much in requests}
    return {name: f"{much}m" if name == "cpu" else str(much) for name, much in beyond.items() if much > 0}


def _name(ask: CapacityAsk, sorts: Sequence[tuple[Object, int]]) -> str:
    """The object's name: the job's, with a hash of its UID, the attempt and the content."""
    identity = json.dumps([ask.job.uid, ask.attempt, sorts], sort_keys=True)
    end = sha1(identity.encode(), usedforsecurity=False).hexdigest()[:10]
    return f"{ask.job.kind.lower()}-{ask.job.name}"[:40].rstrip("-.") + f"-{end}"


def _metadata(job: Controller) -> Object:
    """Metadata that make the object end with its job."""
    owner = {"apiVersion": job.version, "kind": job.kind, "name": job.name, "uid": job.uid}
    return {"labels": {CAPACITY: "true"}, "ownerReferences": [owner]}


def _message(obj: Object, condition: str) -> str:
    """The message of that condition, on one line of at most 300 characters."""
    conditions = [item for item in (obj.get("status") or {}).get("conditions") or () if isinstance(item, dict)]
    text = next(
        (str(entry.get("message") or entry.get("reason")) for entry in conditions if entry.get("type") == condition), ""
    )
    return f"{condition}: {' '.join(text.encode('ascii', 'replace').decode().split())[:300]}"
