"""The dependencies of Muster: the lock file pins every file by its hash, and known vulnerabilities are looked up."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.written import written

ROOT = Path(__file__).parent.parent
CHART = Path("charts/muster/Chart.yaml")
PINNED = next((ROOT / ".uv" / "bin").glob("uv-*"), None)
ADVISORY = {"id": "PYSEC-2099-1", "modified": "2099-01-01T00:00:00Z", "summary": "everything is lost"}


def test_every_file_of_every_dependency_is_pinned_by_its_hash() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    for package in packages:
        if package["name"] == "muster-scheduler":
            continue
        assert package["source"] == {"registry": "https://pypi.org/simple"}, package["name"]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files, package["name"]
        assert all(file["hash"].startswith("sha256:") for file in files), package["name"]


def test_the_build_backend_is_the_one_of_the_lock_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [backend] = project["build-system"]["requires"]
    name, _, version = backend.partition("==")
    locked = {
        package["name"]: package["version"] for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    }
    assert locked[name] == version
    assert backend in project["dependency-groups"]["build"]
    assert project["tool"]["uv"]["no-build-isolation-package"] == [project["project"]["name"]]
    assert "build" in project["tool"]["uv"]["default-groups"]
    assert "--group build --extra server" in (ROOT / "Dockerfile").read_text()


def test_uv_is_fetched_by_its_hashes_and_no_other_way() -> None:
    lines = [line for line in (ROOT / ".ci" / "uv.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert re.fullmatch(r"uv==[\d.]+ \\", lines[0])
    assert len(lines) > 10
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines[1:])
    for file in ("Makefile", "Dockerfile"):
        installs = [line for line in (ROOT / file).read_text().splitlines() if re.search(r"pip install", line)]
        assert len(installs) == 1
        assert all("--require-hashes" in line and "uv.txt" in line for line in installs)
    # Images come by FROM alone, where .ci/digests sees them.
    assert "COPY --from=builder" in (ROOT / "Dockerfile").read_text()
    assert len(re.findall(r"--from=", (ROOT / "Dockerfile").read_text())) == 1


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """A copy of the files that a release builds from and installs, before the digests are filled in."""
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    shutil.copytree(ROOT / "charts", tmp_path / "charts")
    for file in (tmp_path / "Dockerfile", CHART, *tmp_path.glob("manifests/**/*.yaml")):
        (tmp_path / file).write_text(re.sub(r"@sha256:[0-9a-f]{64}", "", (tmp_path / file).read_text()))
    return tmp_path


def digests(root: Path, *args: str, registry: str = "") -> subprocess.CompletedProcess[str]:
    """``registry``: a docker command that plays it."""
    docker = root / "docker"
    docker.write_text(f"#!/bin/sh\n{registry}\n")
    docker.chmod(0o755)
    env = {**os.environ, "PATH": f"{root}:{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / ".ci" / "digests"), *args]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


def test_no_release_names_an_image_by_its_tag_alone(shipped: Path) -> None:
    refused = digests(shipped)
    assert refused.returncode == 1
    for image in ("debian:trixie-slim", "registry.k8s.io/kube-scheduler:v1.37.2", "ghcr.io/muster-dev/muster:"):
        assert image in refused.stderr
    others = digests(shipped, "--others")  # before Muster's own is pushed
    assert others.returncode == 1
    assert "muster-dev/muster" not in others.stderr
    assert ".ci/digests --others" in (ROOT / ".ci" / "release").read_text()


def test_digests_are_filled_in_once(shipped: Path) -> None:
    digest = "sha256:" + "5" * 64
    filled = digests(shipped, "--fill", registry=f"echo {digest}")
    assert filled.returncode == 0, filled.stderr
    assert digests(shipped).returncode == 0
    dockerfile = (shipped / "Dockerfile").read_text()
    assert len(re.findall(rf"^FROM debian:\S+@{digest}( AS builder)?$", dockerfile, re.MULTILINE)) == 2
    pods = yaml.safe_load((shipped / "manifests" / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert all(
        container["image"].endswith(f"@{digest}") for container in [*pods["initContainers"], *pods["containers"]]
    )
    assert digests(shipped, "--fill", registry="exit 1").stdout == ""


def test_the_chart_has_the_digests_as_well(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "sha256:" + "5" * 64
    assert digests(shipped, "--fill", registry=f"echo {digest}").returncode == 0
    monkeypatch.setattr("charts.templates.MANIFESTS", shipped / "manifests")
    images = shipped / "charts/muster/files/images.yaml"
    assert images.read_text() == written()["files/images.yaml"], "as `make chart` would write it"
    known = yaml.safe_load(images.read_text())["digests"]
    hub = yaml.safe_load((shipped / CHART).read_text())["annotations"]["artifacthub.io/images"]
    assert {image["image"] for image in yaml.safe_load(hub)} == {f"{image}@{digest}" for image in known}
    images.write_text(images.read_text().replace("555", "666"))
    stale = digests(shipped)
    assert (stale.returncode, "its digests are not those of manifests/base" in stale.stderr) == (1, True)


def test_a_registry_that_does_not_answer_pins_nothing(shipped: Path) -> None:
    before = (shipped / "Dockerfile").read_text()
    failed = digests(shipped, "--fill", registry="echo no such host >&2; exit 1")
    assert failed.returncode == 1
    assert "no such host" in failed.stderr
    assert (shipped / "Dockerfile").read_text() == before


class Advisories(BaseHTTPRequestHandler):
    """The part of OSV that is asked: only the named packages are vulnerable."""

    vulnerable: tuple[str, ...] = ()

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        results = [{"vulns": [ADVISORY]} if query["package"]["name"] in self.vulnerable else {} for query in queries]
        self._say({"results": results})

    def do_GET(self) -> None:
        self._say(ADVISORY)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        pass

    def _say(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def database(*vulnerable: str) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), type("Some", (Advisories,), {"vulnerable": vulnerable}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def audit(address: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # No other reader of the environment's proxies: both ends are here.
    env = {**os.environ, "NO_PROXY": "127.0.0.1", "UV_HTTP_RETRIES": "0", **environment}
    command = [str(ROOT / ".ci" / "audit"), str(PINNED), "--service-url", address]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.skipif(PINNED is None, reason="make fetches uv into .uv, and has not yet")
def test_a_known_vulnerability_fails_and_a_silent_database_is_told_of() -> None:
    with database() as address:
        clean = audit(address)
    if "NOT AUDITED" in clean.stderr:
        pytest.skip("the package index, which is asked too, cannot be reached")
    assert clean.returncode == 0, clean.stderr
    assert "no known vulnerabilities" in clean.stdout

    with database("aiohttp") as address:
        vulnerable = audit(address)
    assert vulnerable.returncode == 1
    assert "aiohttp" in vulnerable.stdout
    assert "PYSEC-2099-1" in vulnerable.stdout

    gone = audit(address)
    assert gone.returncode == 0
    assert "NOT AUDITED" in gone.stderr
    assert audit(address, AUDIT="required").returncode != 0
