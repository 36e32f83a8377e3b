"""Records the requests of the real kube-scheduler: `python -m tests.contract.record` writes
tests/contract/recorded/*.json.

An extender that agrees to everything answers it, once with node names and once with whole nodes on the wire. Run
again when the version of kube-scheduler changes, and look at the difference.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import typer

from devcluster import Cluster
from devcluster.api import Api, Object

RECORDED = Path(__file__).parent / "recorded"
PODS = "/api/v1/namespaces/default/pods"


class Recorder(ThreadingHTTPServer):
    """Keeps the first request of every verb, and answers as an extender without opinions would."""

    def __init__(self, api: Api, mode: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.api = api
        self.mode = mode
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, verb: str, body: bytes) -> Any:
        request = json.loads(body)
        target = RECORDED / f"{verb}-{self.mode}.json"
        if not target.exists():
            target.write_bytes(body.strip() + b"\n")
        match verb:
            case "filter":
                return {"NodeNames": request["NodeNames"], "Nodes": request["Nodes"], "Error": ""}
            case "prioritize":
                nodes = request["NodeNames"] or [node["metadata"]["name"] for node in request["Nodes"]["items"]]
                return [{"Host": node, "Score": 0} for node in nodes]
            case "preempt":
                victims = request["NodeNameToMetaVictims"] or {
                    node: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in entry["Pods"]]}
                    for node, entry in request["NodeNameToVictims"].items()
                }
                return {"NodeNameToMetaVictims": victims}
            case _:
                return {"Error": self._bind(request)}

    def _bind(self, request: Object) -> str:
        path = f"/api/v1/namespaces/{request['PodNamespace']}/pods/{request['PodName']}/binding"
        meta = {"name": request["PodName"], "uid": request["PodUID"]}
        self.api.create(path, {"metadata": meta, "target": {"kind": "Node", "name": request["Node"]}})
        return ""


class Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content = json.dumps(self.server.answer(self.path.strip("/"), body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """The requests are the output."""


def pod(name: str, priority: str) -> Object:
    """A pod that takes a whole node."""
    amount = {"cpu": "1", "nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "train", "resources": {"requests": amount, "limits": amount}}
    spec = {"priorityClassName": priority, "terminationGracePeriodSeconds": 0, "containers": [container]}
    annotations = {"muster.dev/pod-group": "train", "muster.dev/min-member": "1"}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def record(cluster: Cluster, mode: str, *, names_only: bool) -> None:
    """Two pods fill two nodes (filter, prioritize, bind), and a third one preempts one of them."""
    with Recorder(cluster.api, mode) as recorder:
        threading.Thread(target=recorder.serve_forever, daemon=True).start()
        verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "bind", "preempt")}
        entry = {"urlPrefix": recorder.url, "weight": 1, "nodeCacheCapable": names_only, **verbs}
        scheduler = cluster.start_scheduler({"leaderElection": {"leaderElect": False}, "extenders": [entry]})
        for name in ("low-0", "low-1"):
            cluster.api.create(PODS, pod(name, "low"))
        cluster.api.wait_for(PODS, lambda pods: sum("nodeName" in seen["spec"] for seen in pods) == 2)
        cluster.api.create(PODS, pod("high", "high"))
        cluster.api.wait_for(f"{PODS}/high", lambda seen: seen and seen["spec"].get("nodeName"))
        scheduler.terminate()
        cluster.api.delete(PODS, {"gracePeriodSeconds": 0})
        cluster.api.wait_for(PODS, lambda pods: not pods)
        recorder.shutdown()


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    for old in RECORDED.glob("*.json"):
        old.unlink()
    with Cluster(progress=typer.echo) as cluster:
        cluster.add_nodes(2)
        for name, value in (("low", 1), ("high", 1000)):
            cluster.api.create(
                "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
            )
        cluster.api.wait_for("/api/v1/namespaces/default/serviceaccounts/default", bool)
        record(cluster, "names", names_only=True)
        record(cluster, "nodes", names_only=False)
    typer.echo(f"recorded {len(list(RECORDED.glob('*.json')))} requests in {RECORDED}")


if __name__ == "__main__":
    main()
