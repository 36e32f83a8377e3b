"""`muster gangs` and the like without a URL: by way of kubectl, and as a plugin of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
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


def test_without_a_url_kubectl_forwards_the_port_of_the_leader(url: str, tmp_path: Path) -> None:
    path = kubectl(tmp_path, url.rpartition(":")[2], "muster-5d9-abc_0b6f")
    said = asked("gangs", "--context", "prod", "--muster-namespace", "sched", PATH=path)
    assert said.exit_code == 0, said.output
    assert "train" in said.output
    lease, forward = (tmp_path / "calls").read_text().splitlines()
    assert lease.startswith("--context=prod --namespace=sched get lease muster")
    assert forward == "--context=prod --namespace=sched port-forward --address=127.0.0.1 pod/muster-5d9-abc :10290"


def test_without_a_lease_the_deployment_is_forwarded(url: str, tmp_path: Path) -> None:
    asked("gangs", "--kubeconfig", "/k", PATH=kubectl(tmp_path, url.rpartition(":")[2]))
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
    assert asked("explain", "team/other", "--context", "x", PATH=str(tmp_path)).exit_code == 2
    said = asked("explain", "team/job-big", "--context", "x", PATH=str(tmp_path))
    assert (said.exit_code, "team/job-big  NoRoom" in said.stdout) == (0, True), "a job that waits has no pods"
    assert "0 of 4 members fit at once" in said.stdout


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
