"""docs/acting.md on the real control plane: its commands in its words, by a user who has the rights that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from extender.cli.main import main
from tests.client_alone import alone
from tests.documents.pages import ROOT
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs
from tests.scenarios.pods import gang

pytestmark = pytest.mark.xdist_group("act")

PAGE = (ROOT / "docs" / "acting.md").read_text()


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


def printed() -> list[list[tuple[str, str]]]:
    """The commands of each block of the page, each with its answer."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [re.findall(r"^\$ muster (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE) for block in blocks]


class User:
    """A user with a ServiceAccount in the namespace of the stage, and the Role of the page or a part of it."""

    def __init__(self, stage: RealStage, name: str, leave_out: str = "") -> None:
        (role,) = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
        role["metadata"]["name"] = name
        for rule in role["rules"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != leave_out]
        role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stage.namespace}"
        stage.api.create(f"/api/v1/namespaces/{stage.namespace}/serviceaccounts", {"metadata": {"name": name}})
        stage.api.create(f"{base}/roles", role)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": stage.namespace}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        stage.api.create(f"{base}/rolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": ref})
        self._kubeconfig: Path = stage.cluster.service_account_kubeconfig(stage.namespace, name)

    def types(self, command: str, code: int = 0) -> str:
        """Return the output of the command."""
        done: Result = CliRunner().invoke(main, [*command.split(), f"--kubeconfig={self._kubeconfig}"])
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.output


def test_the_page_does_what_it_says(stage: RealStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client alone is installed here, which logs in by kubectl; the other tests have the whole package."""
    alone(monkeypatch)
    jobs, user = Jobs(stage), User(stage, "ann")
    stage.add_nodes(1)
    jobs.create("first", 1)
    (begun,) = jobs.until_running(1)
    jobs.create("train", 1)
    stage.until_noted("train", "NoRoom")
    for typed in ("train", "job/train", "job-train", "jobs.batch/train"):
        result = CliRunner().invoke(main, ["explain", typed, "-n", stage.namespace, "--url", stage.muster.url])
        assert f"{stage.namespace}/job-train  NoRoom" in result.output
    result = CliRunner().invoke(main, ["explain", f"{stage.namespace}/pod/{begun.name}", "--url", stage.muster.url])
    assert f"{stage.namespace}/job-first  Running" in result.output
    first, second, third = printed()

    def follow(block: list[tuple[str, str]]) -> None:
        for command, answer in block:
            assert user.types(command) == answer.replace("team", stage.namespace)

    follow(first)
    jobs.until("first", lambda job: job["status"].get("active", 0) == 0 and not job["status"].get("failed"))
    stage.until_noted("train", "Held")
    stage.until_noted("first", "Held")
    assert user.types("hold train", 2).startswith("job/train is held already: muster resume job/train")
    follow(second)
    (later,) = jobs.until_running(1, frozenset({begun.uid}))
    assert later.owner == jobs.get("train")["metadata"]["uid"]
    stage.until_noted("first", "NoRoom")
    assert user.types("evict job-first", 2).startswith("job/first does not run: it is suspended already")
    follow(third)
    jobs.until("train", lambda job: job["spec"]["suspend"] and not job["status"].get("active"))
    (last,) = jobs.until_running(1, frozenset({begun.uid, later.uid}))
    assert last.owner == jobs.get("first")["metadata"]["uid"]
    assert not any(jobs.get(name)["status"].get("failed") for name in ("first", "train")), "no pod was deleted"
    # A requeued job is the first in the line, and gets its room again.
    user.types(f"requeue pod/{last.name}")
    jobs.until_running(1, frozenset({begun.uid, later.uid, last.uid}))


def test_a_gang_of_pods_goes_whole_or_not_at_all(stage: RealStage) -> None:
    user, reader = User(stage, "ann"), User(stage, "bob", leave_out="create")
    stage.add_nodes(2)
    stage.create(*gang("pods", 2))
    stage.until(lambda pods: len([pod for pod in pods if pod.node]) == 2)
    budgets = f"/apis/policy/v1/namespaces/{stage.namespace}/poddisruptionbudgets"
    selector = {"matchExpressions": [{"key": "nobody", "operator": "DoesNotExist"}]}
    stage.api.create(budgets, {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": selector}})
    stage.api.wait_for(f"{budgets}/keep", lambda budget: budget.get("status", {}).get("currentHealthy") == 2)
    output = user.types("evict pods", 2)
    assert f"pods-1 (PodDisruptionBudget {stage.namespace}/keep lets no more pods go). A gang goes as a whole" in output
    stage.api.delete(f"{budgets}/keep")
    output = reader.types("evict pods", 2)
    assert f"you lack the right to create pods/eviction in namespace {stage.namespace}" in output
    assert "gone for good: pods-0, pods-1" in user.types("evict pods --dry-run")
    assert len([pod for pod in stage.api.list(stage.pods_path) if "deletionTimestamp" not in pod["metadata"]]) == 2
    user.types("evict gang/pods")
    stage.api.wait_for(stage.pods_path, lambda pods: not pods)


def test_without_the_right_to_write_nothing_is_done(stage: RealStage) -> None:
    jobs, user = Jobs(stage), User(stage, "bob", leave_out="patch")
    jobs.create("train", 1)
    for command in ("hold train", "hold train --dry-run", "requeue train"):
        output = user.types(command, 2)
        assert output.startswith(f"you lack the right to patch jobs.batch in namespace {stage.namespace}"), output
    assert "muster.dev/hold" not in (jobs.get("train")["metadata"].get("annotations") or {})
    assert "there is no gang, job or pod trian" in user.types("hold trian", 2)
