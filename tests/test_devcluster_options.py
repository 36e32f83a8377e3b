"""`make devcluster`: settings and controllers are checked before anything is started, and a death is reported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from typer.testing import CliRunner

from devcluster.__main__ import app, ended
from devcluster.errors import ClusterError
from devcluster.installed import InstalledMuster
from devcluster.muster import read_settings, shipped_settings, with_components
from extender.cli.main import main
from extender.core.limits import Preempts

RUNNER = CliRunner()


@pytest.mark.parametrize("text", ["preemption: perhaps\n", "preemptoin: 'on'\n", "preemption: [\n", "- 3\n"])
def test_mistakes_in_settings_are_those_that_muster_serve_names(tmp_path: Path, text: str) -> None:
    (tmp_path / "my.yaml").write_text(text)
    here = RUNNER.invoke(app, ["--muster", "--config", str(tmp_path / "my.yaml")])
    there = RUNNER.invoke(main, ["serve", "--config", str(tmp_path / "my.yaml")])
    assert (here.exit_code, here.output) == (there.exit_code, there.output)
    assert here.exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--config", "my.yaml"], "goes with --muster"),
        (["--muster", "--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--helm", "--muster"], "you install Muster yourself"),
        (["--controllers", "jobset,slurm"], "there is no controller slurm; there are jobset,"),
    ],
)
def test_options_that_mean_nothing_are_refused_before_anything_starts(options: list[str], message: str) -> None:
    result = RUNNER.invoke(app, options, env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_settings_file_is_read_over_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text('preemption: "on"\nscheduler_names: [muster, volcano]\n')
    settings = read_settings(tmp_path / "my.yaml")
    assert (settings.preemption, settings.scheduler_names) == (Preempts.ON, ("muster", "volcano"))
    assert settings.bind_timeout_s == shipped_settings()["bind_timeout_s"]
    assert read_settings(None).scheduler_names == ("muster",)


def test_the_manifests_have_the_components_that_are_asked_for(tmp_path: Path) -> None:
    folder = with_components(tmp_path / "made", "preemption", "elastic")
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert [Path(component).name for component in kustomization["components"]] == ["preemption", "elastic"]
    assert all(
        (folder / entry / "kustomization.yaml").exists()
        for entry in (*kustomization["resources"], *kustomization["components"])
    )


def test_a_process_that_has_ended_is_reported_once_with_its_last_lines() -> None:
    def process(name: str, *, running: bool) -> Any:
        return SimpleNamespace(
            name=name, running=running, returncode=-9, log=Path("logs/muster.log"), tail=lambda lines: f"{lines} lines"
        )

    watched = cast("Any", [process("etcd", running=True), process("muster", running=False)])
    assert ended(watched) == ["muster has ended (exit code -9); the last lines of logs/muster.log:\n5 lines"]
    assert [alive.name for alive in watched] == ["etcd"]
    assert ended(watched) == []


def test_an_installed_muster_runs_as_its_newest_pods_and_says_when_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[Any] = []
    pods: list[dict[str, Any]] = []

    class Running:
        def __init__(self, *args: Any, namespace: str, port: int) -> None:
            assert (namespace, port) == ("team", 10290)
            for name in ("muster", "kube-scheduler-muster"):
                process = SimpleNamespace(name=name, running=True)
                process.terminate = lambda process=process: running.remove(process)
                running.append(process)
            self.extender, self.scheduler = running
            if args[1] == {"bad": True}:
                raise ClusterError("muster ended (2)")

    def api_of(config: str) -> Any:
        stored = {"data": {"config.yaml": config}}
        return SimpleNamespace(list=lambda *_, **__: pods, get=lambda _: stored)

    monkeypatch.setattr("devcluster.installed.RunningMuster", Running)
    cluster = SimpleNamespace(free_port=lambda: 10290, processes=running, api=api_of("{}"))
    installed, watched = InstalledMuster(cast("Any", cluster)), cast("Any", [])
    assert installed.play(watched) == []
    pods.append(_pod_of_muster("1", "2026-01-01T00:00:01Z"))
    assert installed.play(watched) == ["Muster runs as team/muster-1"]
    assert installed.play(watched) == []
    assert watched == running
    cluster.api = api_of("bad: true")
    pods.insert(0, _pod_of_muster("2", "2026-01-01T00:00:02Z"))
    assert installed.play(watched) == ["Muster does not run as team/muster-2: muster ended (2)"]
    assert installed.play(watched) == running == watched == []
    pods.clear()
    assert installed.play(watched) == ["Muster's pods are gone, and its processes have ended"]


def _pod_of_muster(revision: str, created: str) -> dict[str, Any]:
    labels = {"pod-template-hash": revision}
    names = ("muster-config", "scheduler-config")
    return {
        "metadata": {"namespace": "team", "labels": labels, "creationTimestamp": created},
        "spec": {
            "volumes": [{"name": name, "configMap": {"name": name}} for name in names],
            "containers": [{"name": "kube-scheduler", "command": ["kube-scheduler", "--config=x"]}],
        },
        "status": {"phase": "Running"},
    }
