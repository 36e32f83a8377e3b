"""How busy GPUs are, by a real Prometheus that scrapes an exporter with the names of DCGM exporter."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from devcluster.ports import free_port
from devcluster.prometheus import prometheus
from extender.observe.prometheus import Prometheus
from extender.observe.utilisation import Load
from tests.utilisation import ACTIVE, UTIL, WINDOW_S

PATIENCE_S, POLL_EVERY_S = 60.0, 0.05
STEP_S, PAST_S = 30, WINDOW_S + 600
FULL = 0
YOUNG_S = 600
"""Seconds since the young pod got its GPU, and since the pod that is gone lost its own."""


@dataclass(frozen=True)
class Series:
    """A GPU's series. ``since``, ``until``: seconds ago."""

    metric: str
    labels: Mapping[str, object]
    value: str
    since: int = PAST_S
    until: int = FULL


def of_pod(pod: str, gpu: int, **labels: str) -> dict[str, object]:
    """Return the labels as the exporter has them."""
    return {"gpu": gpu, "Hostname": "a-0", "namespace": "team-a", "pod": pod, **labels}


MIG = {"GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": "7"}
SERIES = (
    Series(UTIL, of_pod("idle-0", 0), "3"),
    Series(UTIL, of_pod("idle-0", 1), "5"),
    Series(UTIL, of_pod("busy-0", 2), "90"),
    Series(UTIL, of_pod("young-0", 3), "0", since=YOUNG_S),
    Series(UTIL, of_pod("gone-0", 4), "0", until=YOUNG_S),
    Series(UTIL, of_pod("broken-0", 5), "NaN"),
    Series(UTIL, of_pod("mig-0", 6, **MIG), "0"),
    Series(UTIL, {"gpu": 7, "Hostname": "a-0"}, "0"),
    Series(ACTIVE, of_pod("mig-0", 6, **MIG), "0.5"),
    Series(ACTIVE, of_pod("busy-0", 2), "0.1"),
)


def text(labels: Mapping[str, object]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


class Exporter(BaseHTTPRequestHandler):
    """The page of the GPUs as they are now."""

    def do_GET(self) -> None:
        page = "".join(
            f"{series.metric}{{{text(series.labels)}}} {series.value}\n" for series in SERIES if series.until == FULL
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def exporter() -> Iterator[int]:
    """The port of the exporter."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def history(honors: bool, target: Mapping[str, str]) -> str:
    """The past as Prometheus would have stored it, up to a minute ago, in OpenMetrics' format."""
    now, lines = int(time.time()), []
    for metric in (UTIL, ACTIVE):
        lines.append(f"# TYPE {metric} gauge")
        for chosen in (series for series in SERIES if series.metric == metric):
            own = {
                name if honors or name not in target else f"exported_{name}": chosen.labels[name]
                for name in chosen.labels
            }
            labels = text({**target, **own})
            instants = range(now - chosen.since, now - max(chosen.until, 60) + 1, STEP_S)
            lines += [f"{metric}{{{labels}}} {chosen.value} {instant}" for instant in instants]
    return "\n".join([*lines, "# EOF", ""])


@pytest.mark.parametrize("honors", [False, True])
def test_a_real_prometheus_says_how_busy_gpus_are(honors: bool, exporter: int, tmp_path: Path) -> None:
    program, tool = prometheus()
    address = f"127.0.0.1:{exporter}"
    target = {"namespace": "gpu-operator", "pod": "exporter"}
    static = f"{{targets: ['{address}'], labels: {{{', '.join(f'{key}: {value}' for key, value in target.items())}}}}}"
    (tmp_path / "prometheus.yml").write_text(
        f"scrape_configs: [{{job_name: dcgm, scrape_interval: 1s, honor_labels: {str(honors).lower()}, "
        f"static_configs: [{static}]}}]\n"
    )
    (tmp_path / "past").write_text(history(honors, {**target, "instance": address, "job": "dcgm"}))
    made = [str(tool), "tsdb", "create-blocks-from", "openmetrics", "past", "data"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    argv = [str(program), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen([*argv, f"--web.listen-address=127.0.0.1:{port}"], cwd=tmp_path, stderr=log)
    try:
        pods = asyncio.run(asked(f"http://127.0.0.1:{port}"))
    finally:
        running.terminate()
        running.wait()
    assert {pod: load for (namespace, pod), load in pods.items() if namespace == "team-a"} == {
        "idle-0": {"": Load(2, 4.0)},
        "busy-0": {"": Load(1, 90.0)},
        "mig-0": {"1g.10gb": Load(1, 50.0)},
    }


async def asked(url: str) -> Mapping[tuple[str, str], Mapping[str, Load]]:
    """Ask it once it has scraped the exporter."""
    known = Prometheus(url, below_percent=10.0, window_s=WINDOW_S)
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.timeout(PATIENCE_S):
        while not await scraped(client):  # noqa: ASYNC110 - another process scrapes, and says it when asked
            await asyncio.sleep(POLL_EVERY_S)
        await known.ask(client)
    assert known.utilisation.problem == ""
    return known.utilisation.loads.pods


async def scraped(client: httpx.AsyncClient) -> bool:
    """Return whether the exporter has been scraped."""
    try:
        answer = await client.get("/api/v1/query", params={"query": 'up{job="dcgm"} == 1'})
    except httpx.HTTPError:
        return False
    return answer.is_success and bool(answer.json()["data"]["result"])
