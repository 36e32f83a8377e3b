"""`muster hold`, `resume`, `requeue` and `evict`: their writes, and the refusals with nothing written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from extender.cli.main import main
from extender.core.engine import Engine
from extender.core.events import JobSeen
from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Object
from extender.kube.kinds.read import Reader
from policies.model import GroupKey
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused
from tests.kube.kinds.jobs import started
from tests.kube.test_tokens import kubeconfig
from tests.releasing import PATH, listed, pod, waiting

JOBS, PODS = "/apis/batch/v1/namespaces/team/jobs", "/api/v1/namespaces/team/pods"
BUDGETS = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
NAME = "job/indexed-job"
MESSAGE = (
    'jobs.batch "indexed-job" is forbidden: User "ann" cannot patch resource "jobs" in API group "batch" in the '
    'namespace "team"'
)
FORBIDDEN = refused(403, "Forbidden", MESSAGE)


def job(*, held: bool = False, runs: bool = False, labels: Mapping[str, str] | None = None) -> Object:
    made = waiting(labels={"muster.dev/gang": "true", **(labels or {})})
    if runs:
        made = started(JOB, made) | {"status": {"active": 5, "ready": 5, "startTime": "2026-01-02T03:04:05Z"}}
    if held:
        made["metadata"].setdefault("annotations", {})["muster.dev/hold"] = "true"
    return made


def member(number: int, *, node: str = "n1", controller: tuple[str, str, str] | None = None, **labels: str) -> Object:
    made = pod(f"train-{number}", node=node)
    made["status"] = {"phase": "Running" if node else "Pending"}
    made["metadata"]["labels"] = labels
    if controller is not None:
        version, kind, name = controller
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
        ]
    return made


def child() -> Object:
    """A pod of the job."""
    made = member(0, controller=("batch/v1", "Job", "indexed-job"))
    made["metadata"]["annotations"] = {"muster.dev/pod-group": "job-indexed-job", "muster.dev/min-member": "5"}
    return made


def budget(name: str, allowed: int) -> Object:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    return {
        "metadata": meta, "spec": {"selector": {"matchLabels": {"app": "train"}}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }  # fmt: skip


SET = ("apps/v1", "StatefulSet", "train")


class Cluster:
    """The objects of an API server, and a command on it."""

    def __init__(self, tmp_path: Path, *jobs: Object, pods: tuple[Object, ...] = (), budgets: tuple[Object, ...] = ()):
        self._kubeconfig = tmp_path / "config"
        self.answers: dict[tuple[str, str], tuple[Answer, ...]] = {
            ("GET", JOBS): (listed(*jobs),), ("GET", PODS): (listed(*pods),), ("GET", BUDGETS): (listed(*budgets),),
            ("GET", "/version"): (OK,), ("PATCH", PATH): (OK,),
            ("GET", "/apis/kueue.x-k8s.io/v1beta1/namespaces/team/localqueues/b"): (OK,),
        }  # fmt: skip
        for victim in pods:
            self.answers["POST", f"{PODS}/{victim['metadata']['name']}/eviction"] = (OK,)

    def run(self, *argv: str) -> tuple[Result, FakeApi]:
        async def scenario() -> tuple[Result, FakeApi]:
            async with fake_api() as (api, _):
                for (method, path), answers in self.answers.items():
                    api.on(method, path, *answers)
                args = [*argv, "-n", "team", f"--kubeconfig={kubeconfig(self._kubeconfig, api.url, {})}"]
                return await asyncio.to_thread(CliRunner().invoke, main, args), api

        return asyncio.run(scenario())


def written(api: FakeApi) -> list[Any]:
    """Every write that was no dry run."""
    return [
        request.body
        for request in api.asked
        if request.method in ("PATCH", "POST")
        and "dryRun" not in request.query
        and "dryRun" not in (request.body or {}).get("deleteOptions", {})
    ]


@pytest.mark.parametrize(
    "typed", [NAME, "indexed-job", "job-indexed-job", "jobs.batch/indexed-job", "team/job-indexed-job"]
)
def test_a_job_is_held_by_any_of_its_names(tmp_path: Path, typed: str) -> None:
    before = job()
    done, api = Cluster(tmp_path, before).run("hold", typed)
    assert done.exit_code == 0, done.output
    (patch,) = written(api)
    seen = {key: before["metadata"][key] for key in ("uid", "resourceVersion")}
    assert patch == {"metadata": {"annotations": {"muster.dev/hold": "true"}, **seen}}
    assert f"team: {NAME} is held" in done.output
    assert f"it stays suspended until: muster resume {NAME} -n team" in done.output


def test_a_job_is_held_by_one_of_its_pods(tmp_path: Path) -> None:
    made = started(JOB, job())
    done, api = Cluster(tmp_path, made, pods=(child(),)).run("hold", "pod/train-0")
    assert (done.exit_code, len(written(api))) == (0, 1), done.output
    assert "it runs on, and is not started again once it has stopped" in done.output


def test_of_two_jobs_that_name_one_gang_the_right_one_is_held(tmp_path: Path) -> None:
    indexed, other = job(), job()
    for made, name in ((indexed, "indexed-job"), (other, "other")):
        made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        made["spec"]["template"].setdefault("metadata", {})["annotations"] = {"muster.dev/pod-group": "shared"}
    done, api = Cluster(tmp_path, other, indexed).run("hold", NAME)
    assert (done.exit_code, [request.path for request in api.asked if request.method == "PATCH"]) == (0, [PATH]), (
        done.output
    )
    done, _ = Cluster(tmp_path, other, indexed).run("hold", "shared")
    assert (
        "shared may mean 2 workloads; say which: team/shared (job/other), team/shared (job/indexed-job)" in done.output
    )


def test_a_hold_ends_wherever_it_is_said(tmp_path: Path) -> None:
    done, api = Cluster(tmp_path, job(held=True, labels={"muster.dev/hold": "true"})).run("resume", NAME)
    assert done.exit_code == 0, done.output
    (patch,) = written(api)
    assert patch["metadata"]["labels"] == {"muster.dev/hold": None}
    assert patch["metadata"]["annotations"] in ({"muster.dev/hold": None}, None)
    assert "it waits for its turn" in done.output


def test_a_job_that_runs_is_suspended_and_none_of_its_pods_is_touched(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, job(runs=True), pods=(child(),))
    tried, api = cluster.run("evict", NAME, "--dry-run")
    assert (tried.exit_code, written(api)) == (0, []), tried.output
    assert f"team: {NAME} is suspended" in tried.output
    assert "nothing was written: this was a dry run" in tried.output
    assert [request.query for request in api.asked if request.method == "PATCH"] == [{"dryRun": "All"}]
    done, api = cluster.run("evict", NAME)
    assert done.exit_code == 0, done.output
    (patch,) = written(api)
    assert patch["spec"] == {"suspend": True}
    assert "annotations" not in patch["metadata"]
    held, api = cluster.run("evict", NAME, "--hold", "-o", "json")
    (patch,) = written(api)
    assert (patch["spec"], patch["metadata"]["annotations"]["muster.dev/hold"]) == ({"suspend": True}, "true")
    assert json.loads(held.stdout)["changes"] == [{"object": NAME, "says": "is suspended and held"}]


def test_a_job_goes_back_to_the_line(tmp_path: Path) -> None:
    done, api = Cluster(tmp_path, job(runs=True, held=True)).run("requeue", NAME)
    assert done.exit_code == 0, done.output
    (patch,) = written(api)
    assert patch["spec"] == {"suspend": True}
    assert patch["metadata"]["annotations"].keys() == {"muster.dev/hold", "muster.dev/requeued-at"}
    done, api = Cluster(tmp_path, job(labels={"muster.dev/queue-name": "a"})).run("requeue", NAME, "--queue", "b")
    (patch,) = written(api)
    assert patch["metadata"]["labels"] == {"muster.dev/queue-name": "b"}
    assert "waits in the queue b, is tried again at once" in done.output


def test_what_a_requeued_job_has_failed_at_is_forgotten() -> None:
    core, at = Engine(), iter(range(1, 9))

    def shown(requeued: str) -> None:
        obj = job()
        obj["metadata"].setdefault("annotations", {})["muster.dev/requeued-at"] = requeued
        core.handle(JobSeen(Reader().read(JOB, obj)), float(next(at)))

    shown("")
    retries = core.state.workloads[GroupKey("team", "job-indexed-job")].retries
    retries.fail(1.0, 30.0)
    retries.refusals = 9
    shown("")
    assert (retries.failures, retries.refusals, retries.not_before > 0) == (1, 9, True)
    shown("2026-01-02T03:04:05Z")
    assert (retries.failures, retries.refusals, retries.not_before) == (0, 0, 0.0)


def test_a_gang_of_pods_is_evicted_whole(tmp_path: Path) -> None:
    pods = tuple(member(at, controller=SET, app="train") for at in range(3))
    done, api = Cluster(tmp_path, pods=pods, budgets=(budget("pdb", 3),)).run("evict", "statefulset/train")
    assert done.exit_code == 0, done.output
    assert [body["metadata"]["name"] for body in written(api)] == ["train-0", "train-1", "train-2"]
    assert all(
        body["deleteOptions"] == {"preconditions": {"uid": f"uid-train-{at}"}} for at, body in enumerate(written(api))
    )
    assert len(api.bodies("POST")) == 6, "each is tried by a dry run first"
    assert "team: pod/train-1 is evicted from n1" in done.output


def test_pods_that_nobody_makes_again_are_named(tmp_path: Path) -> None:
    done, _ = Cluster(tmp_path, pods=(member(0), member(1))).run("evict", "train", "--dry-run")
    assert "no controller makes these pods again, so they are gone for good: train-0, train-1" in done.output


def test_a_gang_that_changes_under_the_command_is_told(tmp_path: Path) -> None:
    pods = tuple(member(at, controller=SET) for at in range(2))
    cluster = Cluster(tmp_path, pods=pods)
    cluster.answers["POST", f"{PODS}/train-1/eviction"] = (OK, refused(429, "TooManyRequests"))
    done, _ = cluster.run("evict", "train")
    assert done.exit_code == 1
    assert "failed: a PodDisruptionBudget does not let pod/train-1 go now" in done.output
    assert "1 object changed, 1 object not: run this again for the rest" in done.output


@pytest.mark.parametrize(
    ("given", "argv", "words"),
    [
        ({"jobs": [job(held=True)]}, ["hold", NAME], f"{NAME} is held already: muster resume {NAME} -n team"),
        ({"jobs": [job()]}, ["resume", NAME], f"{NAME} is not held: it is suspended, and waits for its turn"),
        ({"jobs": [job(runs=True)]}, ["resume", NAME], f"{NAME} is not held: it runs"),
        ({"jobs": [job()]}, ["evict", NAME], f"{NAME} does not run: it is suspended already"),
        ({"jobs": [job()]}, ["hold", "job/indexed-jab"], "did you mean team/job-indexed-job (job/indexed-job)?"),
        ({}, ["hold", "nothing"], "there is no gang, job or pod nothing in namespace team"),
        ({"jobs": [waiting(labels={})]}, ["evict", NAME], f"Muster does not admit {NAME}: it names no queue"),
        (
            {"jobs": [job(runs=True)], "answers": {("PATCH", PATH): (FORBIDDEN,)}}, ["evict", NAME],
            "you lack the right to patch jobs.batch in namespace team (docs/acting.md",
        ),
        (
            {"jobs": [job()], "answers": {("PATCH", PATH): (FORBIDDEN,)}}, ["hold", NAME, "--dry-run"],
            "you lack the right to patch jobs.batch in namespace team",
        ),
        (
            {"answers": {("GET", JOBS): (refused(403, "Forbidden", MESSAGE.replace("patch", "list")),)}},
            ["hold", NAME], "you lack the right to list jobs.batch in namespace team",
        ),
        ({"jobs": [job()], "answers": {("PATCH", PATH): (refused(409),)}}, ["hold", NAME], "has changed meanwhile"),
        ({"pods": [member(0, controller=SET)]}, ["hold", "train"], "only a job that Muster admits as a whole can be"),
        ({"pods": [member(0, node="")]}, ["evict", "train"], "none of its pods has a node"),
        (
            {"pods": [member(0, controller=("batch/v1", "Job", "own"))]}, ["evict", "train"],
            "job/own makes the pods of team/train, and counts each pod that is evicted as a failure",
        ),
        (
            {"pods": [member(0, app="train"), member(1, app="train")], "budgets": [budget("pdb", 1)]},
            ["evict", "train"],
            "not all of its pods may go: train-1 (PodDisruptionBudget team/pdb lets no more pods go)",
        ),
        (
            {"pods": [member(0, app="train")], "budgets": [budget("a", 9), budget("b", 9)]}, ["evict", "train"],
            "train-0 (it is in several PodDisruptionBudgets: team/a, team/b)",
        ),
        (
            {
                "pods": [member(0)],
                "answers": {("POST", f"{PODS}/train-0/eviction"): (refused(429, "TooManyRequests"),)},
            },
            ["evict", "train"], "a PodDisruptionBudget does not let pod/train-0 go now",
        ),
        ({"jobs": [job()]}, ["requeue", NAME, "--queue", "c"], "there is no LocalQueue c in namespace team"),
        ({"jobs": [job(runs=True)]}, ["requeue", NAME, "--queue", "b"], "runs, and uses the quota of its queue"),
        ({"jobs": [job(labels={"muster.dev/queue-name": "a"})]}, ["requeue", NAME, "--queue", "a"], "in the queue a"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_nothing_written(
    tmp_path: Path, given: dict[str, Any], argv: list[str], words: str
) -> None:
    cluster = Cluster(
        tmp_path, *given.get("jobs", ()), pods=tuple(given.get("pods", ())), budgets=tuple(given.get("budgets", ()))
    )
    cluster.answers |= given.get("answers", {})
    done, api = cluster.run(*argv)
    assert (done.exit_code, words in done.output) == (2, True), done.output
    assert "Traceback" not in done.output
    refusing = any(method in ("PATCH", "POST") for method, _ in given.get("answers", {}))
    assert refusing or written(api) == []


def test_a_part_of_a_job_leads_to_the_job(tmp_path: Path) -> None:
    owned = job()
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "big", "uid": "u", "controller": True}
    ]
    done, _ = Cluster(tmp_path, owned).run("hold", NAME)
    assert (done.exit_code, f"{NAME} is a part of jobset/big, which is admitted as a whole" in done.output) == (2, True)
