"""Names as people type them, and the completions that shells offer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from extender.api.models import QueueView
from extender.cli.entry import complete
from extender.cli.inspection import commands
from extender.cli.inspection.kubeconfig import context_names, home
from extender.cli.inspection.names import Known, NameProblemError, chosen
from extender.cli.inspection.queue_tree import QueueNameError, chosen_queues
from extender.cli.inspection.reach import Muster, UnreachableError
from extender.core.engine import Engine
from extender.core.events import GroupSeen, PodSeen
from extender.observe.views import view
from policies.model import Controller
from tests.builders import coscheduled, gang
from tests.inspecting import asked, extender

pytestmark = pytest.mark.xdist_group("inspection")

KNOWN = [
    Known("ml", "job-first", ["job/first"], ["first-0-x", "first-1-y"]),
    Known("ml", "big-b-12cc", ["job/big-b", "podgroup/big-b-12cc"], ["big-b-master-0"]),
    Known("ml", "jobset-first", ["jobset/first", "job/first-workers-0"], ["first-workers-0-0-z"]),
    Known("ml", "train", ["podgroup/train", "replicaset/web-5d9", "deployment/web"], ["train-0"]),
    Known("job", "train", [], ["other-0"]),
    *(Known("ml", f"leaderworkerset-llm-{at}", ["leaderworkerset/llm"], [f"llm-{at}"]) for at in range(2)),
]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("job-first", "ml/job-first"),
        ("job/first", "ml/job-first"),
        ("jobs.batch/first", "ml/job-first"),
        ("Job/first", "ml/job-first"),
        ("ml/job/first", "ml/job-first"),
        ("ml/job-first", "ml/job-first"),
        ("pod/first-1-y", "ml/job-first"),
        ("po/first-1-y", "ml/job-first"),
        ("first-1-y", "ml/job-first"),
        ("big-b", "ml/big-b-12cc"),
        ("vcjob/big-b", "ml/big-b-12cc"),
        ("jobs.batch.volcano.sh/big-b", "ml/big-b-12cc"),
        ("jobset/first", "ml/jobset-first"),
        ("job/first-workers-0", "ml/jobset-first"),
        ("train", "ml/train"),
        ("gang/train", "ml/train"),
        ("pg/train", "ml/train"),
        ("deploy/web", "ml/train"),
        ("deployments.apps/web", "ml/train"),
        ("job/train", "job/train"),
        ("lws/llm-1", "ml/leaderworkerset-llm-1"),
    ],
)
def test_every_name_that_people_use_leads_to_the_workload(typed: str, meant: str) -> None:
    assert str(chosen(typed, None, "ml", KNOWN)) == meant


@pytest.mark.parametrize(
    ("typed", "namespace", "words"),
    [
        ("first", None, "first may mean 2 workloads; say which: ml/job-first (job/first), ml/jobset-first (jobset/"),
        ("lws/llm", None, "may mean 2 workloads; say which: ml/leaderworkerset-llm-0 (leaderworkerset/llm), "),
        ("frist-0-x", None, "pod frist-0-x in namespace ml that Muster manages; did you mean ml/job-first (job/first)"),
        ("job/frist", None, "no gang, job or pod job/frist that Muster manages; did you mean ml/job-first (job/"),
        ("first", "job", "in namespace job that Muster manages; there is ml/job-first, ml/jobset-first"),
        ("nothing", "team", "it manages nothing in namespace team"),
        ("a/b/c/d", None, "'a/b/c/d' is not a name: write NAMESPACE/GANG, KIND/NAME"),
        ("", None, "'' is not a name"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_clear_is_answered_with_a_choice(typed: str, namespace: str | None, words: str) -> None:
    with pytest.raises(NameProblemError) as problem:
        chosen(typed, namespace, "ml", KNOWN)
    assert words in str(problem.value)


def test_a_gang_is_known_by_what_makes_its_pods() -> None:
    core = Engine()
    maker = Controller("apps/v1", "ReplicaSet", "web-5d9", "uid-web")
    group, pods = coscheduled("train", 2)
    core.handle(GroupSeen(group), 1.0)
    for pod in (*pods, *(replace(member, controller=maker) for member in gang("web", 2))):
        core.handle(PodSeen(pod), 1.0)
    objects = {key.name: view(core.state, workload, 2.0).objects for key, workload in core.state.workloads.items()}
    assert objects == {"train": ["podgroup/train"], "web": ["replicaset/web-5d9"]}


def queue(kind: str, namespace: str, name: str, parent: str) -> QueueView:
    return QueueView(
        kind=kind, namespace=namespace, name=name, parent=parent, reserving=0, admitted=0, pending=0, quotas=[],
        share=None, waiting=[], problems=[], warnings=[],
    )  # fmt: skip


QUEUES = [
    queue("Cohort", "", "all", ""),
    queue("ClusterQueue", "", "cq", "all"),
    queue("ClusterQueue", "", "other", "all"),
    *(queue("LocalQueue", where, name, "cq") for where, name in (("ml", "mine"), ("ml", "same"), ("web", "same"))),
]


@pytest.mark.parametrize(
    ("typed", "namespace", "found"),
    [
        ("mine", None, ["cq", "mine"]),
        ("ml/mine", None, ["cq", "mine"]),
        ("localqueue/mine", None, ["cq", "mine"]),
        ("lq/ml/mine", None, ["cq", "mine"]),
        ("same", None, ["cq", "same"]),
        ("same", "web", ["cq", "same"]),
        ("cq", None, ["cq", "mine", "same", "same"]),
        ("clusterqueues/cq", None, ["cq", "mine", "same", "same"]),
        ("cohort/all", None, ["all", "cq", "mine", "same", "same", "other"]),
    ],
)
def test_queues_takes_a_local_queue_too(typed: str, namespace: str | None, found: list[str]) -> None:
    assert [entry.name for entry in chosen_queues(QUEUES, typed, namespace, "ml")] == found


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("same", "several LocalQueues are called same; say which: ml/same, web/same"),
        ("mime", "there is no ClusterQueue, cohort or LocalQueue mime; did you mean localqueue/ml/mine?"),
        ("x", "there are cohort/all, clusterqueue/cq, "),
    ],
)
def test_a_queue_that_is_not_clear_is_answered_with_a_choice(typed: str, words: str) -> None:
    with pytest.raises(QueueNameError) as problem:
        chosen_queues(QUEUES, typed, None, "elsewhere")
    assert words in str(problem.value)


def test_where_there_are_no_queues_that_is_said() -> None:
    with pytest.raises(QueueNameError, match="LocalQueue x; there are no queues at all"):
        chosen_queues([], "x", None, "elsewhere")


def test_the_namespace_is_that_of_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [{"name": "a", "context": {"namespace": "ml"}}, {"name": "b", "context": {}}]
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(yaml.safe_dump({"current-context": "a"}))
    second.write_text(yaml.safe_dump({"current-context": "b", "contexts": contexts}))
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{tmp_path / 'none'}{os.pathsep}{second}")
    assert (home(), home(None, "b"), home(second), home(tmp_path / "none")) == ("ml", "default", "default", "default")
    assert context_names() == ["a", "b"]


# On the running Muster.


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with extender() as url:
        yield url


def test_only_names_are_written_where_only_names_are_wanted(url: str) -> None:
    assert asked("gangs", "--url", url, "-o", "name").output.splitlines()[1:] == ["default/train", "default/wait"]
    assert asked("domains", "--url", url, "-o", "name").output.split() == ["a", "b"]
    assert asked("explain", "pod/wait-0", "-n", "default", "--url", url, "-o", "name").output == "default/wait\n"


def test_a_level_may_be_called_by_its_label(url: str) -> None:
    result = asked("domains", "--level", "nvidia.com/gpu.clique", "--url", url, "-o", "json")
    assert [domain["name"] for domain in json.loads(result.output)] == ["a", "b"]
    unknown = asked("domains", "--level", "galaxy", "--url", url)
    assert 'unknown level "galaxy"; available: clique (nvidia.com/gpu.clique)' in unknown.output


def test_an_output_that_does_not_exist_is_told_in_plain_words() -> None:
    assert "'odd' is not one of table, wide, name, json, yaml" in asked("gangs", "-o", "odd").output
    assert "Value error" not in asked("gangs", "-o", "odd").output
    result = asked("bench", "latency", "--rate", "0")
    assert "it has to be greater than or equal to 0.1" in result.output


def test_watch_shows_it_again_when_it_has_changed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def wait(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(commands, "pause", wait)
    result = asked("gangs", "-w", "--url", url)
    assert (result.exit_code, rounds, result.output.count("NAMESPACE")) == (130, 3, 1)
    assert asked("queues", "--watch", "--url", url, "-o", "json").exit_code == 2


def test_watch_goes_on_when_muster_comes_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[list[QueueView] | BaseException] = iter(
        [QUEUES[:1], UnreachableError("no answer"), KeyboardInterrupt()]
    )

    def queues(_: Muster) -> list[QueueView]:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(commands, "pause", lambda _: None)
    monkeypatch.setattr(Muster, "queues", queues)
    result = asked("queues", "all", "-w", "-o", "name", "--url", url)
    assert result.exit_code == 130
    assert "no answer; asking again" in result.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("expl",), ["explain"]),
        (("explain", "w"), ["wait"]),
        (("evict", "pod/wait-"), ["pod/wait-0", "pod/wait-1"]),
        (("gangs", "--state", "No"), ["NoRoom"]),
        (("gangs", "-n", ""), ["default"]),
        (("domains", "--level", ""), ["clique"]),
        (("gangs", "-o", "n"), ["name"]),
    ],
)
def test_names_are_completed(
    url: str,
    words: tuple[str, ...],
    offered: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "MUSTER_URL": url})
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-muster", *words])
    with pytest.raises(SystemExit):
        complete()
    assert capsys.readouterr().out.splitlines() == [*offered, ":4"]


def test_kubectl_finds_the_program_that_completes() -> None:
    program = Path(sys.executable).with_name("kubectl_complete-muster")
    env = {**os.environ, "MUSTER_URL": "http://127.0.0.1:1"}
    done = subprocess.run([program, "explain", "w"], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (":4\n", ""), "where nothing answers nothing is offered"
