"""How the command line gets to a running Muster: by a URL, on this machine, or through the cluster's API server.

Muster listens on the loopback address of its pod, which neither a Service nor the API server's proxy can reach. A
port-forward can, and kubectl has all the ways to log in that people use: so kubectl forwards the port.
"""

from __future__ import annotations

import re
import select
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from extender.kube.api.silence import why_silent

PORT = 10290
HERE = f"http://127.0.0.1:{PORT}"
URL_VARIABLE = "MUSTER_URL"
_FORWARD_S = 20.0
_ANSWER_S = 30.0
_STANDS_BY = (
    "stands by: its kube-scheduler does not hold the Lease, or does not renew it. If no other replica leads, nothing "
    "starts: see whether kube-scheduler runs"
)
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


class UnreachableError(Exception):
    """There is no way to Muster; the message says what was tried and what to do."""


class MisdirectedError(UnreachableError):
    """What was said of the way to Muster is wrong: something else answers there, or nothing can be asked like that."""


class RefusedError(Exception):
    """Muster answers, but not this question; the message says why. ``status`` is the one of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Way:
    """What the user says about where Muster is. ``namespace`` and ``lease`` are those of Muster's own Deployment."""

    url: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = "kube-system"
    lease: str = "muster"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class Muster:
    """A running extender that can be asked."""

    def __init__(self, client: httpx.Client, where: str) -> None:
        self._client = client
        self.where = where

    def get(self, path: str, kind: type[list[Any]] | type[dict[str, Any]], field: str) -> Any:
        """The JSON of a page, which is of that kind: an object with that field, or a list of such objects. Raises
        UnreachableError or RefusedError."""
        answer = self._ask(path)
        if answer.is_success:
            return self._read(answer, kind, field)
        try:
            detail = str(answer.json()["detail"])
        except (ValueError, KeyError, TypeError, RecursionError):
            if not answer.is_server_error:
                raise self._stranger() from None
            detail = f"{self.where} failed to answer: {answer.status_code} {_said(answer)}"
        raise RefusedError(detail, answer.status_code)

    def _read(self, answer: httpx.Response, kind: type[object], field: str) -> Any:
        try:
            told = answer.json()
        except (ValueError, RecursionError):
            told = None
        found = told if isinstance(told, list) else [told]
        if not isinstance(told, kind) or not all(isinstance(one, dict) and field in one for one in found):
            raise self._stranger()
        return told

    def _stranger(self) -> MisdirectedError:
        return MisdirectedError(f"{self.where} answers, and it is no Muster: say with --url where Muster is")

    def ready(self) -> str | None:
        """None when it has read the cluster, else what it says. Raises UnreachableError."""
        answer = self._ask("/readyz")
        return None if answer.is_success else _said(answer)

    def left_out(self) -> str:
        """Return the objects that its core has failed on, as it names them; empty for none. Raises UnreachableError."""
        lines = self._ask("/readyz").text.splitlines()
        return next((line for line in lines if line.startswith(_LEFT_OUT)), "")[:_LONGEST]

    def serves(self) -> tuple[str, ...]:
        """Return the schedulerNames that it serves; empty if it is of a version that does not tell. Raises
        UnreachableError."""
        lines = self._ask("/readyz?verbose").text.splitlines()
        said = next((line for line in lines if line.startswith(_SERVES)), "")
        return tuple(filter(None, said.removeprefix(_SERVES).split(", ")))

    def doubt(self) -> str:
        """Why its answers may not tell what is decided: it stands by, or what it knows is old. Empty if they do."""
        try:
            answer = self._ask("/readyz")
        except UnreachableError:  # it is gone by now, and the question was answered
            return ""
        said = _said(answer)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return f"{self.where} is not ready: {said}"
        return f"{self.where} {_STANDS_BY}" if said.startswith("ok, standing by") else ""

    def _ask(self, path: str) -> httpx.Response:
        try:
            return self._client.get(path)
        except httpx.HTTPError as error:
            raise UnreachableError(f"no answer from Muster at {self.where}: {why_silent(error)}") from None


def _said(answer: httpx.Response) -> str:
    return answer.text.strip()[:200]


_SERVES = "serves schedulerName "
_LEFT_OUT = "left out until they change"
_LONGEST = 2000


@contextmanager
def reach(way: Way) -> Iterator[Muster]:
    """A Muster to be asked while the block lasts. Raises UnreachableError."""
    if way.url is not None:
        with _client(way.url, verification(way, way.url)) as client:
            yield Muster(client, way.url)
    elif way.kubeconfig is None and way.context is None and _is_here():
        with _client(HERE) as client:
            yield Muster(client, HERE)
    else:
        with _forwarded(way) as (port, target), _client(f"http://127.0.0.1:{port}") as client:
            yield Muster(client, f"{target} (through kubectl port-forward)")


def kubectl(way: Way) -> list[str] | None:
    """The command line of kubectl for that cluster, to be continued; None where there is none."""
    program = shutil.which("kubectl")
    if program is None:
        return None
    kubeconfig = [f"--kubeconfig={way.kubeconfig}"] if way.kubeconfig is not None else []
    return [program, *kubeconfig, *([f"--context={way.context}"] if way.context is not None else [])]


def _client(url: str, verify: ssl.SSLContext | bool = True) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=_ANSWER_S, trust_env=False, verify=verify)


def verification(way: Way, url: str) -> ssl.SSLContext | bool:
    """What certificates are good there, and which is shown. Raises UnreachableError if that cannot be said."""
    if not _is_url(url):
        raise MisdirectedError(f"{url} is not a URL of Muster: write one like {HERE}")
    if way.key_file is not None and way.cert_file is None:
        raise MisdirectedError("--key-file needs --cert-file, the certificate of that key")
    if way.ca_file is None and way.cert_file is None:
        return True
    try:
        context = ssl.create_default_context(cafile=way.ca_file)
        if way.cert_file is not None:
            context.load_cert_chain(way.cert_file, way.key_file)
    except OSError as error:
        raise MisdirectedError(f"the certificate files cannot be used: {error}") from None
    return context


def _is_url(text: str) -> bool:
    try:
        return httpx.URL(text).scheme in ("http", "https") and bool(httpx.URL(text).host)
    except httpx.InvalidURL:
        return False


def _is_here() -> bool:
    """Whether a Muster, or somebody's port-forward to one, listens on its usual port of this machine."""
    try:
        answer = httpx.get(f"{HERE}/readyz", timeout=2.0, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE)


@contextmanager
def _forwarded(way: Way) -> Iterator[tuple[int, str]]:
    found = kubectl(way)
    if found is None:
        silent = "" if way.kubeconfig or way.context else f"nothing answers at {HERE}, and "
        raise UnreachableError(
            f"{silent}there is no kubectl on the PATH to forward Muster's port; say with --url where it is"
        )
    argv = [*found, f"--namespace={way.namespace}"]
    target = _leader(argv, way.lease) or "deployment/muster"
    forward = subprocess.Popen(
        [*argv, "port-forward", "--address=127.0.0.1", target, f":{PORT}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield _port(forward), f"{way.namespace}/{target}"
    finally:
        forward.terminate()
        forward.communicate()


def _leader(argv: list[str], lease: str) -> str | None:
    """The pod whose kube-scheduler holds the Lease: of several replicas it is the one that decides."""
    asking = [*argv, "get", "lease", lease, "--output=jsonpath={.spec.holderIdentity}"]
    try:
        said = subprocess.run(asking, capture_output=True, text=True, timeout=_FORWARD_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    pod, underscore, _ = said.stdout.strip().rpartition("_")
    return f"pod/{pod}" if said.returncode == 0 and underscore else None


def _port(forward: subprocess.Popen[str]) -> int:
    """The local port that kubectl has chosen."""
    assert forward.stdout is not None  # noqa: S101 - asked for as a pipe
    deadline = time.monotonic() + _FORWARD_S
    while (left_s := deadline - time.monotonic()) > 0 and select.select([forward.stdout], [], [], left_s)[0]:
        line = forward.stdout.readline()
        if found := _FORWARDING.search(line):
            return int(found[1])
        if not line:
            said = forward.communicate()[1].strip().splitlines()
            raise UnreachableError(
                f"kubectl could not forward Muster's port: {said[-1] if said else 'no reason given'}; "
                "say with --url where Muster is, or --muster-namespace if it is not in kube-system"
            )
    raise UnreachableError(f"kubectl did not forward Muster's port within {_FORWARD_S:.0f} s")
