"""Create one pod of a job by a dry run: admission runs as for any pod, and the API server keeps nothing.

The dry run is made as a service account of its own, which may apply pods of one name and nothing else. An admission
policy refuses pods of that name to every account, unless it is a dry run. None is sent before policy and binding have
been read back. The policy goes by the name: one that matched every pod would cost the API server a tenth of each
creation.
"""

from __future__ import annotations

import re
import time
from typing import Any

from extender.core.effects import TryPod
from extender.kube.api.connection import ApiError, decoded, read_as
from extender.kube.client import Kube
from extender.kube.convert import pod_from
from extender.kube.dialects.naming import READ
from extender.kube.kinds.kind import Object, UnreadableJobError
from extender.kube.kinds.read import Reader, meta_of, templates_of
from extender.kube.kinds.template import acceptable, bare, originals_of
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import PodObject
from extender.runtime.requests import Response
from policies.model import GANG_GATE, Job

POLICY = "muster-trials"
"""The name of the policy and of its binding."""
NAME = "muster-trial"
"""The name of every pod that is tried."""
ONLY_DRY_RUN = "request.dryRun"
_USUAL_NAMESPACE = "kube-system"
_SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_OF_ACCOUNTS = "system:serviceaccount:"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_BELIEVED_S = 60.0
"""Seconds for which the policy is trusted to be as it was read."""
_APPLY: dict[str, Any] = {
    "query": {"dryRun": "All", "fieldManager": "muster"},
    "content_type": "application/apply-patch+yaml",
}
"""An apply, because RBAC sees no name in a POST."""
_OURS = ("muster.dev/", "kueue.x-k8s.io/")
_NAMED = re.compile(r'( "[^"]*")? is (forbidden|invalid): ')
"""Matches the name of the tried pod in an error; it is left out."""
_NOT_NOW = re.compile("exceeded quota|status unknown for quota|failed calling webhook")
_DENIED = re.compile(r"denied (the )?request: |tolerations .*conflict")
"""Matches errors of admission webhooks, policies and PodTolerationRestriction, with any status."""
_MAY_NOT = re.compile(r'cannot (create|patch) resource "pods"')
_LONGEST = 500

_TAKEN = Response(403, f"there is a pod {NAME} in its namespace, which has been there before the policy")
_UNAVAILABLE = Response(412, "the component pod-trials is not installed as this version of Muster has it")
_GONE = Response(404, "the job is gone, or its pod templates are others")


def account_in(namespace: str) -> str:
    """The user that tries pods if Muster is installed in this namespace."""
    return f"{_OF_ACCOUNTS}{namespace}:muster-trials"


class PodTrials:
    """Tries pods by dry runs, while the policy that makes them safe is in place."""

    def __init__(self, kube: Kube, reader: Reader) -> None:
        self._kube = kube
        self._reader = reader
        self._guarded_until = 0.0
        self._account = ""

    async def send(self, effect: TryPod, timeout_s: float) -> Response:
        """Try the pod once.

        412: no pod may be tried. 429: such pods are refused for now. 503: no answer about the pod. 403: the API server
        refuses such pods, and the text says why.
        """
        until = time.monotonic() + timeout_s
        try:
            if not await self._is_guarded(timeout_s):
                return _UNAVAILABLE
            self._account = self._account or await self._account_of_trials(timeout_s)
            template = await self._template(effect, until)
        except ApiError as error:
            return Response(503, str(error))
        if template is None:
            return _GONE
        path = f"/api/v1/namespaces/{effect.job.key.namespace}/pods/{NAME}"
        request: dict[str, Any] = {**_APPLY, "body": copy_of(template, effect.job), "impersonate": self._account}
        try:
            answer = await self._kube.call("PATCH", path, **request, timeout_s=max(0.1, until - time.monotonic()))
            made = read_as(answer, PodObject)
            # A pod of a dry run has no version; this one exists.
            there = made.metadata is not None and made.metadata.resource_version
            return _TAKEN if there else Response(201, pod=pod_from(made))
        except (UnreadableError, UnicodeEncodeError) as error:
            return Response(503, str(error))
        except ApiError as error:
            return _refusal(error)

    async def _is_guarded(self, timeout_s: float) -> bool:
        """Whether the policy lets the account create nothing except by a dry run."""
        if time.monotonic() < self._guarded_until:
            return True
        try:
            policy, binding = [
                decoded(await self._kube.find(f"{path}/{POLICY}", timeout_s=timeout_s) or b"")
                for path in (_POLICIES, _BINDINGS)
            ]
        except ApiError as error:
            if error.status == 403:
                return False
            raise
        if not (_refuses_all_else(policy) and _binds(binding)):
            return False
        self._guarded_until = time.monotonic() + _BELIEVED_S
        return True

    async def _account_of_trials(self, timeout_s: float) -> str:
        """The account of trials in Muster's namespace; in kube-system if Muster runs as no service account."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        namespace = _USUAL_NAMESPACE
        try:
            review = decoded(await self._kube.call("POST", _SELF, body=body, timeout_s=timeout_s))
        except ApiError as error:
            if error.status not in (403, 404):
                raise
        else:
            user = str(review.get("status", {}).get("userInfo", {}).get("username", ""))
            if user.startswith(_OF_ACCOUNTS):
                namespace = user.removeprefix(_OF_ACCOUNTS).partition(":")[0]
        return account_in(namespace)

    async def _template(self, effect: TryPod, until: float) -> Object | None:
        """The template of the podset as its author wrote it; None if it is gone."""
        if (known := self._reader.template_of(effect.shape)) is not None:
            return known
        job = effect.job
        if (kind := self._reader.registry.kind_of(job.owner.version, job.owner.kind)) is None:
            return None
        path = (kind.shown_in or kind).path_of(job.key.namespace, job.owner.name)
        obj = decoded(await self._kube.call("GET", path, timeout_s=max(0.1, until - time.monotonic())))
        try:
            meta = meta_of(kind.name, obj)
            originals, templates = originals_of(meta), templates_of(kind, obj)
        except (UnreadableError, UnreadableJobError):
            return None
        if kind.shown_in is None and meta.uid != job.uid:
            return None
        chosen = next((template for template in templates if effect.podset in template.series), None)
        return None if chosen is None else bare(chosen, originals.get(chosen.name, {}))


def copy_of(template: Object, job: Job) -> Object:
    """The pod to try, without the keys that Muster's own policies select by.

    ``env`` is left out, too: a template may name a variable twice, which no apply may, and jobs of one shape differ in
    it.
    """
    meta, spec = template.get("metadata") or {}, acceptable(template.get("spec") or {})
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        container.pop("env", None)
    if gates := [gate for gate in spec.pop("schedulingGates", None) or () if gate.get("name") != GANG_GATE]:
        spec["schedulingGates"] = gates
    owner = job.owner
    made: Object = {
        "name": NAME,
        "namespace": job.key.namespace,
        "ownerReferences": [
            {"apiVersion": owner.version, "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}
        ],
    }
    for field in ("labels", "annotations"):
        kept = {key: text for key, text in (meta.get(field) or {}).items() if not _is_ours(key)}
        if kept:
            made[field] = kept
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def _is_ours(key: str) -> bool:
    return key.startswith(_OURS) or key in READ


def _refuses_all_else(policy: Object) -> bool:
    """Whether the policy, as it stands, refuses every pod that the account writes without a dry run."""
    spec = policy.get("spec") or {}
    matched = spec.get("matchConstraints") or {}
    rules = matched.get("resourceRules") or []
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods"],
        "resourceNames": [NAME],
    }
    narrowed = any(matched.get(name) for name in ("namespaceSelector", "objectSelector", "excludeResourceRules"))
    return (
        spec.get("failurePolicy") == "Fail"
        and not narrowed
        and any(pods.items() <= rule.items() for rule in rules)
        and not spec.get("matchConditions")
        and ONLY_DRY_RUN in [validation.get("expression") for validation in spec.get("validations") or ()]
    )


def _binds(binding: Object) -> bool:
    spec = binding.get("spec") or {}
    return (
        spec.get("policyName") == POLICY
        and "Deny" in (spec.get("validationActions") or ())
        and not spec.get("matchResources")
        and not spec.get("paramRef")
    )


def _refusal(error: ApiError) -> Response:
    """The answer that an error gives about the pod, on one line and in the same words each time."""
    text = str(error)
    detail = " ".join(_NAMED.sub(r" is \2: ", text).encode("ascii", "replace").decode().split())[:_LONGEST]
    if "cannot impersonate" in text or _MAY_NOT.search(text):
        return _UNAVAILABLE
    if error.status == 409 or "pod updates may not" in text:
        return _TAKEN
    denied = error.status == 403 and error.reason == "Forbidden"
    if "does not support dry run" in text:
        return Response(503, detail)
    if _NOT_NOW.search(text):
        return Response(429, detail)
    # The job's controller may complete a pod that is merely invalid.
    if not (denied or _DENIED.search(text)):
        return Response(503, detail)
    return Response(403, detail)
