"""Muster reads the requests that kube-scheduler sums up, and plans each pod for the nodes where it may go.

As a gang, as a job that is planned before its pods exist, and as a single pod.
"""

from __future__ import annotations

import msgspec
import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import StartJob
from extender.core.events import JobGone, JobSeen
from extender.kube.convert import node_from, pod_from
from extender.kube.kinds.completion import Completion, RuntimeClass
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import KINDS
from extender.kube.reading.objects import NodeObject, PodObject
from extender.platforms.nodes import examples
from policies.model import Job, Node, Pod
from policies.placement.fitting import fits
from policies.placement.place import Placed, place
from tests.core.script import Script
from tests.oracle.cases import CASES, Case, Object, manifest, numbers, opened, pinned, requests_in, runtimes

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
NAMES = [f"node-{number}" for number in range(1, 23)]


def read_nodes(*, open_: bool = False) -> list[Node]:
    return [node_from(msgspec.convert(opened(node) if open_ else node, NodeObject)) for node in examples()]


def completion() -> Completion:
    return Completion(
        runtimes={name: msgspec.convert(runtime, RuntimeClass) for name, runtime in runtimes().items()}, priorities={}
    )


def pod(name: str, spec: Object, annotations: dict[str, str] | None = None) -> Pod:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": annotations or {}}
    return pod_from(msgspec.convert({"metadata": meta, "spec": spec | {"schedulerName": "muster"}}, PodObject))


def member(spec: Object, name: str = "g", size: int = 1, index: int = 0) -> Pod:
    marks = {"muster.dev/pod-group": name, "muster.dev/min-member": str(size)}
    return pod(f"{name}-{index}", spec, marks)


def job(spec: Object, count: int = 1) -> Job:
    """A suspended Job of that template, as Muster reads it."""
    template = {"spec": spec | {"restartPolicy": "Never"}}
    body = {"suspend": True, "completionMode": "Indexed", "completions": count, "parallelism": count}
    return read({"apiVersion": "batch/v1", "kind": "Job", "spec": body | {"template": template}}, "j")


def read(obj: Object, name: str) -> Job:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": "2026-11-20T08:00:00Z"}
    labels = {"muster.dev/gang": "true"}
    kind = next((kind for kind in KINDS if (kind.version, kind.name) == (obj["apiVersion"], obj["kind"])), JOB)
    return Reader(("muster", "default-scheduler"), completion()).read(
        kind, obj | {"metadata": meta | {"labels": labels}}
    )


def planned_for_job(script: Script, seen: Job) -> list[str]:
    """The nodes that the job is started with; it is gone again afterwards."""
    assert not seen.problem
    script.feed(JobSeen(seen))
    script.advance(0.2)
    starts = [effect for effect in script.effects if isinstance(effect, StartJob)]
    script.effects.clear()
    if starts:
        script.feed(JobWritten(seen.key, seen.uid, Outcome.DONE))
    script.feed(JobGone(seen.key, seen.uid))
    script.advance(0.2)
    return [node for start in starts for planned in start.plan.values() for node in planned]


def planned_for_gang(script: Script, pods: list[Pod]) -> list[str]:
    script.see(*pods)
    planned = [node for waiting in pods if (node := script.planned(waiting))]
    script.gone(*pods)
    return planned


@pytest.fixture(scope="module", params=["amounts", "scheduler"])
def columns(request: pytest.FixtureRequest) -> tuple[str, Script]:
    """The column of the table, and the core on 22 nodes: without taints and cordons for the amounts."""
    column: str = request.param
    return column, Script(*read_nodes(open_=column == "amounts"), checked=1000)


@each_case
def test_the_requests_of_a_pod_are_what_kube_scheduler_sums_up(case: Case) -> None:
    assert dict(pod("p", case.stored()).requests) == requests_in(case.asks)


@each_case
def test_the_requests_of_a_template_are_those_of_its_pods(case: Case) -> None:
    """The RuntimeClass is read, what a controller adds is known, and limits stand for requests."""
    obj = manifest(case.manifest)[0]
    if case.path and obj["kind"] in {kind.name for kind in KINDS}:
        seen = read(obj | {"spec": obj["spec"] | {"suspend": True}}, "whole")
        assert not seen.problem
        assert requests_in(case.asks) in [dict(podset.template.requests) for podset in seen.podsets.podsets]
    else:
        (podset,) = job(case.template()).podsets.podsets
        assert dict(podset.template.requests) == requests_in(case.asks)


@each_case
def test_a_gang_is_planned_for_the_nodes_that_kube_scheduler_allows(case: Case, columns: tuple[str, Script]) -> None:
    column, script = columns
    allowed = [name for name in NAMES if planned_for_gang(script, [member(pinned(case.stored(), name))]) == [name]]
    assert allowed == numbers(getattr(case, column))


@each_case
def test_a_job_is_planned_for_the_nodes_that_its_pods_will_get(case: Case, columns: tuple[str, Script]) -> None:
    column, script = columns
    allowed = [name for name in NAMES if planned_for_job(script, job(pinned(case.written(), name))) == [name]]
    assert allowed == numbers(getattr(case, column))


@each_case
def test_a_pod_of_no_gang_has_room_where_kube_scheduler_binds_it(case: Case, columns: tuple[str, Script]) -> None:
    column, script = columns
    alone, view = pod("alone", case.stored()), script.core.state.claims.snapshot()
    allowed = [name for name in NAMES if fits({alone.uid: name}, [alone], view)]
    assert allowed == numbers(getattr(case, column))
    result = place([alone], 1, view)
    assert (next(iter(result.nodes.values())) in allowed) if isinstance(result, Placed) else not allowed
    script.see(alone)
    assert set(script.filter(alone)) == set(NAMES), "nothing is kept from a pod while no gang waits"
    script.gone(alone)
