"""The development cluster keeps its promises: it schedules and runs pods, and it leaves nothing behind."""

import os
import selectors
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devcluster import ApiError, Cluster, ClusterError, binaries

# The first start on a machine builds the programs, which takes minutes.
pytestmark = pytest.mark.timeout(1800)

PODS = "/api/v1/namespaces/default/pods"
GONE_WITHIN_S = 20.0

CREATOR = """
from devcluster import Cluster
with Cluster() as cluster:
    cluster.start_scheduler()
    print(cluster.directory, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


@pytest.fixture
def creator() -> Iterator[subprocess.Popen[str]]:
    """A process of its own that has a cluster, and which the test may kill."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CREATOR], stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def pod(name: str, gpus: int) -> dict[str, Any]:
    container = {"name": "work", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def in_phase(phase: str) -> Any:
    return lambda seen: seen is not None and seen["status"]["phase"] == phase


def test_nodes_are_ready_with_the_resources_asked_for(cluster: Cluster) -> None:
    names = cluster.add_nodes(20, prefix="shape", gpus=4, cpu="32", labels=lambda i: {"rack": f"r{i // 10}"})

    rack = cluster.api.list("/api/v1/nodes", labelSelector="rack=r1")
    assert [node["metadata"]["name"] for node in rack] == sorted(names[10:])
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in rack} == {"4"}
    assert {node["status"]["allocatable"]["cpu"] for node in rack} == {"32"}
    assert " Ready " in cluster.kubectl("get", "node", "shape-0")


def test_nodes_of_a_platform_are_as_there(cluster: Cluster) -> None:
    assert cluster.add_nodes(2, platform="eks-p6e", labels={"rack": "r0"}) == ["eks-p6e-0", "eks-p6e-1"]
    node = cluster.api.get("/api/v1/nodes/eks-p6e-1")
    assert node["status"]["allocatable"]["cpu"] == "143570m"
    assert node["status"]["allocatable"]["hugepages-512Mi"] == "2Gi"
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["nvidia.com/gpu"]
    assert (node["metadata"]["labels"]["rack"], node["metadata"]["labels"]["kubernetes.io/arch"]) == ("r0", "arm64")


def test_a_pod_is_scheduled_runs_and_succeeds_once_it_is_told_for_how_long(cluster: Cluster) -> None:
    cluster.add_nodes(2, prefix="run", gpus=8)
    scheduler = cluster.start_scheduler()
    cluster.api.create(PODS, pod("worker", gpus=8))

    running = cluster.api.wait_for(f"{PODS}/worker", in_phase("Running"))
    assert running["spec"]["nodeName"].startswith("run-")
    cluster.api.patch(f"{PODS}/worker", {"metadata": {"annotations": {"devcluster.muster.dev/run-for": "0.2s"}}})
    cluster.api.wait_for(f"{PODS}/worker", in_phase("Succeeded"))
    cluster.api.delete(f"{PODS}/worker")
    cluster.api.wait_for(f"{PODS}/worker", lambda seen: seen is None)

    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}' in scheduler.metrics()
    scheduler.terminate()
    assert not scheduler.running


def test_a_pod_made_anew_at_once_under_the_name_of_a_deleted_one_stays(cluster: Cluster) -> None:
    cluster.add_nodes(1, prefix="again")
    names = [f"again-{number}" for number in range(100)]
    bound = [pod(name, gpus=0) for name in [*names, "last"]]
    for bound_pod in bound:
        bound_pod["spec"]["nodeName"] = "again-0"
    cluster.api.create_all((PODS, obj) for obj in bound)
    cluster.api.wait_for(PODS, lambda pods: sum(map(in_phase("Running"), pods)) == len(bound))

    for name in names:
        cluster.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        cluster.api.create(PODS, pod(name, gpus=0))
    # When kwok has handled this pod, it has handled all events before.
    cluster.api.delete(f"{PODS}/last")
    cluster.api.wait_for(f"{PODS}/last", lambda seen: seen is None)

    assert sorted(obj["metadata"]["name"] for obj in cluster.api.list(PODS)) == sorted(names)
    for name in names:
        cluster.api.delete(f"{PODS}/{name}")


def test_a_pod_that_is_deleted_ends_before_it_goes(cluster: Cluster) -> None:
    cluster.add_nodes(1, prefix="end")
    bound = pod("leaving", gpus=0)
    bound["spec"]["nodeName"] = "end-0"
    made = cluster.api.create(PODS, bound)
    cluster.api.wait_for(f"{PODS}/leaving", in_phase("Running"))

    seen = []
    with cluster.api.watch(PODS, made["metadata"]["resourceVersion"], 30.0) as changes:
        cluster.api.delete(f"{PODS}/leaving")
        for kind, obj in changes:
            if obj["metadata"]["uid"] != made["metadata"]["uid"]:
                continue
            ready = {
                condition["status"] for condition in obj["status"].get("conditions", ()) if condition["type"] == "Ready"
            }
            seen.append((kind, "deletionTimestamp" in obj["metadata"], obj["status"]["phase"], *ready))
            if kind == "DELETED":
                break

    # kwok deletes the object without grace then, which is one more change of it.
    assert list(dict.fromkeys(seen))[-3:] == [
        ("MODIFIED", True, "Running", "True"),
        ("MODIFIED", True, "Failed", "False"),
        ("DELETED", True, "Failed", "False"),
    ]


def test_a_token_has_the_rights_of_its_service_account_and_no_more(cluster: Cluster) -> None:
    cluster.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
    cluster.kubectl("create", "clusterrole", "read-pods", "--verb=list", "--resource=pods")
    cluster.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=read-pods", "--serviceaccount=default:reader"
    )

    written = yaml.safe_load(cluster.service_account_kubeconfig("default", "reader").read_text())
    trusted = ssl.create_default_context(cafile=written["clusters"][0]["cluster"]["certificate-authority"])
    headers = {"Authorization": f"Bearer {written['users'][0]['user']['token']}"}
    with httpx.Client(base_url=cluster.server, verify=trusted, headers=headers) as reader:
        assert reader.get(PODS).status_code == 200
        assert reader.post(PODS, json=pod("forbidden", gpus=1)).status_code == 403
        assert reader.get("/api/v1/nodes").status_code == 403


def test_what_the_api_server_and_kubectl_complain_about_reaches_the_caller(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match='pods "missing" not found') as refused:
        cluster.api.get(f"{PODS}/missing")
    assert (refused.value.code, refused.value.reason) == (404, "NotFound")
    with pytest.raises(ClusterError, match="the server doesn't have a resource type"):
        cluster.kubectl("get", "unicorns")
    with pytest.raises(ApiError, match="already exists"):
        cluster.api.create_all([("/api/v1/namespaces", {"metadata": {"name": "twice"}})] * 2)
    with pytest.raises(TimeoutError, match="missing did not become as expected"):
        cluster.api.wait_for(f"{PODS}/missing", in_phase("Running"), timeout_s=0.5)


def test_a_process_that_fails_to_start_is_reported_with_its_last_words(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"kube-scheduler ended while it started(.|\n)*no such profile field"):
        cluster.start_scheduler({"profiles": [{"no such profile field": 1}]})
    with pytest.raises(ClusterError, match="cannot start nothing"):
        cluster.start("nothing", ["/does/not/exist"])


def test_a_killed_process_is_known_to_have_ended(cluster: Cluster) -> None:
    process = cluster.start("patient", ["sh", "-c", "echo $WORD; exec sleep 1000"], {"WORD": "hello"})
    assert process.running
    assert process.kill() == -signal.SIGKILL
    assert (process.running, process.returncode) == (False, -signal.SIGKILL)
    assert process.log == cluster.directory / "logs" / "patient.log"


def test_a_folder_that_the_user_names_supplies_the_programs_it_has(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubectl").symlink_to(cluster.binary("kubectl"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    located = binaries.locate()
    assert located["kubectl"] == tmp_path / "kubectl"
    assert located["kwok"].parent != tmp_path


def test_two_clusters_side_by_side_know_nothing_of_each_other(cluster: Cluster) -> None:
    with Cluster() as other:
        other.add_nodes(1, prefix="other")
        names = {node["metadata"]["name"] for node in cluster.api.list("/api/v1/nodes")}
        assert "other-0" not in names
        assert [node["metadata"]["name"] for node in other.api.list("/api/v1/nodes")] == ["other-0"]
        assert other.server != cluster.server
    assert not other.directory.exists()
    assert cluster.api.raw("/readyz") == "ok"


def test_nothing_is_left_when_the_creator_is_killed(creator: subprocess.Popen[str]) -> None:
    directory, family = started_by(creator)
    creator.kill()
    assert_gone(family)
    assert not directory.exists()


def test_no_process_is_left_when_the_supervisor_is_killed(creator: subprocess.Popen[str]) -> None:
    directory, family = started_by(creator)
    assert creator.stdin is not None
    supervisor = next(iter(family))  # the creator's only child
    os.kill(supervisor, signal.SIGKILL)
    assert_gone(family)
    creator.stdin.write("\n")  # leave the `with` block: the rest that the supervisor could not delete is deleted now
    creator.stdin.flush()
    assert creator.wait(GONE_WITHIN_S) == 0
    assert not directory.exists()


def started_by(creator: subprocess.Popen[str]) -> tuple[Path, dict[int, int]]:
    """The cluster's directory, and a pidfd of every process below the creator, parents first."""
    assert creator.stdout is not None
    directory = Path(creator.stdout.readline().strip())
    assert directory.is_dir()
    family = {pid: os.pidfd_open(pid) for pid in descendants(creator.pid)}
    assert len(family) == 6, "the supervisor, etcd, three of Kubernetes, kwok"
    return directory, family


def descendants(pid: int) -> Iterator[int]:
    # Threads start children too, so every task of the process is looked at.
    for children in sorted(Path(f"/proc/{pid}/task").glob("*/children")):
        for child in map(int, children.read_text().split()):
            yield child
            yield from descendants(child)


def assert_gone(family: dict[int, int]) -> None:
    """Every process ends in time; the kernel says so through its pidfd."""
    with selectors.DefaultSelector() as alive:
        for pid, pidfd in family.items():
            alive.register(pidfd, selectors.EVENT_READ, pid)
        while alive.get_map():
            ended = alive.select(GONE_WITHIN_S)
            assert ended, f"still running: {[key.data for key in alive.get_map().values()]}"
            for key, _ in ended:
                alive.unregister(key.fileobj)
                os.close(key.fd)
