"""The creator's side of the supervisor: starts processes and knows which of them still run."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from devcluster import supervisor
from devcluster.errors import ClusterError

TAIL_LINES = 15


class Process:
    """A process of a cluster. It ends with the cluster at the latest."""

    def __init__(self, owner: "Supervised", ident: int, name: str, log: Path) -> None:
        self.name = name
        self.request: dict[str, Any] = {}
        self.log = log
        self.pid = 0
        self.returncode: int | None = None
        self.failure = ""
        self._owner = owner
        self._ident = ident
        self._answered = threading.Event()
        self._ended = threading.Event()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    def signal(self, number: int) -> None:
        """Send a signal to the process; nothing happens if it has ended."""
        self._owner.send({"do": "signal", "id": self._ident, "signal": int(number), "group": False})

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Ask the process to end (SIGTERM) and wait until it has."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> int:
        """End the process and its own children at once (SIGKILL) and wait until it is gone."""
        self._owner.send({"do": "signal", "id": self._ident, "signal": int(signal.SIGKILL), "group": True})
        return self.wait()

    def wait(self, timeout_s: float | None = None) -> int:
        """The return code, as `subprocess` has it: minus the signal if one ended the process."""
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"{self.name} (pid {self.pid}) still runs after {timeout_s} s")
        assert self.returncode is not None  # noqa: S101 - set before the event
        return self.returncode

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of the log, for messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


P = TypeVar("P", bound=Process)


class Supervised:
    """The supervisor process, its directory, and the processes it is the parent of."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        self._socket = mine
        argv = [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno()), str(os.getpid())]
        # A session of its own: Ctrl-C in a terminal reaches the creator alone, which then stops the cluster in order.
        self._supervisor = subprocess.Popen(
            argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._lines = mine.makefile("rb")
        self._processes: dict[int, Process] = {}
        self._idents = itertools.count(1)
        self._sending = threading.Lock()
        self.directory = Path(json.loads(self._lines.readline())["directory"])
        (self.directory / "logs").mkdir()
        self._reader = threading.Thread(target=self._read_reports, name="devcluster-reports", daemon=True)
        self._reader.start()

    def start(
        self,
        name: str,
        argv: Sequence[str | os.PathLike[str]],
        env: Mapping[str, str] | None = None,
        kind: Callable[["Supervised", int, str, Path], P] = Process,  # type: ignore[assignment]
        hostname: str = "",
    ) -> P:
        """Run a program with this process's environment plus `env`; its output goes to logs/<name>.log.

        With a `hostname` it sees that as the name of its host, as the containers of one pod do.
        """
        process = kind(self, next(self._idents), name, self.directory / "logs" / f"{name}.log")
        process.request = {
            "do": "start",
            "argv": [os.fspath(word) for word in argv],
            "env": {**os.environ, **(env or {})},
            "log": str(process.log),
            "hostname": hostname,
        }
        return self._run(process)

    def again(self, ended: Process) -> Process:
        """Run a program once more, with the same command line and log, after its process has ended."""
        process = Process(self, next(self._idents), ended.name, ended.log)
        process.request = ended.request
        return self._run(process)

    def _run(self, process: P) -> P:
        self._processes[process._ident] = process
        self.send({**process.request, "id": process._ident})
        process._answered.wait()
        if process.failure:
            raise ClusterError(f"cannot start {process.name}: {process.failure}")
        return process

    def running(self) -> list[Process]:
        """The processes that have been started and have not ended, in order of start."""
        return [process for process in self._processes.values() if process.running]

    def send(self, request: dict[str, Any]) -> None:
        try:
            with self._sending:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            if request["do"] == "start":
                raise ClusterError("the cluster has been stopped: its supervisor is gone") from None

    def stop(self) -> None:
        """Kill every process and delete the directory; returns when both are done."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._supervisor.wait()
        self._reader.join()
        self._lines.close()
        self._socket.close()
        # Only if the supervisor was itself killed: the kernel has then killed its children, the files are left to us.
        shutil.rmtree(self.directory, ignore_errors=True)

    def _read_reports(self) -> None:
        with contextlib.suppress(OSError):
            for line in self._lines:
                self._note(json.loads(line))
        for process in self._processes.values():  # the supervisor is gone, and with it every process
            self._end(process, -signal.SIGKILL)

    def _note(self, report: dict[str, Any]) -> None:
        match report:
            case {"started": ident, "pid": pid}:
                self._processes[ident].pid = pid
                self._processes[ident]._answered.set()
            case {"failed": ident, "why": why}:
                self._processes[ident].failure = why
                self._end(self._processes[ident], 127)
            case {"exited": ident, "returncode": returncode}:
                self._end(self._processes[ident], returncode)

    @staticmethod
    def _end(process: Process, returncode: int) -> None:
        if process.running:
            process.returncode = returncode
            process._ended.set()
            process._answered.set()
