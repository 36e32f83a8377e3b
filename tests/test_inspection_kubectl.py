"""`muster gangs` and the like without a URL: by way of kubectl, and as a plugin of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.inspecting import asked, extender

pytestmark = pytest.mark.xdist_group("inspection")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with extender() as url:
        yield url


def kubectl(folder: Path, port: str, holder: str = "") -> str:
    """A PATH with a kubectl that forwards to that port, and notes how it was called."""
    script = folder / "kubectl"
    script.write_text(
        f"#!{sys.executable}\n"
        "import sys, time\n"
        f"open({str(folder / 'calls')!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
        "if 'get' in sys.argv:\n"
        f"    print({holder!r}, end=''); sys.exit({0 if holder else 1})\n"
        f"if not {port!r}:\n"
        "    print('error: pods \"x\" is forbidden', file=sys.stderr); sys.exit(1)\n"
        f"print('Forwarding from 127.0.0.1:{port} -> 10290', flush=True)\n"
        "time.sleep(60)\n"
    )
    script.chmod(0o755)
    return str(folder)


def answering(folder: Path, answers: dict[str, object]) -> str:
    """A PATH with a kubectl that lists these objects by kind, and may do nothing else."""
    written = {kind: json.dumps(answer) for kind, answer in answers.items()}
    (folder / "kubectl").write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"for kind, answer in {written!r}.items():\n"
        "    if kind in sys.argv: print(answer); sys.exit()\n"
        "print('forbidden', file=sys.stderr); sys.exit(1)\n"
    )
    (folder / "kubectl").chmod(0o755)
    return str(folder)


def test_without_a_url_kubectl_forwards_the_port_of_the_leader(url: str, tmp_path: Path) -> None:
    path = kubectl(tmp_path, url.rpartition(":")[2], "muster-5d9-abc_0b6f")
    said = asked("gangs", "--context", "prod", "--muster-namespace", "sched", PATH=path)
    assert said.exit_code == 0, said.output
    assert "train" in said.output
    lease, forward = (tmp_path / "calls").read_text().splitlines()
    assert lease.startswith("--context=prod --namespace=sched get lease muster")
    assert forward == "--context=prod --namespace=sched port-forward --address=127.0.0.1 pod/muster-5d9-abc :10290"


def test_without_a_lease_the_deployment_is_forwarded(url: str, tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    asked("gangs", "--kubeconfig", str(tmp_path / "config"), PATH=kubectl(tmp_path, url.rpartition(":")[2]))
    assert "deployment/muster :10290" in (tmp_path / "calls").read_text()


def test_without_a_way_to_muster_pods_and_events_are_asked(tmp_path: Path) -> None:
    meta = {
        "name": "train-0",
        "namespace": "team",
        "uid": "uid-0",
        "annotations": {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"},
    }
    pods = {"items": [{"metadata": meta, "spec": {"schedulingGates": [{"name": "muster.dev/gang"}]}}, {"metadata": {}}]}
    event = {
        "reason": "MembersMissing", "note": "1 of 2 members exist", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "muster.dev/extender", "regarding": {"kind": "Pod", "name": "train-0"},
    }  # fmt: skip
    of_job = {
        **event, "reason": "NoRoom", "note": "0 of 4 members fit at once", "regarding": {"kind": "Job", "name": "big"},
    }  # fmt: skip
    bare = {"eventTime": "2025-01-01T00:00:00Z"} | {key: event[key] for key in ("reportingController", "regarding")}
    events = {"items": [event, of_job, bare, {"reportingController": event["reportingController"]}]}
    (tmp_path / "kubectl").write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"if 'pods' in sys.argv: print({json.dumps(pods)!r})\n"
        f"elif 'events.events.k8s.io' in sys.argv: print({json.dumps(events)!r})\n"
        "else: print('forbidden', file=sys.stderr); sys.exit(1)\n"
    )
    (tmp_path / "kubectl").chmod(0o755)
    said = asked("explain", "team/train", "--context", "x", PATH=str(tmp_path))
    assert said.exit_code == 0, said.output
    assert "forbidden" in said.stderr
    for text in ("team/train  MembersMissing", "1 of 2 members exist", "train-0", "Gated", "at least: 2"):
        assert text in said.stdout
    assert "NoRoom" not in said.stdout
    other = asked("explain", "team/other", "--context", "x", PATH=str(tmp_path))
    assert (
        other.exit_code,
        "there is no gang, job or pod team/other that Muster manages; gangs there" in other.stderr,
    ) == (2, True)
    for typed in ("pod/train-0", "train-0", "team/pod/train-0", "gang/train"):
        said = asked(
            "explain", typed, *(["-n", "team"] if typed.count("/") < 2 else []), "--context", "x", PATH=str(tmp_path)
        )
        assert "team/train  MembersMissing" in said.stdout, said.output
    said = asked("explain", "team/job-big", "--context", "x", PATH=str(tmp_path))
    assert (said.exit_code, "team/job-big  NoRoom" in said.stdout) == (0, True), "a job that waits has no pods"
    assert "0 of 4 members fit at once" in said.stdout
    said = asked("explain", "job/big", "-n", "team", "--context", "x", PATH=str(tmp_path))
    assert "team/job-big  NoRoom" in said.stdout


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1"])
def test_without_an_event_the_podgroup_says_since_when_and_how_many(url: str | None, tmp_path: Path) -> None:
    born = (datetime.now(UTC) - timedelta(minutes=27)).isoformat(timespec="seconds")
    meta = {
        "name": "train-0",
        "namespace": "team",
        "uid": "uid-0",
        "labels": {"scheduling.x-k8s.io/pod-group": "train"},
    }
    group = {"metadata": {"name": "train", "creationTimestamp": born}, "spec": {"minMember": 4}, "status": {}}
    group_told = {
        **group,
        "status": {"conditions": [{"type": "Scheduled", "reason": "NoRoom", "message": "0 of 4 fit"}]},
    }
    for told, texts in (
        (group, ("team/train  Unknown for 27m", "no Event says why")),
        (group_told, ("NoRoom", "0 of 4 fit")),
    ):
        answers = {
            "pods": {"items": [{"metadata": meta, "spec": {}}]},
            "podgroups.scheduling.x-k8s.io": {"items": [told]},
        }
        answering(tmp_path, answers)
        way = ["--context", "x"] if url is None else ["--url", url]
        said = asked("explain", "team/train", *way, PATH=str(tmp_path))
        assert said.exit_code == 0, said.output
        for text in (*texts, "at least: 4"):
            assert text in said.stdout
        assert "What follows is read from the pods and their Events" in said.stderr


def test_a_job_that_waits_is_known_without_an_event_and_no_job_of_others(tmp_path: Path) -> None:
    born = (datetime.now(UTC) - timedelta(minutes=9)).isoformat(timespec="seconds")
    jobs = [
        {"metadata": {"name": name, "creationTimestamp": born, "labels": labels}, "spec": {"suspend": True}}
        for name, labels in (("ours", {"muster.dev/gang": "true"}), ("theirs", {}))
    ]
    path = answering(tmp_path, {"pods": {"items": []}, "jobs.batch": {"items": jobs}})
    said = asked("explain", "ours", "-n", "team", "--context", "x", PATH=path)
    assert "team/job-ours  Unknown for 9m" in said.stdout, said.output
    assert "no Event says why: its job is suspended" in said.stdout
    other = asked("explain", "job/theirs", "-n", "team", "--context", "x", PATH=path)
    assert "there is no gang, job or pod job/theirs in namespace team that Muster manages" in other.output


def test_something_else_at_that_address_is_not_explained_by_objects(tmp_path: Path) -> None:
    said = asked("explain", "team/train", "--url", "nonsense", PATH=kubectl(tmp_path, ""))
    assert (said.exit_code, "nonsense is not a URL of Muster" in said.output) == (2, True)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    "option", [("--context", "prod"), ("--kubeconfig", "/prod"), ("--muster-namespace", "prod")], ids=lambda one: one[0]
)
def test_an_option_that_names_a_cluster_counts_more_than_the_variable(
    url: str, option: tuple[str, str], tmp_path: Path
) -> None:
    path = kubectl(tmp_path, "")
    usual = asked("gangs", PATH=path, MUSTER_URL=url)
    assert (usual.exit_code, "train" in usual.stdout) == (0, True)
    said = asked("gangs", *option, PATH=path, MUSTER_URL=url)
    assert said.exit_code == 2
    assert f"$MUSTER_URL ({url}) is left aside: an option names {option[1]}" in said.stderr
    assert "train" not in said.output
    both = asked("gangs", *option, "--url", url, PATH=path)
    assert (both.exit_code, f"{option[0]} in which cluster to look for it: leave one of them out" in both.stderr) == (
        2,
        True,
    )


def test_what_kubectl_complains_of_is_passed_on(tmp_path: Path) -> None:
    said = asked("gangs", "--context", "x", PATH=kubectl(tmp_path, ""))
    assert said.exit_code == 2
    assert 'pods "x" is forbidden; say with --url' in said.output


def test_without_kubectl_the_way_is_told(tmp_path: Path) -> None:
    said = asked("gangs", "--context", "x", PATH=str(tmp_path))
    assert said.exit_code == 2
    assert "no kubectl on the PATH" in said.output


def test_the_plugin_is_installed_under_the_name_that_kubectl_looks_for(url: str) -> None:
    plugin = Path(sys.executable).with_name("kubectl-muster")
    env = {**os.environ, "MUSTER_URL": url}
    done = subprocess.run([plugin, "gangs", "-o", "json"], env=env, capture_output=True, text=True, check=True)
    assert "train" in done.stdout
    helped = subprocess.run([plugin, "--help"], env=env, capture_output=True, text=True, check=True)
    assert "kubectl muster" in helped.stdout
