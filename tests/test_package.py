"""The package as people install it: the wheel with and without the server's dependencies."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import typer

from extender.cli.main import main

ROOT = Path(__file__).parent.parent
UV = next((ROOT / ".uv" / "bin").glob("uv-*"), None)
COMMANDS = sorted(typer.main.get_command(main).commands)  # type: ignore[attr-defined]
HELPS = """
import typer.testing, extender.cli.main as cli
for name in sorted(typer.main.get_command(cli.main).commands):
    shown = typer.testing.CliRunner().invoke(cli.main, [name, "--help"], prog_name="muster")
    print(f"{name}: {shown.output.strip()[:14 if shown.exit_code == 0 else 20]}")
"""
"""All in one process: to start each by itself takes half a minute."""
BAR_MB = 154
"""Half of the size of the whole before the client could be installed alone."""

pytestmark = pytest.mark.skipif(UV is None, reason="make fetches uv into .uv, and has not yet")


def uv(*args: str, cwd: Path = ROOT) -> str:
    # As a user's pip: neither this checkout's environment nor its settings.
    env = {name: text for name, text in os.environ.items() if not name.startswith(("UV_PROJECT", "VIRTUAL_ENV"))}
    done = subprocess.run([str(UV), *args], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a release builds it: by the backend of the lock file."""
    at = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--wheel", "--no-build-isolation", f"--python={sys.executable}", f"--out-dir={at}")
    [built] = at.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions of the lock file, which are in the cache, with all extras."""
    at = tmp_path_factory.mktemp("locked") / "constraints.txt"
    uv("export", "--quiet", "--frozen", "--no-emit-project", "--no-default-groups", "--all-extras", "--no-hashes",
       f"--output-file={at}")  # fmt: skip
    return at


def installed(at: Path, locked: Path, *what: str) -> Path:
    """The folder with the programs of a new environment."""
    uv("venv", "--quiet", f"--python={sys.executable}", str(at))
    python = at / "bin" / "python"
    uv("pip", "install", "--quiet", f"--python={python}", f"--constraint={locked}", *what)
    return python.parent


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, wheel: Path, locked: Path) -> Path:
    return installed(tmp_path_factory.mktemp("client") / "venv", locked, "--compile-bytecode", str(wheel))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, wheel: Path, locked: Path) -> Path:
    return installed(tmp_path_factory.mktemp("whole") / "venv", locked, f"{wheel}[server]")


def ran(program: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run somewhere else than in the checkout, whose modules would be found there."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(program.parent), "COLUMNS": "120", **env}
    return subprocess.run([program, *args], cwd=program.parent, env=clean, capture_output=True, text=True, check=False)


def size_mb(directory: Path) -> int:
    """Megabytes on disk, in blocks as du counts them."""
    return sum(path.lstat().st_blocks for path in directory.rglob("*")) * 512 >> 20


def test_the_wheel_brings_all_programs_and_the_two_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [points] = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    assert {"muster", "kubectl-muster", "kubectl_complete-muster"} <= {
        line.partition(" = ")[0] for line in points.splitlines()
    }
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "dashboard",
        "extender",
        "policies",
        "muster_scheduler",
    }


def test_the_client_alone_is_less_than_half_of_the_whole(client: Path) -> None:
    """Compiled, as pip leaves it. It was 308 MB with all that the server needs."""
    assert size_mb(client.parent) < BAR_MB
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["server"]
    packages = {path.name.lower() for path in client.parent.glob("lib/python*/site-packages/*")}
    assert "numpy" in packages
    for requirement in server:
        assert requirement.partition(">=")[0].replace("-", "_") not in packages


@pytest.mark.parametrize("extra", ["client", "whole"])
def test_every_command_shows_its_help_and_the_simulation_runs(
    extra: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    programs: Path = request.getfixturevalue(extra)
    assert ran(programs / "kubectl-muster", "--version").stdout == ran(programs / "muster", "--version").stdout
    helped = ran(programs / "python", "-I", "-c", HELPS)
    assert helped.returncode == 0, helped.stderr
    shown = dict.fromkeys(COMMANDS, "Usage: muster ") | {"demo": "the demo needs a sou"}  # or the checkout
    assert helped.stdout.splitlines() == [f"{name}: {begins}" for name, begins in sorted(shown.items())]
    trace = tmp_path / "jobs.csv"
    trace.write_text("submission_time,duration,num_gpu\n0,60,16\n5,60,16\n")
    simulated = ran(
        programs / "muster", "simulate", f"--trace={trace}", "--cluster=2 nodes x 8 GPUs", "--scheduler=muster"
    )
    assert simulated.returncode == 0, simulated.stderr
    assert "muster" in simulated.stdout


def test_the_client_alone_says_in_a_sentence_what_the_server_needs(client: Path, tmp_path: Path) -> None:
    served = ran(client / "muster", "serve")
    assert served.returncode == 2
    [sentence] = served.stderr.splitlines()
    assert sentence.startswith("muster serve needs ")
    assert sentence.endswith("install muster-scheduler[server], as docs/install.md shows")


def test_the_whole_serves(whole: Path, tmp_path: Path) -> None:
    served = ran(whole / "muster", "serve", KUBECONFIG=str(tmp_path / "none"))
    assert served.returncode == 2
    assert "there is no kubeconfig" in served.stderr


def test_the_client_alone_asks_the_api_server_by_kubectl(client: Path, tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "error: the context $* is not here" >&2\nexit 1\n')
    kubectl.chmod(0o755)
    result = ran(
        client / "muster",
        "snapshot",
        "--context=prod",
        f"--output={tmp_path / 'out'}",
        PATH=f"{tmp_path}:/bin:/usr/bin",
    )
    assert result.returncode == 2
    assert "kubectl could not log in: error: the context --context=prod proxy" in result.stderr
