"""`muster explain`, `gangs` and `domains` as people call them, against an extender that listens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from typer.testing import Result

from extender.core.engine import Engine
from extender.core.events import NodeSeen, PodSeen, Synced, Tick
from tests.builders import cluster, gang, single
from tests.inspecting import asked, extender
from tests.listening import listening
from tests.running import app_of

pytestmark = pytest.mark.xdist_group("inspection")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with extender() as url:
        yield url


def test_a_waiting_gang_is_explained_down_to_its_remedies(url: str) -> None:
    said = asked("explain", "default/wait", "--url", url)
    assert said.exit_code == 0, said.output
    for text in (
        "default/wait  NoRoom",
        "1 more node with 8 GPUs free in clique a",
        "default/train (2 nodes)",
        "wait-0",
        "nobody would give way to it: 1 of 2 members fit at once",
    ):
        assert text in said.output
    assert asked("explain", "wait", "-n", "default", "--url", url).exit_code == 0


def test_who_would_give_way_is_told_with_what_they_are_told() -> None:
    core = Engine()
    for one in cluster("a: 1x8"):
        core.handle(NodeSeen(one), 1.0)
    for pod in (single("dev", gpus=8, node="a-0"), *gang("wait", 1, priority=10)):
        core.handle(PodSeen(pod), 1.0)
    core.handle(Synced(), 1.0)
    core.handle(Tick(), 2.0)
    with listening(app_of(core)) as url:
        said = asked("explain", "default/wait", "--url", url).output
        read = json.loads(asked("explain", "default/wait", "--url", url, "-o", "json").output)
    assert "preemption is off; on, pod default/dev would give way to it" in said
    assert read["victims"] == [
        {"name": "pod default/dev", "told": "preempted by default/wait, which has priority 10 and lacked room"}
    ]
    assert all(one["told"] in said for one in read["victims"])


def test_json_and_yaml_say_the_same(url: str) -> None:
    one, two = (asked("explain", "default/wait", "--url", url, "-o", how) for how in ("json", "yaml"))
    read, other = json.loads(one.output), yaml.safe_load(two.output)
    assert read["remedies"] == other["remedies"]
    assert read["gang"]["state"] == other["gang"]["state"] == "NoRoom"
    assert [row["name"] for row in json.loads(asked("gangs", "--url", url, "-o", "json").output)] == [
        "'x\\x1b[31m'", "train", "wait",
    ]  # fmt: skip


def test_gangs_can_be_chosen(url: str) -> None:
    said = asked("gangs", "--url", url)
    assert "train" in said.output
    assert "NoRoom" in said.output
    waiting = json.loads(asked("gangs", "--waiting", "-n", "default", "--url", url, "-o", "json").output)
    assert [row["name"] for row in waiting] == ["'x\\x1b[31m'", "wait"]
    assert json.loads(asked("gangs", "--state", "running", "--url", url, "-o", "json").output)[0]["name"] == "train"
    assert "no gangs found" in asked("gangs", "-n", "nowhere", "--url", url).output


def test_domains_show_what_is_left(url: str) -> None:
    said = asked("domains", "--url", url)
    assert said.exit_code == 0
    a, b = json.loads(asked("domains", "--level", "clique", "--url", url, "-o", "json").output)
    assert (a["name"], a["nodes"], a["whole"], a["free_gpus"], a["gangs"]) == ("a", 3, 1, 8, ["default/train"])
    assert (b["name"], b["gangs"]) == ("b", [])


def test_nothing_that_is_shown_controls_the_terminal(url: str) -> None:
    for said in (asked("gangs", "--url", url), asked("explain", "default/'x\\x1b[31m'", "--url", url)):
        assert said.exit_code == 0, said.output
        assert "\x1b" not in said.output


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
    said = asked(*args, "--url", url)
    assert said.exit_code == 2
    assert words in said.output
    assert "Traceback" not in said.output


@pytest.mark.parametrize(
    "nowhere",
    ["http://127.0.0.1:1", "127.0.0.1:1", "ftp://x", "http://", "http://[::1", "http://a b", "https://127.0.0.1:1", ""],
)
def test_no_muster_is_one_sentence(nowhere: str) -> None:
    said = asked("gangs", "--url", nowhere)
    assert said.exit_code == 2
    assert len(said.output.strip().splitlines()) == 1


@pytest.mark.parametrize("question", [["gangs"], ["domains"], ["queues"], ["explain", "a/b"]])
@pytest.mark.parametrize(
    ("status", "content"),
    [
        *[
            (200, said)
            for said in (b"<html>hello</html>", b'"text"', b"{}", b"\xff", b"", b"[1]", b'[{"a": 1}]', b"[" * 9999)
        ],
        *[(status, b"<html>elsewhere</html>") for status in (301, 404)],
    ],
)
def test_whatever_else_answers_is_told_from_muster(question: list[str], status: int, content: bytes) -> None:
    said = answered(question, status, content)
    assert (said.exit_code, "it is no Muster" in said.output) == (2, True), said.output


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
    said = answered(question, 200, content)
    assert (said.exit_code, "it may be of another version than this command" in said.output) == (2, True), said.output


@pytest.mark.parametrize("question", [["gangs"], ["queues"], ["explain", "wait"]])
def test_a_replica_that_stands_by_is_told(question: list[str]) -> None:
    with extender(standing_by=True) as url:
        said = asked(*question, "--url", url, "-o", "json")
    assert said.exit_code == 0
    assert "stands by: its kube-scheduler does not hold the Lease" in said.stderr
    assert json.loads(said.stdout) is not None


def answered(question: list[str], status: int, content: bytes) -> Result:
    """What the command says where something else answers it."""

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
        said = asked(*question, "--url", f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
        thread.join()
    return said


def test_a_certificate_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    said = asked("gangs", "--url", "https://127.0.0.1:1", "--ca-file", str(tmp_path / "none"))
    assert (said.exit_code, "certificate files" in said.output) == (2, True)


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
