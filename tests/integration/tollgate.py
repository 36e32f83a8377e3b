"""A second extender that stops kube-scheduler at a chosen pod: a gang is caught half way, whatever the machine's speed.

kube-scheduler asks its extenders one after the other and tries one pod at a time. The toll gate stands behind
Muster, so it is asked only about pods that Muster has passed. While it does not answer, no further pod is tried.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 60


class TollGate:
    """Open at first: every pod may go to each of the nodes that it is asked about."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._left: int | None = None
        self._barred: tuple[str, ...] = ()
        self._stopped = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"gate": self}))
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open()
        self._server.shutdown()
        self._server.server_close()

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of the gate in KubeSchedulerConfiguration."""
        return {
            "urlPrefix": f"http://127.0.0.1:{self._server.server_port}",
            "filterVerb": "filter",
            "httpTimeout": f"{PATIENCE_S}s",
            "nodeCacheCapable": True,
            "ignorable": True,
        }

    def bar(self, *prefixes: str) -> None:
        """Fail kube-scheduler, from now on, on the pods whose names begin so, and on no others.

        It tries them again with its back-off, and others meanwhile. It must not be free to ignore the toll gate.
        """
        self._barred = prefixes

    def bars(self, name: str) -> bool:
        return name.startswith(self._barred)

    def close_after(self, pods: int) -> None:
        """Let the next ``pods`` pods pass; the one after them is kept waiting, and kube-scheduler with it.

        A pod that waits is the first of them.
        """
        with self._changed:
            self._left = pods
            self._changed.notify_all()

    def open(self) -> None:
        with self._changed:
            self._left = None
            self._changed.notify_all()

    def wait_stopped(self) -> None:
        """Return when a pod is kept waiting."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._stopped > 0, PATIENCE_S):
                raise TimeoutError("nobody came to the closed toll gate")

    def pass_through(self) -> None:
        with self._changed:
            if self._left == 0:
                self._stopped += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._left != 0, PATIENCE_S)
                self._stopped -= 1
            if self._left:
                self._left -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gate: TollGate

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.gate.pass_through()
        verdict = {"NodeNames": question["NodeNames"]}
        if self.gate.bars(question["Pod"]["metadata"]["name"]):
            verdict = {"Error": "the toll gate is closed to this pod"}
        answer = json.dumps(verdict).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except ConnectionError:
            pass  # kube-scheduler was killed while it waited

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class calls it so)
        """Discard the message: the tests assert what matters."""
