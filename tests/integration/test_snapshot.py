"""A snapshot of a live control plane: `muster simulate` predicts what Muster then does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from extender.cli.main import main as muster
from extender.cli.simulate import main as simulate
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gang
from tests.scenarios.scenario import until_bound, until_reason
from tests.scenarios.stage import Object

pytestmark = pytest.mark.xdist_group("snapshot")

OURS, NOT_YET = "muster.dev/gang", "example.com/not-yet"


def taken(cluster: Cluster, path: Path, *args: str) -> str:
    ended = CliRunner().invoke(muster, ["snapshot", "-o", str(path), "--kubeconfig", str(cluster.kubeconfig), *args])
    assert ended.exit_code == 0, ended.output
    return path.read_text()


def foretold(path: Path) -> dict[str, dict[str, str]]:
    """Gang -> pod -> node, as `muster simulate` says."""
    verdict = path.with_suffix(".verdict")
    ended = CliRunner().invoke(simulate, ["--snapshot", str(path), "--json", str(verdict)])
    assert ended.exit_code == 0, ended.output
    (entry,) = json.loads(verdict.read_text())["verdicts"]
    return {answer["gang"].partition("/")[2]: answer["nodes"] for answer in entry["answers"]}


def test_what_is_foretold_comes_true(cluster: Cluster, stage: RealStage, tmp_path: Path) -> None:
    stage.add_nodes(4, clique="wide")
    stage.add_nodes(2, clique="tight")
    gangs = {"a-large": 3, "b-small": 2, "c-late": 2}
    for name, size in gangs.items():
        # A foreign gate blocks them until the snapshot has been taken.
        for member in gang(name, size, gates=(OURS, NOT_YET)):
            member["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hush-hush"}]
            stage.create(member)
    text = taken(cluster, tmp_path / "live.json")
    assert "TOKEN" not in text
    assert "hush" not in text
    assert not any(foretold(tmp_path / "live.json").values()), "as it is, everybody waits for the other gate"
    (tmp_path / "open.json").write_text(text.replace(NOT_YET, OURS))
    forecast = foretold(tmp_path / "open.json")
    assert {name: len(nodes) for name, nodes in forecast.items()} == {"a-large": 3, "b-small": 2, "c-late": 0}

    for pod in stage.pods():
        stage.open_gate(pod.name, NOT_YET)
    until_bound(stage, "a-large", 3)
    until_bound(stage, "b-small", 2)
    until_reason(stage, "c-late", "NoRoom")
    for name in gangs:
        assert {pod.name: pod.node for pod in bound(stage.pods(), name)} == forecast[name]


def test_a_snapshot_without_names_has_none(cluster: Cluster, stage: RealStage, tmp_path: Path) -> None:
    stage.add_nodes(2, clique="secret-project")
    stage.create(*gang("apollo", 2))
    until_bound(stage, "apollo", 2)
    text = taken(cluster, tmp_path / "hidden.json", "--anonymise")
    for word in (stage.namespace, "secret-project", "apollo"):
        assert word not in text
    assert foretold(tmp_path / "hidden.json") == {}, "the gang that runs lacks nothing"


def stateful_set(name: str, replicas: int, management: str) -> Object:
    (member,) = gang(name, 1, gates=(OURS, NOT_YET))
    labels = {"muster.dev/gang": "true", "app": name}
    spec = {
        "replicas": replicas,
        "podManagementPolicy": management,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": member["spec"] | {"schedulerName": "muster"}},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def test_gangs_of_owners_have_their_size_and_their_waves(cluster: Cluster, stage: RealStage, tmp_path: Path) -> None:
    stage.add_nodes(4, clique="wide")
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/statefulsets"
    for obj in (stateful_set("a-whole", 2, "Parallel"), stateful_set("b-large", 3, "OrderedReady")):
        stage.api.create(path, obj)
    stage.until(lambda pods: len(pods) == 3)
    text = taken(cluster, tmp_path / "live.json")
    (tmp_path / "open.json").write_text(text.replace(NOT_YET, OURS))
    forecast = foretold(tmp_path / "open.json")
    assert {name: len(nodes) for name, nodes in forecast.items()} == {
        "statefulset-a-whole": 2,
        "statefulset-b-large": 0,
    }

    for pod in stage.pods():
        stage.open_gate(pod.name, NOT_YET)
    until_bound(stage, "statefulset-a-whole", 2)
    until_reason(stage, "statefulset-b-large", "NoRoom")
    whole = {pod.name: pod.node for pod in bound(stage.pods(), "statefulset-a-whole")}
    assert whole == forecast["statefulset-a-whole"]
    for name in ("a-whole", "b-large"):
        stage.api.delete(f"{path}/{name}", {"propagationPolicy": "Background"})
