"""A pod is tried by a dry run: the account, the request, and the meaning of each answer."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.core.effects import TryPod
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.trials import NAME, PodTrials, account_in
from extender.runtime.requests import Response
from tests.kube.fake_api import Answer, FakeApi, fake_api, refused
from tests.kube.kinds.jobs import stored

_ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
POLICY, BINDING = f"{_ADMISSION}policies/muster-trials", f"{_ADMISSION}policybindings/muster-trials"
COMPONENT = Path(__file__).parents[2] / "manifests" / "components" / "pod-trials"
MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team, labels: {muster.dev/gang: "true"}}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    metadata:
      labels: {app: train, muster.dev/queue-name: team-a, kueue.x-k8s.io/queue-name: team-a, pod-group-name: other}
      annotations: {sidecar: "yes", muster.dev/min-member: "2"}
    spec:
      restartPolicy: Never
      schedulerName: muster
      schedulingGates: [{name: muster.dev/gang}]
      containers: [{name: main, image: train, resources: {requests: {cpu: "1"}}}]
"""


def shipped() -> tuple[Any, Any]:
    policy, binding = yaml.safe_load_all((COMPONENT / "policy.yaml").read_text())
    return policy, binding


class Trial:
    """The API server has the policy as it ships, unless ``change`` has changed it."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.policy, self.binding = shipped()
        self.obj = stored(MANIFEST)
        self.effect = TryPod(Reader().read(JOB, stored(MANIFEST)), "", "S")
        container = {"name": "main", "resources": {"requests": {"cpu": "1100m"}}}
        meta = {"name": NAME, "namespace": "team", "uid": "u"}
        made = {"metadata": meta, "spec": {"containers": [container]}}
        self.answer: Answer = Answer(201, made)

        self.review = refused(403, "Forbidden")

    def serve(self) -> None:
        self.api.on("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", self.review)
        self.api.on("GET", POLICY, Answer(body=self.policy))
        self.api.on("GET", BINDING, Answer(body=self.binding))
        self.api.on("GET", "/apis/batch/v1/namespaces/team/jobs/train", Answer(body=self.obj))
        self.api.on("PATCH", f"/api/v1/namespaces/team/pods/{NAME}", self.answer)


def tried(times: int = 1, **changes: Any) -> tuple[Response, FakeApi, bool]:
    """The last answer, the requests, and whether the API server counts as away."""

    async def scenario() -> tuple[Response, FakeApi, bool]:
        async with fake_api() as (api, kube):
            trial = Trial(api)
            for field, value in changes.items():
                setattr(trial, field, value)
            trial.serve()
            trials = PodTrials(kube, Reader())
            answers = [await trials.send(trial.effect, 2.0) for _ in range(times)]
            return answers[-1], api, kube.was_away(60)

    return asyncio.run(scenario())


def test_it_is_a_dry_run_by_that_account_and_carries_nothing_of_ours() -> None:
    response, api, _ = tried()
    assert response.pod is not None
    assert dict(response.pod.requests) == {"cpu": 1100, "pods": 1}
    [patch] = [request for request in api.asked if request.method == "PATCH"]
    assert (patch.query, patch.impersonated) == (
        {"dryRun": "All", "fieldManager": "muster"},
        account_in("kube-system"),
    )
    meta, spec = patch.body["metadata"], patch.body["spec"]
    assert meta["name"] == NAME
    assert "muster" not in str(meta.get("labels")) + str(meta.get("annotations"))
    assert {key: value for key, value in meta["labels"].items() if "batch" not in key} == {"app": "train"}
    assert meta["annotations"] == {"sidecar": "yes"}
    assert "schedulingGates" not in spec
    assert [owner["name"] for owner in meta["ownerReferences"]] == ["train"]


@pytest.mark.parametrize(
    ("user", "account"),
    [
        ("system:serviceaccount:team-platform:muster-extender", "system:serviceaccount:team-platform:muster-trials"),
        ("admin", "system:serviceaccount:kube-system:muster-trials"),
    ],
)
def test_the_account_is_in_the_namespace_of_musters_own(user: str, account: str) -> None:
    review = Answer(201, {"status": {"userInfo": {"username": user}}})
    _, api, _ = tried(2, review=review)
    assert [request.impersonated for request in api.asked if request.method == "PATCH"] == [account] * 2
    assert [request.method for request in api.asked].count("POST") == 1


def test_the_policy_is_read_once_in_a_while() -> None:
    _, api, _ = tried(3)
    assert [request.path for request in api.asked].count(POLICY) == 1


def _without(policy: Any, *path: Any, value: Any = None) -> Any:
    changed = deepcopy(policy)
    *parts, last = path
    place = changed
    for key in parts:
        place = place[key]
    place[last] = value
    return changed


P, B = shipped()
WEAKER = {
    "no policy": {"policy": {}},
    "no binding": {"binding": {}},
    "another binding": {"binding": _without(B, "spec", "policyName", value="other")},
    "audited only": {"binding": _without(B, "spec", "validationActions", value=["Audit"])},
    "bound to some": {"binding": _without(B, "spec", "matchResources", value={"namespaceSelector": {"a": "b"}})},
    "may fail": {"policy": _without(P, "spec", "failurePolicy", value="Ignore")},
    "a condition": {"policy": _without(P, "spec", "matchConditions", value=[{"name": "a", "expression": "false"}])},
    "another rule": {"policy": _without(P, "spec", "validations", 0, "expression", value="true")},
    "some namespaces": {
        "policy": _without(P, "spec", "matchConstraints", "namespaceSelector", value={"matchLabels": {"a": "b"}})
    },
    "another name": {
        "policy": _without(P, "spec", "matchConstraints", "resourceRules", 0, "resourceNames", value=["one"])
    },
    "creations alone": {
        "policy": _without(P, "spec", "matchConstraints", "resourceRules", 0, "operations", value=["CREATE"])
    },
    "other objects": {
        "policy": _without(P, "spec", "matchConstraints", "resourceRules", 0, "resources", value=["services"])
    },
}


@pytest.mark.parametrize("how", WEAKER)
def test_nothing_is_tried_where_the_policy_is_not_as_it_ships(how: str) -> None:
    response, api, _ = tried(**WEAKER[how])
    assert response.status == 412
    assert not [request for request in api.asked if request.method == "PATCH"]


FORBIDDEN = 'pods "muster-trial" is forbidden: '
WHITELIST = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
ACCOUNT_TEXT = (
    f'User "{account_in("kube-system")}" cannot create resource "pods" in API group "" in the namespace "team"'
)


@pytest.mark.parametrize(
    ("answer", "status", "detail"),
    [
        (
            refused(403, "Forbidden", f'{FORBIDDEN}violates PodSecurity "restricted:latest"'),
            403,
            '403 Forbidden: pods is forbidden: violates PodSecurity "restricted:latest"',
        ),
        (
            refused(
                403, "Forbidden", f'{FORBIDDEN}error looking up service account team/x: serviceaccount "x" not found'
            ),
            403,
            "403 Forbidden: pods is forbidden: error looking up service account",
        ),
        (refused(422, "Invalid", 'Pod "muster-trial" is invalid: spec: odd'), 503, "422 Invalid: Pod is invalid: spec"),
        (refused(422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request: no"), 403, "denied request: no"),
        (refused(400, "BadRequest", 'admission webhook "w" denied the request: no'), 403, "denied the request: no"),
        (refused(403, "Standby", "another replica leads"), 503, ""),
        (refused(403, "Forbidden", f"{FORBIDDEN}exceeded quota: q, requested: pods=1"), 429, "exceeded quota"),
        (refused(403, "Forbidden", f"{FORBIDDEN}status unknown for quota: q, resources: pods"), 429, "status unknown"),
        (refused(403, "Forbidden", f"{FORBIDDEN}failed quota: q: must specify limits.cpu"), 403, "failed quota"),
        (refused(500, "", WHITELIST), 403, WHITELIST),
        (refused(500, "", "namespace tolerations and pod tolerations conflict"), 403, "tolerations conflict"),
        (refused(403, "Forbidden", f"pods is forbidden: {ACCOUNT_TEXT}"), 412, ""),
        (refused(403, "Forbidden", f"pods is forbidden: {ACCOUNT_TEXT.replace('create', 'patch')}"), 412, ""),
        (refused(409, "Conflict", "Apply failed with 1 conflict"), 403, "there is a pod muster-trial"),
        (refused(422, "Invalid", 'Pod "muster-trial" is invalid: pod updates may not change fields'), 403, "a pod"),
        (Answer(200, {"metadata": {"name": NAME, "resourceVersion": "7"}}), 403, "there is a pod muster-trial"),
        (refused(403, "Forbidden", 'serviceaccounts "muster-trials" is forbidden: cannot impersonate it'), 412, ""),
        (refused(400, "BadRequest", 'admission webhook "w" does not support dry run'), 503, ""),
        (refused(500, "InternalError", "Internal error occurred: failed calling webhook"), 429, "failed calling"),
        (refused(500, "InternalError", "etcdserver: request timed out"), 503, ""),
        (refused(429, "TooManyRequests", "later"), 503, ""),
        (Answer(cut=True), 503, ""),
        (Answer(201, {"metadata": {}}), 503, ""),
    ],
)
def test_what_each_answer_means(answer: Answer, status: int, detail: str) -> None:
    response, *_ = tried(answer=answer)
    assert response.status == status
    assert detail in response.detail


def test_a_job_that_was_made_anew_says_nothing_of_its_pods() -> None:
    other = stored(MANIFEST)
    other["metadata"]["uid"] = "another"
    response, api, _ = tried(obj=other)
    assert response.status == 404
    assert "PATCH" not in [request.method for request in api.asked]


def test_what_a_trial_meets_is_no_outage_of_the_api_server() -> None:
    """Otherwise evictions would stop for a while."""
    *_, away = tried(answer=refused(500, "InternalError", "etcdserver: request timed out"))
    assert not away


def test_a_template_that_cannot_be_sent_says_nothing() -> None:
    odd = stored(MANIFEST)
    odd["spec"]["template"]["metadata"]["annotations"]["note"] = "\ud800"
    assert tried(obj=odd)[0].status in (404, 503)


def test_a_template_that_was_read_is_not_asked_for_again() -> None:
    async def scenario() -> tuple[Response, FakeApi]:
        async with fake_api() as (api, kube):
            trial, reader = Trial(api), Reader()
            job = reader.read(JOB, trial.obj)
            trial.serve()
            effect = TryPod(job, "", job.podsets.podsets[0].shape)
            return await PodTrials(kube, reader).send(effect, 2.0), api

    response, api = asyncio.run(scenario())
    assert response.pod is not None
    assert [request.path for request in api.asked if "jobs" in request.path] == []
    [patch] = [request for request in api.asked if request.method == "PATCH"]
    [before] = [request for request in tried()[1].asked if request.method == "PATCH"]
    assert patch.body == before.body


def test_a_variable_that_is_named_twice_is_not_sent() -> None:
    twice = stored(MANIFEST)
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A"}]
    _, api, _ = tried(obj=twice)
    [patch] = [request for request in api.asked if request.method == "PATCH"]
    assert "env" not in patch.body["spec"]["containers"][0]
