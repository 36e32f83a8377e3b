"""What Muster is built from: the lock file pins every file by its hash, and known vulnerabilities are looked up."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
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


class Advisories(BaseHTTPRequestHandler):
    """As much of OSV as is asked for: nobody is vulnerable but those who are named."""

    vulnerable: tuple[str, ...] = ()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        found = [{"vulns": [ADVISORY]} if one["package"]["name"] in self.vulnerable else {} for one in asked]
        self._say({"results": found})

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
        found = audit(address)
    assert found.returncode == 1
    assert "aiohttp" in found.stdout
    assert "PYSEC-2099-1" in found.stdout

    gone = audit(address)
    assert gone.returncode == 0
    assert "NOT AUDITED" in gone.stderr
    assert audit(address, AUDIT="required").returncode != 0
