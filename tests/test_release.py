"""`muster release`: waiting objects become what their author wrote, and nothing else is touched.

Sometimes it writes nothing, and it names the objects that it may not write.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from extender.kube.convert import PROTECTED_NODE
from extender.kube.kinds.change import clean, suspend
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.trainer import MANAGER, TRAIN_JOB, carried
from extender.kube.queues.protection import NODES, READ_BY
from tests.kube.fake_api import OK, Answer, refused
from tests.kube.kinds.jobs import SUSPENDED, patched, started, stored
from tests.kube.kinds.test_jobset import WORKERS
from tests.kube.kinds.test_own import MANIFEST as OCEAN
from tests.kube.kinds.test_own import SIMULATION
from tests.kube.kinds.test_own import kind as own_kind
from tests.kube.kinds.train_jobs import jobset
from tests.kube.kinds.train_jobs import started as started_train_job
from tests.kube.kinds.training_jobs import PI
from tests.releasing import BINDINGS, JOBS, PATH, PODS, Cluster, lease, listed, pod, stopped, waiting


def running() -> Object:
    return started(JOB, waiting()) | {"status": {"active": 5, "ready": 5, "startTime": "2026-01-02T03:04:05Z"}}


def test_without_yes_nothing_is_written_and_everything_is_shown(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped(), pods=(pod("a", gated=True, nominated="n1"),))
    done, api = cluster.release()
    assert done.exit_code == 0, done.output
    assert api.bodies("PATCH") == []
    shown = " ".join(done.output.split())
    assert "team Job indexed-job what Muster wrote on it comes off; stays suspended: unsuspend it yourself" in shown
    assert "team Pod a the gate muster.dev/gang comes off; its nomination to node n1 is cleared" in shown
    assert "2 objects to be changed, 0 objects to be left as they are" in shown
    assert "nothing was written; --yes does it" in shown


def test_a_job_of_a_kind_of_the_settings_goes_back_too(tmp_path: Path) -> None:
    settings = tmp_path / "muster.yaml"
    settings.write_text(json.dumps({"job_kinds": [SIMULATION]}))
    written = stored(OCEAN)
    obj = started(own_kind(), written)
    suspend(own_kind(), obj)
    cluster = Cluster(tmp_path)
    path = own_kind().path_of("team", "ocean")
    cluster.answers |= {("GET", own_kind().path): listed(obj), ("PATCH", path): OK}
    done, api = cluster.release("--yes", f"--config={settings}")
    assert done.exit_code == 0, done.output
    (patch,) = api.bodies("PATCH")
    assert patched(obj, patch)["spec"] == written["spec"]


def test_a_job_goes_back_to_how_it_was_written(tmp_path: Path) -> None:
    done, api = Cluster(tmp_path, stopped()).release("--yes")
    assert done.exit_code == 0, done.output
    (patch,) = api.bodies("PATCH")
    before = stopped()
    assert patch["metadata"].pop("resourceVersion") == before["metadata"]["resourceVersion"]
    assert patched(before, patch) == waiting() | {"status": SUSPENDED}


@pytest.mark.parametrize("cleaned", [False, True], ids=["stopped", "cleaned by Muster, which leaves empty values"])
@pytest.mark.parametrize(("kind", "manifest"), [(JOBSET, WORKERS), (MPI, PI)])
def test_no_empty_annotation_stays_where_muster_leaves_them(
    tmp_path: Path, kind: Kind, manifest: str, cleaned: bool
) -> None:
    written = stored(manifest)
    before = started(kind, written)
    suspend(kind, before)
    if cleaned:
        clean(kind, before)
    cluster = Cluster(tmp_path)
    path = kind.path_of("team", before["metadata"]["name"])
    cluster.answers |= {("GET", kind.path): listed(before | {"status": SUSPENDED}), ("PATCH", path): OK}
    done, api = cluster.release("--yes")
    assert done.exit_code == 0, done.output
    (patch,) = api.bodies("PATCH")
    assert patched(before, patch)["spec"] == written["spec"]


def test_a_trainjob_goes_back_by_its_entry(tmp_path: Path) -> None:
    before, made, _ = started_train_job()
    suspend(TRAIN_JOB, made)
    before = carried(before, made, entry=False)
    cluster = Cluster(tmp_path)
    path = TRAIN_JOB.path_of("team", "torch-ddp")
    cluster.answers |= {
        ("GET", JOBSET.path): listed(made | {"status": SUSPENDED}),
        ("GET", path): Answer(body=before),
        ("PATCH", path): OK,
    }
    done, api = cluster.release("--yes")
    assert done.exit_code == 0, done.output
    (patch,) = api.bodies("PATCH")
    assert set(patch["spec"]) == {"runtimePatches"}, "it stays suspended"
    (entry,) = (
        runtime_patch for runtime_patch in patch["spec"]["runtimePatches"] if runtime_patch["manager"] == MANAGER
    )
    (replicated,) = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert set(replicated["template"]["spec"]["template"]["metadata"]["annotations"].values()) == {""}
    assert "TrainJob torch-ddp" in " ".join(done.output.split())


def test_a_trainjob_that_waits_and_has_nothing_of_muster_is_not_written_to(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.answers["GET", JOBSET.path] = listed(jobset())
    done, api = cluster.release("--yes")
    assert (done.exit_code, api.bodies("PATCH")) == (0, [])


def test_a_job_that_waits_is_started_only_when_asked_for(tmp_path: Path) -> None:
    done, api = Cluster(tmp_path, waiting()).release("--yes")
    assert (done.exit_code, api.bodies("PATCH")) == (0, [])
    done, api = Cluster(tmp_path, waiting()).release("--yes", "--unsuspend")
    assert [body["spec"] for body in api.bodies("PATCH")] == [{"suspend": False}]
    assert "its pods ask for the scheduler muster" in done.output


@pytest.mark.parametrize(
    "job",
    [
        waiting(labels={}),
        waiting(annotations={"muster.dev/gang": "false"}),
        waiting(annotations={"muster.dev/hold": "true"}),
        waiting(annotations={"muster.dev/hold": "yes"}),
        waiting() | {"status": {"active": 2}},
        running(),
        waiting() | {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
    ],
    ids=["not ours", "left alone", "held", "nobody knows whether it is held", "stopping", "running", "finished"],
)
def test_no_other_job_is_written_to(tmp_path: Path, job: Object) -> None:
    _, api = Cluster(tmp_path, job).release("--yes", "--unsuspend")
    assert api.bodies("PATCH") == []


@pytest.mark.parametrize(
    ("plan", "ready", "said"),
    [
        (None, 1, "runs on, by the plan"),
        (None, 0, "if none has one, suspend it and run this again"),
        ("nodes are awaited until 2026-01-02T03:04:05Z, attempt 1", 0, "without a plan"),
    ],
    ids=["planned", "no pod has started", "let go"],
)
def test_a_job_that_runs_is_told_how_it_goes_on(tmp_path: Path, plan: str | None, ready: int, said: str) -> None:
    job = running()
    job["status"] = {"ready": ready}
    if plan is not None:
        job["metadata"]["annotations"]["muster.dev/plan"] = plan
    done, _ = Cluster(tmp_path, job).release("--yes")
    assert said in " ".join(done.output.split())


def test_a_job_whose_pods_have_yet_to_go_is_told(tmp_path: Path) -> None:
    done, _ = Cluster(tmp_path, stopped() | {"status": {"active": 2}}).release("--yes")
    assert done.exit_code == 1
    assert "its pods are still terminating" in done.output


def test_pods_lose_the_gate_and_the_nomination_and_nothing_else(tmp_path: Path) -> None:
    pods = (
        pod("a", gated=True),
        pod("b", nominated="n1"),
        pod("alone", nominated="n1", gang=False),
        pod("bound", nominated="n1", node="n1"),
    )
    done, api = Cluster(tmp_path, pods=pods).release("--yes")
    assert done.exit_code == 0, done.output
    patches = {request.path.rpartition("/pods/")[2]: request.body for request in api.asked if request.method == "PATCH"}
    assert set(patches) == {"a", "b/status"}
    assert patches["a"]["spec"] == {"schedulingGates": [{"name": "muster.dev/gang", "$patch": "delete"}]}
    assert patches["b/status"]["status"] == {"nominatedNodeName": ""}


@pytest.mark.parametrize("status", [SUSPENDED, {"conditions": [{"type": "Complete", "status": "True"}]}])
def test_what_a_next_start_would_have_gone_by_comes_off_a_job(tmp_path: Path, status: Object) -> None:
    stamps = {"muster.dev/evicted-at": "2026-01-02T03:04:05Z", "muster.dev/nodes-in-vain": "no nodes came by attempt 1"}
    done, api = Cluster(tmp_path, waiting(annotations={**stamps, "mine": "1"}) | {"status": status}).release("--yes")
    assert done.exit_code == 0, done.output
    assert [body["metadata"]["annotations"] for body in api.bodies("PATCH")] == [dict.fromkeys(stamps)]
    assert "what Muster wrote on it comes off" in " ".join(done.output.split())


def test_pods_that_wait_lose_what_else_muster_wrote_on_them(tmp_path: Path) -> None:
    woken, preempts, waits = pod("woken"), pod("preempts"), pod("waits")
    woken["metadata"]["labels"] = {"muster.dev/woken": "true", "mine": "1"}
    preempts["metadata"]["annotations"]["muster.dev/preempting"] = "{}"
    waits["metadata"]["annotations"]["muster.dev/reserved"] = "{}"
    done, api = Cluster(tmp_path, pods=(woken, preempts, waits)).release("--yes")
    assert done.exit_code == 0, done.output
    patches = {request.path.rpartition("/pods/")[2]: request.body for request in api.asked if request.method == "PATCH"}
    assert patches["woken/status"]["metadata"]["labels"] == {"muster.dev/woken": None}
    assert patches["preempts"]["metadata"]["annotations"] == {"muster.dev/preempting": None}
    assert patches["waits"]["metadata"]["annotations"] == {"muster.dev/reserved": None}
    assert len(patches) == 3


def test_nodes_that_are_kept_may_be_scaled_down_again(tmp_path: Path) -> None:
    scale_down, disrupt = READ_BY.values()
    marks = {"labels": {PROTECTED_NODE: "cluster-autoscaler"}, "annotations": {scale_down: "true", disrupt: "true"}}
    cluster = Cluster(tmp_path)
    cluster.answers["GET", NODES] = listed(
        {"metadata": {"name": "n1", "uid": "uid-n1", "resourceVersion": "7", **marks}}
    )
    cluster.answers["PATCH", f"{NODES}/n1"] = OK
    done, api = cluster.release("--yes")
    assert done.exit_code == 0, done.output
    (body,) = api.bodies("PATCH")
    assert (body["metadata"]["labels"], body["metadata"]["annotations"]) == ({PROTECTED_NODE: None}, {scale_down: None})
    assert body["metadata"]["resourceVersion"] == "7"
    (listing,) = [request for request in api.asked if (request.method, request.path) == ("GET", NODES)]
    assert listing.query["labelSelector"] == PROTECTED_NODE


def made(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"}}


def test_what_muster_has_made_for_jobs_is_deleted(tmp_path: Path) -> None:
    workloads, requests = "/apis/kueue.x-k8s.io/v1beta1", "/apis/autoscaling.x-k8s.io/v1"
    cluster = Cluster(tmp_path)
    cluster.answers |= {
        ("GET", f"{workloads}/workloads"): listed(made("job-train")),
        ("GET", f"{requests}/provisioningrequests"): listed(made("asks")),
        ("GET", "/api/v1/podtemplates"): listed(made("asks-0")),
        ("DELETE", f"{workloads}/namespaces/team/workloads/job-train"): OK,
        ("DELETE", f"{requests}/namespaces/team/provisioningrequests/asks"): OK,
        ("DELETE", "/api/v1/namespaces/team/podtemplates/asks-0"): refused(404, "NotFound"),
    }
    assert not cluster.release()[1].bodies("DELETE")
    done, api = cluster.release("--yes")
    assert done.exit_code == 0, done.output
    uids = [body["preconditions"]["uid"] for body in api.bodies("DELETE")]
    assert sorted(uids) == ["uid-asks", "uid-asks-0", "uid-job-train"]
    selectors = {
        request.path.rpartition("/")[2]: request.query.get("labelSelector")
        for request in api.asked
        if request.method == "GET"
    }
    assert selectors["workloads"] == "muster.dev/record=true"
    assert selectors["provisioningrequests"] == selectors["podtemplates"] == "muster.dev/capacity"


def test_what_muster_has_made_and_nobody_may_read_is_told_and_the_rest_goes_back(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped())
    cluster.answers["GET", "/apis/kueue.x-k8s.io/v1beta2/workloads"] = refused(403, "Forbidden", "you may not")
    done, api = cluster.release("--yes")
    assert done.exit_code == 1
    assert "Workload objects cannot be read: 403 Forbidden: you may not" in " ".join(done.output.split())
    assert len(api.bodies("PATCH")) == 1


def test_while_a_muster_leads_nothing_is_written(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped())
    now = datetime.now(UTC)
    cluster.leases = [lease(now), lease(now + timedelta(seconds=2))]
    done, api = cluster.release("--yes")
    assert (done.exit_code, api.bodies("PATCH")) == (2, [])
    assert "Muster is still running (muster-0_1 renews its Lease)" in done.output
    shown = cluster.release()[0]
    assert shown.exit_code == 0, "it may be looked at"
    assert "nothing was written, and --yes would be refused: Muster is still running" in shown.output
    assert "--yes does it" not in shown.output
    assert len(cluster.release("--yes", "--force")[1].bodies("PATCH")) == 1


def test_a_lease_that_nobody_renews_is_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped())
    cluster.leases = [lease(datetime.now(UTC) - timedelta(seconds=13))]
    done, api = cluster.release("--yes")
    assert done.exit_code == 0, done.output
    assert len(api.bodies("PATCH")) == 1


@pytest.mark.parametrize("policy", ["muster-gang-gate", "muster-gang-owners", "muster-jobs", "muster-job-pods"])
def test_while_a_policy_would_undo_it_nothing_is_written(tmp_path: Path, policy: str) -> None:
    cluster = Cluster(tmp_path, stopped())
    cluster.answers["GET", BINDINGS] = listed({"metadata": {"name": policy}}, {"metadata": {"name": "other"}})
    done, api = cluster.release("--yes")
    assert (done.exit_code, api.bodies("PATCH")) == (2, [])
    assert f"admission policies of Muster are in force: {policy}" in done.output


def test_a_refused_write_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped(), pods=(pod("a", gated=True),))
    cluster.answers["PATCH", PATH] = refused(403, "Forbidden", "you may not")
    done, api = cluster.release("--yes", "-o", "json")
    assert done.exit_code == 1
    job, gated_pod = json.loads(done.stdout)["objects"]
    assert "you may not" in job["failed"]
    assert "failed" not in gated_pod
    assert len(api.bodies("PATCH")) == 2


@pytest.mark.parametrize("path", [JOBS, PODS, NODES])
def test_a_kind_that_may_not_be_listed_is_told_and_the_others_go_on(tmp_path: Path, path: str) -> None:
    cluster = Cluster(tmp_path, stopped(), pods=(pod("a", gated=True),))
    cluster.answers["GET", path] = refused(403, "Forbidden", "you may not list these")
    done, api = cluster.release("--yes")
    assert done.exit_code == 1
    output = " ".join(done.output.split())
    assert f"left alone, cannot be read: all {path.rpartition('/')[2]}: 403 Forbidden: you may not list these" in output
    assert len(api.bodies("PATCH")) == (2 if path == NODES else 1)


def test_a_cluster_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.answers["GET", JOBS] = refused(401, "Unauthorized", "who are you?")
    done, _ = cluster.release()
    assert done.exit_code == 2
    assert "who are you?" in done.output
