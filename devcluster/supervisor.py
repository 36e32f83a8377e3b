"""The parent of every process of one cluster: when the creator ends, it kills them all and deletes their directory.

Started by `devcluster.process` with an inherited socket as its tie to the creator. Requests and reports are JSON,
one a line. Only the standard library, one thread: the death signal below is bound to the thread that starts a child.

request  {"do": "start", "id": 1, "argv": [...], "env": {...}, "log": "...", "hostname": ""}
report   {"started": 1, "pid": 4242} or {"failed": 1, "why": "..."}
request  {"do": "signal", "id": 1, "signal": 15, "group": false}
report   {"exited": 1, "returncode": -15}, when it has

The first report is {"directory": "..."}. End of input means: kill everything, delete the directory, exit.
"""

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any

PR_SET_PDEATHSIG = 1
CLONE_NEWUTS, CLONE_NEWUSER = 0x04000000, 0x10000000


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    Supervisor(control, creator_pid=int(sys.argv[2])).run()


class Supervisor:
    def __init__(self, control: socket.socket, creator_pid: int) -> None:
        self._control = control
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, "control")
        self._wake, wake_write = socket.socketpair()
        for end in (self._wake, wake_write):
            end.setblocking(False)  # noqa: FBT003 - the standard library's signature
        signal.set_wakeup_fd(wake_write.fileno())
        self._wake_write = wake_write  # kept open for as long as signals arrive
        self._selector.register(self._wake, selectors.EVENT_READ, "signal")
        for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ending, lambda *_: None)
        self._watch_creator(creator_pid)
        self._buffer = b""

    def _watch_creator(self, pid: int) -> None:
        """The socket alone is not enough: a child that the creator forked holds a copy of it and outlives it."""
        with contextlib.suppress(OSError):  # already gone: the first read of the socket says so
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, "creator")

    def run(self) -> None:
        directory = tempfile.mkdtemp(prefix="muster-devcluster-")
        try:
            self._report({"directory": directory})
            self._serve()
        finally:
            self._kill_children()
            shutil.rmtree(directory, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                match key.data:
                    case "control":
                        if not self._read_requests():
                            return
                    case "signal" | "creator":
                        return
                    case ident:
                        self._reap(ident, key.fd)

    def _read_requests(self) -> bool:
        """Carry out what has arrived; False at the end of input."""
        try:
            chunk = self._control.recv(65536)
        except ConnectionError:
            return False
        if not chunk:
            return False
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            self._carry_out(json.loads(line))
        return True

    def _carry_out(self, request: dict[str, Any]) -> None:
        match request:
            case {"do": "start", "id": ident, "argv": argv, "env": env, "log": log, "hostname": hostname}:
                self._start(ident, argv, env, log, hostname)
            case {"do": "signal", "id": ident, "signal": number, "group": group}:
                child = self._children.get(ident)
                if child is not None:
                    with contextlib.suppress(ProcessLookupError):
                        (os.killpg if group else os.kill)(child.pid, number)

    def _start(self, ident: int, argv: list[str], env: dict[str, str], log: str, hostname: str) -> None:
        try:
            with open(log, "ab") as output:
                child = subprocess.Popen(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=lambda: _prepare(hostname),  # safe: this process has one thread
                )
        except (OSError, subprocess.SubprocessError) as error:
            self._report({"failed": ident, "why": str(error)})
            return
        self._children[ident] = child
        self._selector.register(os.pidfd_open(child.pid), selectors.EVENT_READ, ident)
        self._report({"started": ident, "pid": child.pid})

    def _reap(self, ident: int, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        returncode = self._children.pop(ident).wait()
        self._report({"exited": ident, "returncode": returncode})

    def _report(self, report: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):  # the creator is gone: the next read says so
            self._control.sendall(json.dumps(report).encode() + b"\n")

    def _kill_children(self) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        for child in self._children.values():
            child.wait()


_supervisor_pid = os.getpid()
_libc = ctypes.CDLL(None, use_errno=True)


def _prepare(hostname: str) -> None:
    """Prepare the child before exec: it dies with the supervisor, even with one that is killed."""
    if hostname:
        # The process gets a host name of its own, as a pod has it; without root it needs a user namespace for that.
        if _libc.unshare(CLONE_NEWUTS) != 0 and _libc.unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0:
            raise OSError(ctypes.get_errno(), "this machine does not let a process have its own host name")
        socket.sethostname(hostname)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != _supervisor_pid:
        os._exit(1)


if __name__ == "__main__":
    main()
