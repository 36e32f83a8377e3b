"""`muster explain`, `gangs` and `domains` as people call them, by a URL, by way of kubectl, and as a plugin of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from typer.testing import Result

from extender.core.engine import Engine
from extender.core.events import NodeSeen, PodSeen, Synced, Tick
from policies.model.eviction import EvictionTerms
from tests.builders import cluster, gang, single
from tests.core.script import Script
from tests.inspecting import asked, extender
from tests.listening import listening
from tests.running import app_of

pytestmark = pytest.mark.xdist_group("inspection")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with extender() as url:
        yield url


def test_a_waiting_gang_is_explained_down_to_its_remedies(url: str) -> None:
    result = asked("explain", "default/wait", "--url", url)
    assert result.exit_code == 0, result.output
    for text in (
        "default/wait  NoRoom",
        "1 more node with 8 GPUs free in clique a",
        "default/train (2 nodes)",
        "wait-0",
        "nothing would be evicted for it: 1 of 2 members fit at once",
    ):
        assert text in result.output
    assert asked("explain", "wait", "-n", "default", "--url", url).exit_code == 0


def test_who_would_give_way_is_told_with_what_they_are_told() -> None:
    core = Engine()
    for node in cluster("a: 1x8"):
        core.handle(NodeSeen(node), 1.0)
    for pod in (single("dev", gpus=8, node="a-0"), *gang("wait", 1, priority=10)):
        core.handle(PodSeen(pod), 1.0)
    core.handle(Synced(), 1.0)
    core.handle(Tick(), 2.0)
    with listening(app_of(core)) as url:
        output = asked("explain", "default/wait", "--url", url).output
        read = json.loads(asked("explain", "default/wait", "--url", url, "-o", "json").output)
    assert "preemption is off; if it were on, pod default/dev would be evicted for it" in output
    assert read["victims"] == [
        {"name": "pod default/dev", "told": "preempted by default/wait, which has priority 10 and lacked room"}
    ]
    assert all(victim["told"] in output for victim in read["victims"])


def test_json_and_yaml_say_the_same(url: str) -> None:
    as_json, two = (asked("explain", "default/wait", "--url", url, "-o", how) for how in ("json", "yaml"))
    read, other = json.loads(as_json.output), yaml.safe_load(two.output)
    assert read["remedies"] == other["remedies"]
    assert read["gang"]["state"] == other["gang"]["state"] == "NoRoom"
    assert [row["name"] for row in json.loads(asked("gangs", "--url", url, "-o", "json").output)] == [
        "'x\\x1b[31m'", "train", "wait",
    ]  # fmt: skip


def test_gangs_can_be_chosen(url: str) -> None:
    result = asked("gangs", "--url", url)
    assert "train" in result.output
    assert "NoRoom" in result.output
    waiting = json.loads(asked("gangs", "--waiting", "-n", "default", "--url", url, "-o", "json").output)
    assert [row["name"] for row in waiting] == ["'x\\x1b[31m'", "wait"]
    assert json.loads(asked("gangs", "--state", "running", "--url", url, "-o", "json").output)[0]["name"] == "train"
    assert "no gangs found" in asked("gangs", "-n", "nowhere", "--url", url).output


def test_moves_that_would_help_are_shown_in_their_order() -> None:
    script = Script(*cluster("a: 2x8"))
    for name, gpus in (("four", 4), ("three", 3), ("five", 5)):
        pods = gang(name, 1, gpus=gpus, eviction=EvictionTerms(restartable=True))
        script.see(pods)
        script.run(pods)
    script.see(gang("wait", 1, gpus=4))
    script.advance(2)
    with listening(app_of(script.core)) as url:
        result = asked("defrag", "--dry-run", "default/wait", "--url", url)
        read = asked("defrag", "--dry-run", "wait", "-n", "default", "--url", url, "-o", "json")
        running = asked("defrag", "--dry-run", "default/four", "--url", url)
        missing = asked("defrag", "--dry-run", "default/other", "--url", url)
        careless = asked("defrag", "default/wait", "--url", url)
    assert result.exit_code == 0, result.output
    assert "default/wait starts after 1 move of 3 devices; nothing is moved now" in result.output
    assert "three-0: a-0 -> a-1" in result.output
    assert "Then default/wait starts: wait-0: a-0" in result.output
    (move,) = json.loads(read.output)["moves"]
    assert (move["workload"], move["devices"], move["checkpointed"]) == ("default/three", 3, False)
    assert (running.exit_code, missing.exit_code, careless.exit_code) == (1, 2, 2)
    assert "default/four: no moves would help: it is not waiting for room: see its reason" in running.output
    assert "there is no gang, job or pod default/other" in missing.output
    assert "add --dry-run" in careless.output


def test_domains_show_what_is_left(url: str) -> None:
    result = asked("domains", "--url", url)
    assert result.exit_code == 0
    a, b = json.loads(asked("domains", "--level", "clique", "--url", url, "-o", "json").output)
    assert (a["name"], a["nodes"], a["whole"], a["free_gpus"], a["gangs"]) == ("a", 3, 1, 8, ["default/train"])
    assert (b["name"], b["gangs"]) == ("b", [])


def test_nothing_that_is_shown_controls_the_terminal(url: str) -> None:
    for result in (asked("gangs", "--url", url), asked("explain", "default/'x\\x1b[31m'", "--url", url)):
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ("explain", "default/wat"),
            "there is no gang, job or pod default/wat that Muster manages; did you mean default/wait?",
        ),
        (
            ("explain", "default/other"),
            "there is no gang, job or pod default/other that Muster manages; gangs there: default/'x",
        ),
        (("explain", "team/wait"), "there is no gang, job or pod team/wait that Muster manages; there is default/wait"),
        (
            ("explain", "wait", "-n", "team"),
            "no gang, job or pod wait in namespace team that Muster manages; there is default/wait",
        ),
        (("explain", "team/other", "-n", "team"), "it manages nothing in namespace team"),
        (("explain", "/"), "write NAMESPACE/GANG"),
        (("explain", "a/b", "-n", "c"), "if a is a namespace, leave --namespace out"),
        (("explain", "a/job/b", "-n", "c"), "leave one of them out"),
        (("domains", "--level", "galaxy"), 'unknown level "galaxy"; available: clique'),
    ],
)
def test_a_question_that_cannot_be_answered_ends_in_one_sentence(url: str, args: tuple[str, ...], words: str) -> None:
    result = asked(*args, "--url", url)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "nowhere",
    ["http://127.0.0.1:1", "127.0.0.1:1", "ftp://x", "http://", "http://[::1", "http://a b", "https://127.0.0.1:1", ""],
)
def test_no_muster_is_one_sentence(nowhere: str) -> None:
    result = asked("gangs", "--url", nowhere)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("question", [["gangs"], ["domains"], ["queues"], ["explain", "a/b"]])
@pytest.mark.parametrize(
    ("status", "content"),
    [
        *[
            (200, body)
            for body in (b"<html>hello</html>", b'"text"', b"{}", b"\xff", b"", b"[1]", b'[{"a": 1}]', b"[" * 9999)
        ],
        *[(status, b"<html>elsewhere</html>") for status in (301, 404)],
    ],
)
def test_whatever_else_answers_is_told_from_muster(question: list[str], status: int, content: bytes) -> None:
    result = answered(question, status, content)
    assert (result.exit_code, "it is no Muster" in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    ("question", "content"),
    [
        (["gangs"], b'[{"namespace": "team", "name": "train"}]'),
        (["gangs"], b'[{"namespace": "team", "name": "train", "state": 5, "bound": null}]'),
        (["domains"], b'[{"level": "clique"}]'),
        (["queues"], b'[{"kind": "ClusterQueue"}]'),
        (["explain", "a/b"], b'{"gang": "a/b"}'),
        (["explain", "a/b"], b'{"gang": {}}'),
    ],
)
def test_a_muster_of_another_version_is_told(question: list[str], content: bytes) -> None:
    result = answered(question, 200, content)
    assert (result.exit_code, "it may be of another version than this command" in result.output) == (2, True), (
        result.output
    )


@pytest.mark.parametrize("question", [["gangs"], ["queues"], ["explain", "wait"]])
def test_a_replica_that_stands_by_is_told(question: list[str]) -> None:
    with extender(standing_by=True) as url:
        result = asked(*question, "--url", url, "-o", "json")
    assert result.exit_code == 0
    assert "stands by: its kube-scheduler does not hold the Lease" in result.stderr
    assert json.loads(result.stdout) is not None


def answered(question: list[str], status: int, content: bytes) -> Result:
    """The output of the command where another server answers it."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        result = asked(*question, "--url", f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
        thread.join()
    return result


def test_a_certificate_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    result = asked("gangs", "--url", "https://127.0.0.1:1", "--ca-file", str(tmp_path / "none"))
    assert (result.exit_code, "certificate files" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("NoRom", 'unknown state "NoRom"; did you mean NoRoom?'),
        ("Foo", "docs/waiting.md explains all"),
    ],
)
def test_a_state_that_no_gang_can_have_is_told(state: str, said: str) -> None:
    done = asked("gangs", "--state", state, "--url", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert said in done.output


FORBIDDEN = (
    'Error from server (Forbidden): pods "x" is forbidden: User "ann" cannot create resource "pods/portforward" '
    'in API group "" in the namespace "kube-system"'
)


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
        f"    print({FORBIDDEN!r}, file=sys.stderr); sys.exit(1)\n"
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
    result = asked("gangs", "--context", "prod", "--muster-namespace", "sched", PATH=path)
    assert result.exit_code == 0, result.output
    assert "train" in result.output
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
    result = asked("explain", "team/train", "--context", "x", PATH=str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "forbidden" in result.stderr
    for text in ("team/train  MembersMissing", "1 of 2 members exist", "train-0", "Gated", "at least: 2"):
        assert text in result.stdout
    assert "NoRoom" not in result.stdout
    other = asked("explain", "team/other", "--context", "x", PATH=str(tmp_path))
    assert (
        other.exit_code,
        "there is no gang, job or pod team/other that Muster manages; gangs there" in other.stderr,
    ) == (2, True)
    for typed in ("pod/train-0", "train-0", "team/pod/train-0", "gang/train"):
        result = asked(
            "explain", typed, *(["-n", "team"] if typed.count("/") < 2 else []), "--context", "x", PATH=str(tmp_path)
        )
        assert "team/train  MembersMissing" in result.stdout, result.output
    result = asked("explain", "team/job-big", "--context", "x", PATH=str(tmp_path))
    assert (result.exit_code, "team/job-big  NoRoom" in result.stdout) == (0, True), "a job that waits has no pods"
    assert "0 of 4 members fit at once" in result.stdout
    result = asked("explain", "job/big", "-n", "team", "--context", "x", PATH=str(tmp_path))
    assert "team/job-big  NoRoom" in result.stdout


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
    for pod_group, texts in (
        (group, ("team/train  Unknown for 27m", "no Event says why")),
        (group_told, ("NoRoom", "0 of 4 fit")),
    ):
        answers = {
            "pods": {"items": [{"metadata": meta, "spec": {}}]},
            "podgroups.scheduling.x-k8s.io": {"items": [pod_group]},
        }
        answering(tmp_path, answers)
        way = ["--context", "x"] if url is None else ["--url", url]
        result = asked("explain", "team/train", *way, PATH=str(tmp_path))
        assert result.exit_code == 0, result.output
        for text in (*texts, "at least: 4"):
            assert text in result.stdout
        assert "What follows is read from the pods and their Events" in result.stderr


def test_a_job_that_waits_is_known_without_an_event_and_no_job_of_others(tmp_path: Path) -> None:
    born = (datetime.now(UTC) - timedelta(minutes=9)).isoformat(timespec="seconds")
    jobs = [
        {"metadata": {"name": name, "creationTimestamp": born, "labels": labels}, "spec": {"suspend": True}}
        for name, labels in (("ours", {"muster.dev/gang": "true"}), ("theirs", {}))
    ]
    path = answering(tmp_path, {"pods": {"items": []}, "jobs.batch": {"items": jobs}})
    result = asked("explain", "ours", "-n", "team", "--context", "x", PATH=path)
    assert "team/job-ours  Unknown for 9m" in result.stdout, result.output
    assert "no Event says why: its job is suspended" in result.stdout
    assert "members: 0, of which 0 bound, 0 held\n" in result.stdout, "no size is known, and none is shown"
    other = asked("explain", "job/theirs", "-n", "team", "--context", "x", PATH=path)
    assert "there is no gang, job or pod job/theirs in namespace team that Muster manages" in other.output


def test_something_else_at_that_address_is_not_explained_by_objects(tmp_path: Path) -> None:
    result = asked("explain", "team/train", "--url", "nonsense", PATH=kubectl(tmp_path, ""))
    assert (result.exit_code, "nonsense is not a URL of Muster" in result.output) == (2, True)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    "option",
    [("--context", "prod"), ("--kubeconfig", "/prod"), ("--muster-namespace", "prod")],
    ids=lambda option: option[0],
)
def test_an_option_that_names_a_cluster_counts_more_than_the_variable(
    url: str, option: tuple[str, str], tmp_path: Path
) -> None:
    path = kubectl(tmp_path, "")
    usual = asked("gangs", PATH=path, MUSTER_URL=url)
    assert (usual.exit_code, "train" in usual.stdout) == (0, True)
    result = asked("gangs", *option, PATH=path, MUSTER_URL=url)
    assert result.exit_code == 2
    assert f"$MUSTER_URL ({url}) is left aside: an option names {option[1]}" in result.stderr
    assert "train" not in result.output
    both = asked("gangs", *option, "--url", url, PATH=path)
    assert (both.exit_code, f"{option[0]} in which cluster to look for it: leave one of them out" in both.stderr) == (
        2,
        True,
    )


def test_what_kubectl_complains_of_is_passed_on(tmp_path: Path) -> None:
    result = asked("gangs", "--context", "x", PATH=kubectl(tmp_path, ""))
    assert result.exit_code == 2
    assert (
        "account ann lacks the right to create pods/portforward in namespace kube-system; "
        "ask an administrator to bind the role muster-viewer to it"
    ) in " ".join(result.output.split())


def test_without_kubectl_the_way_is_told(tmp_path: Path) -> None:
    result = asked("gangs", "--context", "x", PATH=str(tmp_path))
    assert result.exit_code == 2
    assert "no kubectl on the PATH" in result.output


def test_the_plugin_is_installed_under_the_name_that_kubectl_looks_for(url: str) -> None:
    plugin = Path(sys.executable).with_name("kubectl-muster")
    env = {**os.environ, "MUSTER_URL": url}
    done = subprocess.run([plugin, "gangs", "-o", "json"], env=env, capture_output=True, text=True, check=True)
    assert "train" in done.stdout
    helped = subprocess.run([plugin, "--help"], env=env, capture_output=True, text=True, check=True)
    assert "kubectl muster" in helped.stdout
