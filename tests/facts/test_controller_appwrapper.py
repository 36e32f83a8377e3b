"""AppWrapper v1.2.2, with its webhooks"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.controllers import start_controller
from tests.facts.fact import fact
from tests.facts.kinds import NODES, PLAN, Kind, finish, is_running, plans_of, pod_template
from tests.facts.place import conditions, paused

FIRST, SECOND = NODES[:2]
GROUP = "/apis/workload.codeflare.dev/v1beta2"
JOBS = ("/apis/batch/v1", "jobs")
SUSPEND = {"spec": {"suspend": True}}
START = {"spec": {"suspend": False}}
LABEL = "workload.codeflare.dev/appwrapper"


@pytest.fixture(scope="module")
def kind(cluster: Cluster, scheduler: object) -> Iterator[Kind]:
    start_controller(cluster, "appwrapper")
    yield Kind(cluster, GROUP, "appwrappers")
    finish(cluster, "appwrapper")


def job(grace_s: int = 0, backoff: int = 0, **pod: Any) -> Object:
    """A component: an Indexed Job of two pods."""
    template = pod_template(grace_s=grace_s)
    template["spec"] |= pod
    spec = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": backoff,
        "template": template,
    }
    return {"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": spec}}


def pod(**metadata: Any) -> Object:
    """A component: one pod."""
    spec = pod_template()["spec"]
    return {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", **metadata}, "spec": spec}}


def wrapper(name: str, *components: Object, annotations: Object | None = None) -> Object:
    """Suspended."""
    meta = {"name": name, "annotations": annotations or {}}
    header = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": meta}
    return {**header, "spec": {"suspend": True, "components": [*components]}}


def phase(obj: Object) -> str:
    return str(obj.get("status", {}).get("phase", ""))


def planned(*components: Object, node: str = FIRST, **info: Any) -> Object:
    """The PATCH that unsuspends it with an annotation for the pods of each component."""
    infos = [{"annotations": {PLAN: node}, **info}]
    return {"spec": {"suspend": False, "components": [{**component, "podSetInfos": infos} for component in components]}}


def running(kind: Kind, name: str, *components: Object, pods: int = 2, **annotations: str) -> list[Object]:
    prefixed = {f"workload.codeflare.dev.appwrapper/{key}": value for key, value in annotations.items()}
    kind.create(wrapper(name, *components, annotations=prefixed))
    kind.patch(name, planned(*components))
    members = kind.until_pods(pods, is_running)
    kind.until_own(name, lambda obj: phase(obj) == "Running")
    return members


@fact(
    "appwrapper.slots",
    "An AppWrapper of a Job and a pod is created with `spec.suspend: true`, and unsuspended.",
    result="Suspended: `status.phase: Suspended`, no component and no condition; its podsets, inferred, are in "
    "`status.componentStatus[].podSets` with their paths. Unsuspended: the components are created, each owned by the "
    "AppWrapper, and their pods have the label `workload.codeflare.dev/appwrapper`. No pod says its podset or its "
    "component; the number of a Job's pod is its completion index.",
    consequence="Muster tells the podsets apart by an annotation of its own, and the slots by the labels of the "
    "component's kind.",
    slow=True,
)
def test_slots(kind: Kind) -> None:
    kind.create(wrapper("slots", job(), pod()))
    suspended = kind.until_own("slots", lambda obj: phase(obj) == "Suspended")
    assert not conditions(suspended)
    podsets = [component["podSets"] for component in suspended["status"]["componentStatus"]]
    assert [[(podset["path"], podset["replicas"]) for podset in sets] for sets in podsets] == [
        [("template.spec.template", 2)],
        [("template", 1)],
    ]
    assert not kind.list_of(*JOBS)
    assert not kind.pods()
    kind.patch("slots", START)
    pods = kind.until_pods(3)
    assert {member["metadata"]["labels"][LABEL] for member in pods} == {"slots"}
    (made,) = kind.list_of(*JOBS)
    for owned in (made, next(member for member in pods if member["metadata"]["name"] == "alone")):
        (owner,) = owned["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("AppWrapper", "slots", True)
    indexes = [member["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index") for member in pods]
    assert sorted(map(str, indexes)) == ["0", "1", "None"]


@fact(
    "appwrapper.unsuspend",
    "One PATCH unsuspends an AppWrapper, at once after its creation or later, and writes annotations, labels, a node "
    "selector and a scheduling gate into `podSetInfos` of its component.",
    result="Accepted. Every pod carries the four. `podSetInfos` has no field for node affinity or a scheduler's name: "
    "they are dropped.",
    consequence="An AppWrapper is admitted by one PATCH, with the plan as an annotation: its pods are pinned by the "
    "policy, or gated. The scheduler's name is the policy's, too.",
    slow=True,
)
@pytest.mark.parametrize("at_once", [False, True])
def test_annotations_reach_every_pod(kind: Kind, at_once: bool) -> None:
    kind.create(wrapper("written", job()))
    if not at_once:
        kind.until_own("written", lambda obj: phase(obj) == "Suspended")
    known: Any = {"labels": {"a": "b"}, "nodeSelector": {"disk": "fast"}, "schedulingGates": [{"name": "a.b/gate"}]}
    patched = kind.patch("written", planned(job(), **known, affinity={"nodeAffinity": {}}, schedulerName="muster"))
    (component,) = patched["spec"]["components"]
    assert component["podSetInfos"] == [{"annotations": {PLAN: FIRST}} | known]
    pods = kind.until_pods(2)
    assert plans_of(pods) == {FIRST}
    for member in pods:
        assert member["metadata"]["labels"]["a"] == "b"
        assert {name: member["spec"][name] for name in ("nodeSelector", "schedulingGates")} == {
            name: known[name] for name in ("nodeSelector", "schedulingGates")
        }


@fact(
    "appwrapper.template",
    "The template of a component is changed while its AppWrapper is suspended; a component is added; and an annotation "
    "is written into `podSetInfos` that the template has with another value.",
    result="The template and the number of components are immutable, 403, suspended or not. The annotation is "
    "accepted, and the AppWrapper is Failed permanently when it starts: conflict updating annotations.",
    consequence="Muster writes `podSetInfos` alone, and no key that a template has with another value.",
    slow=True,
)
def test_templates_are_immutable(kind: Kind) -> None:
    kind.create(wrapper("frozen", job()))
    for components in ([job(schedulerName="muster")], [job(), pod()]):
        with pytest.raises(ApiError) as refused:
            kind.patch("frozen", {"spec": {"components": components}})
        assert refused.value.code == 403
    marked = pod(annotations={PLAN: SECOND})
    kind.create(wrapper("conflict", marked))
    kind.patch("conflict", planned(marked))
    failed = kind.until_own("conflict", lambda obj: phase(obj) == "Failed")
    assert conditions(failed)["Unhealthy"] == "True"
    assert not kind.pods()


@fact(
    "appwrapper.running",
    "`podSetInfos` of a running AppWrapper get another plan; then a pod of its Job is deleted.",
    result="Accepted. The pods stay; the Job's replacement has the old plan, which the component was made with.",
    consequence="A running AppWrapper keeps its plan. A lost slot needs a suspension, or a gate.",
    slow=True,
)
def test_a_running_one_keeps_its_plan(kind: Kind) -> None:
    component = job(backoff=6)
    (first, second) = running(kind, "changed", component)
    kind.patch("changed", planned(component, node=SECOND))
    kind.remove(first)
    pods = kind.until_pods(2, lambda member: member["metadata"]["uid"] != first["metadata"]["uid"])
    assert second["metadata"]["uid"] in {member["metadata"]["uid"] for member in pods}
    assert plans_of(pods) == {FIRST}


@fact(
    "appwrapper.suspend-again",
    "A running AppWrapper is suspended while its pods terminate, its `podSetInfos` are taken off, and it is "
    "unsuspended with another plan.",
    result="`status.phase: Suspending` until its components and all of its pods are gone, then Suspended. The "
    "components are made again with the new plan alone; nothing counts as a retry.",
    consequence="Suspended says that the room is free. An AppWrapper is planned again by suspension, and its manifest "
    "is given back as it was written.",
    slow=True,
)
def test_suspended_again(kind: Kind) -> None:
    running(kind, "again", job(grace_s=30))
    with paused(kind.cluster, "kwok"):
        kind.patch("again", SUSPEND)
        kind.until_own("again", lambda obj: phase(obj) == "Suspending")
        kind.until("/api/v1", "pods", lambda pods: all("deletionTimestamp" in member["metadata"] for member in pods))
        assert len(kind.pods()) == 2
        assert phase(kind.get(GROUP, "appwrappers", "again")) == "Suspending"
    stopped = kind.until_own("again", lambda obj: phase(obj) == "Suspended")
    assert not kind.pods()
    assert not stopped["status"].get("resettingCount")
    kind.patch("again", {"spec": {"components": [job(grace_s=30)]}})
    kind.patch("again", planned(job(grace_s=30), node=SECOND))
    assert plans_of(kind.until_pods(2)) == {SECOND}


@fact(
    "appwrapper.retry",
    "The Job in a running AppWrapper fails.",
    result="`status.phase: Resetting`: its components are deleted and, after a pause (90 s by default), made "
    "again. It is not suspended by that. After `retryLimit` times it is Failed.",
    consequence="A retry keeps the plan, and its slots are filled again after the pause, unless Muster has started it "
    "over meanwhile.",
    slow=True,
    for_users=True,
)
def test_retried(kind: Kind) -> None:
    first, _ = running(kind, "retried", job(), retryPausePeriodDuration="1s", retryLimit="1")
    kind.fail(first)
    reset = kind.until_own("retried", lambda obj: obj["status"].get("resettingCount") == 1)
    assert not reset["spec"].get("suspend")
    again = kind.until_pods(
        2, lambda member: member["metadata"]["uid"] != first["metadata"]["uid"] and is_running(member)
    )
    assert plans_of(again) == {FIRST}
    kind.until_own("retried", lambda obj: phase(obj) == "Running")
    kind.fail(again[0])
    kind.until_own("retried", lambda obj: phase(obj) == "Failed")


@fact(
    "appwrapper.finished",
    "The pods of an AppWrapper succeed.",
    result="`status.phase: Succeeded`, without a condition that says so alone; its components stay for a "
    "week by default.",
    consequence="Finished is the phase Succeeded or Failed; what Muster wrote comes off then.",
    slow=True,
    for_users=True,
)
def test_finished(kind: Kind) -> None:
    for member in running(kind, "done", job()):
        kind.succeed(member)
    kind.until_own("done", lambda obj: phase(obj) == "Succeeded")
    assert len(kind.list_of(*JOBS)) == 1
    cleaned = kind.patch("done", {"spec": {"components": [job()]}})
    assert "podSetInfos" not in cleaned["spec"]["components"][0]
