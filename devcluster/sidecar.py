"""A mutating webhook that gives each pod a sidecar, as a service mesh does: `sidecar.py PORT CERTIFICATE KEY`.

It runs as a process of the cluster, with the standard library alone.
"""

import base64
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = "mesh-proxy"
SIDECAR: dict[str, Any] = {
    "name": NAME,
    "image": "registry.example.com/proxy:1",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1337,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}


def patch_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch that adds the sidecar to a pod, empty for one that has it."""
    containers = pod["spec"].get("initContainers") or []
    if any(container["name"] == NAME for container in containers):
        return []
    return [{"op": "add", "path": "/spec/initContainers", "value": [SIDECAR, *containers]}]


class Handler(BaseHTTPRequestHandler):
    """Answers AdmissionReviews, and a GET that asks whether it is well."""

    protocol_version = "HTTP/1.1"  # the API server keeps its connections

    def do_GET(self) -> None:
        self._answer(b"ok")

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        patch = base64.b64encode(json.dumps(patch_of(request["object"])).encode()).decode()
        review["response"] = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch}
        del review["request"]
        self._answer(json.dumps(review).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """A line for each pod would be most of the logs."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Does each handshake in the thread of its connection, so that a silent client holds up no other."""

    daemon_threads = True
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        super().finish_request(self.context.wrap_socket(request, server_side=True), client_address)


def main() -> None:
    port, certificate, key = sys.argv[1:]
    server = Server(("127.0.0.1", int(port)), Handler)
    server.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.context.load_cert_chain(certificate, key)
    server.serve_forever()


if __name__ == "__main__":
    main()
