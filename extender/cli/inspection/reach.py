"""Reach a running Muster from the command line: by a URL, on this machine, or through the cluster's API server.

Muster listens on the loopback address of its pod, which neither a Service nor the API server's proxy can reach. A
port-forward can, and kubectl has all the ways to log in that people use: so kubectl forwards the port.
"""

from __future__ import annotations

import os
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
from typing import Any, TypeVar, get_args
from urllib.parse import quote

import httpx
import typer
from pydantic import BaseModel, TypeAdapter, ValidationError

from extender.api.models import (
    PREFIX,
    ComputeDomainView,
    DefragView,
    DomainStock,
    Explanation,
    GangView,
    Problem,
    QueueView,
    TopologyView,
    UtilisationReport,
    VerifyView,
)
from extender.cli.inspection.kubeconfig import context_names
from extender.kube.api.forbidden import denied, refusal
from extender.kube.api.silence import why_silent
from policies.words import listed

PORT = 10290
HERE = f"http://127.0.0.1:{PORT}"
URL_VARIABLE = "MUSTER_URL"
_FORWARD_S = 20.0
_ANSWER_S = 30.0
_SERVES = "serves schedulerName "
_LEFT_OUT = "left out until they change"
_LONGEST = 2000
_STANDS_BY = (
    "stands by: its kube-scheduler does not hold the Lease, or does not renew it. If no other replica leads, nothing "
    "starts: see whether kube-scheduler runs"
)
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
AnswerT = TypeVar("AnswerT")


class UnreachableError(Exception):
    """No way leads to Muster; the message says what was tried and what to do."""


class MisdirectedError(UnreachableError):
    """The way to Muster that the user has named is wrong: something else answers there, or it cannot be asked."""


class RefusedError(Exception):
    """Muster answers, but not this question; the message says why. ``status`` is the one of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Way:
    """The user's options about how to reach Muster. ``namespace`` and ``lease`` are those of Muster's own
    Deployment."""

    url: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = "kube-system"
    lease: str = "muster"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


def way_of(
    url: str | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    ca_file: Path | None = None,
    cert_file: Path | None = None,
    key_file: Path | None = None,
    *,
    quiet: bool = False,
) -> Way:
    """Return the way to Muster. An option that names a cluster counts more than $MUSTER_URL, with a warning."""
    usual = os.environ.get(URL_VARIABLE) or None
    if url is None and usual is not None:
        named = [option for option in (context, kubeconfig, namespace) if option is not None]
        if named and not quiet:
            typer.secho(f"${URL_VARIABLE} ({usual}) is left aside: an option names {named[0]}", err=True, fg="yellow")
        if not named:
            url = usual
    where = namespace or "kube-system"
    return Way(url, kubeconfig, context, where, ca_file=ca_file, cert_file=cert_file, key_file=key_file)


class Muster:
    """A running extender that can be asked. ``where`` is its name in messages.

    Each method raises UnreachableError if nothing answers, MisdirectedError if something else than Muster does, or
    RefusedError.
    """

    def __init__(self, client: httpx.Client, where: str) -> None:
        self._client = client
        self.where = where

    def gangs(self) -> list[GangView]:
        """Return all gangs, by namespace and name."""
        return self._get("/gangs", list[GangView])

    def gang(self, namespace: str, name: str) -> GangView:
        """Return one gang. It is a RefusedError while Muster knows none of that name."""
        return self._get(f"/gangs/{quote(namespace, safe='')}/{quote(name, safe='')}", GangView)

    def explanation(self, namespace: str, name: str) -> Explanation:
        """Return why a gang waits or where it runs."""
        return self._get(f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}", Explanation)

    def defrag(self, namespace: str, name: str) -> DefragView:
        """Return which workloads would have to move so that a waiting gang has room."""
        return self._get(f"/defrag/{quote(namespace, safe='')}/{quote(name, safe='')}", DefragView)

    def queues(self) -> list[QueueView]:
        """Return all Cohorts, ClusterQueues and LocalQueues."""
        return self._get("/queues", list[QueueView])

    def domains(self) -> list[DomainStock]:
        """Return all topology domains, the nearest level first."""
        return self._get("/domains", list[DomainStock])

    def compute_domains(self) -> list[ComputeDomainView]:
        """Return all ComputeDomains; none of a Muster that is older than they are."""
        try:
            return self._get("/compute-domains", list[ComputeDomainView])
        except RefusedError as refusal:
            if refusal.status == 404:
                return []
            raise

    def topology(self) -> TopologyView:
        """Return the levels of the topology."""
        return self._get("/topology", TopologyView)

    def utilisation(self) -> UtilisationReport:
        """Return how busy the GPUs of each node are, and where that is known from."""
        return self._get("/utilisation", UtilisationReport)

    def verified(self, *, begin: bool) -> VerifyView:
        """Return what the last self-check found, and ``begin`` another one."""
        return self._get("/verify?begin=true" if begin else "/verify", VerifyView)

    def ready(self) -> str | None:
        """Return None when it has read the cluster, else what it says."""
        answer = self._ask("/readyz")
        return None if answer.is_success else _text(answer)

    def left_out(self) -> str:
        """Return the objects that its core has failed on, as it names them; empty for none."""
        lines = self._ask("/readyz").text.splitlines()
        return next((line for line in lines if line.startswith(_LEFT_OUT)), "")[:_LONGEST]

    def serves(self) -> tuple[str, ...]:
        """Return the schedulerNames that it serves; empty if it is of a version that does not say so."""
        lines = self._ask("/readyz?verbose").text.splitlines()
        served = next((line for line in lines if line.startswith(_SERVES)), "")
        return tuple(filter(None, served.removeprefix(_SERVES).split(", ")))

    def doubt(self) -> str:
        """Return why its answers may not show what is decided: it stands by, or its data are old. Empty if they do."""
        try:
            answer = self._ask("/readyz")
        except UnreachableError:  # Muster is gone, and the question was answered
            return ""
        text = _text(answer)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return f"{self.where} is not ready: {text}"
        return f"{self.where} {_STANDS_BY}" if text.startswith("ok, standing by") else ""

    def _get(self, path: str, kind: type[AnswerT]) -> AnswerT:
        answer = self._ask(PREFIX + path)
        if answer.status_code == httpx.codes.NOT_FOUND and _detail(answer) is None:
            # A Muster of before /api/v1 has the same answers without the prefix.
            answer = self._ask(path)
        if answer.is_success:
            return self._read(answer, kind)
        if (detail := _detail(answer)) is not None:
            raise RefusedError(detail, answer.status_code)
        if not answer.is_server_error:
            raise self._stranger()
        failure = f"{self.where} failed to answer: {answer.status_code} {_text(answer)}"
        raise RefusedError(failure, answer.status_code)

    def _read(self, answer: httpx.Response, kind: type[AnswerT]) -> AnswerT:
        try:
            return TypeAdapter(kind).validate_json(answer.content)
        except ValidationError as error:
            mistakes = error.errors(include_url=False, include_input=False)
        if any(_is_foreign(mistake["type"], mistake["loc"], kind) for mistake in mistakes):
            raise self._stranger()
        field = ".".join(map(str, mistakes[0]["loc"]))
        raise RefusedError(
            f"the answer of {self.where} cannot be read: {field}: {mistakes[0]['msg']}; it may be of another version "
            "than this command (muster --version)",
            answer.status_code,
        )

    def _stranger(self) -> MisdirectedError:
        return MisdirectedError(f"{self.where} answers, and it is no Muster: say with --url where Muster is")

    def _ask(self, path: str) -> httpx.Response:
        try:
            return self._client.get(path)
        except httpx.HTTPError as error:
            raise UnreachableError(f"no answer from Muster at {self.where}: {why_silent(error)}") from None


def _text(answer: httpx.Response) -> str:
    return answer.text.strip()[:200]


def _detail(answer: httpx.Response) -> str | None:
    """Return the detail of Muster's problem; None if the answer is no problem of Muster's.

    Before /api/v1 the answer had the detail alone.
    """
    try:
        return Problem.model_validate({"title": "", "status": answer.status_code, **answer.json()}).detail
    except (ValueError, TypeError, RecursionError):
        return None


def _is_foreign(mistake: str, place: tuple[int | str, ...], kind: type[Any]) -> bool:
    """Return whether an answer with this mistake is no answer of any Muster.

    It is no JSON, or has no object where one should be, or an object without the first field of its model.
    """
    model: type[BaseModel] = next(iter(get_args(kind)), kind)
    depth = 1 if get_args(kind) else 0
    return len(place) <= depth or (mistake == "missing" and place[depth:] == (next(iter(model.model_fields)),))


@contextmanager
def reach(way: Way) -> Iterator[Muster]:
    """Reach a Muster for the duration of the block. Raises UnreachableError."""
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
    """The begin of a kubectl command line for that cluster; None without kubectl."""
    program = shutil.which("kubectl")
    if program is None:
        return None
    kubeconfig = [f"--kubeconfig={way.kubeconfig}"] if way.kubeconfig is not None else []
    return [program, *kubeconfig, *([f"--context={way.context}"] if way.context is not None else [])]


def _client(url: str, verify: ssl.SSLContext | bool = True) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=_ANSWER_S, trust_env=False, verify=verify)


def verification(way: Way, url: str) -> ssl.SSLContext | bool:
    """The accepted certificates and the client's own one, for a URL. Raises UnreachableError if the options are
    wrong."""
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
    """Whether a Muster, or a port-forward to one, listens on its usual port of this machine."""
    try:
        answer = httpx.get(f"{HERE}/readyz", timeout=2.0, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.status_code in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE)


@contextmanager
def _forwarded(way: Way) -> Iterator[tuple[int, str]]:
    if way.kubeconfig is not None and not way.kubeconfig.is_file():
        raise MisdirectedError(f"there is no kubeconfig {way.kubeconfig}")
    contexts = context_names(way.kubeconfig)
    if way.context is not None and contexts and way.context not in contexts:
        raise MisdirectedError(f"there is no context {way.context}; there are {listed(contexts, 10)}")
    program = kubectl(way)
    if program is None:
        silent = "" if way.kubeconfig or way.context else f"nothing answers at {HERE}, and "
        raise UnreachableError(
            f"{silent}there is no kubectl on the PATH to forward Muster's port; say with --url where it is"
        )
    argv = [*program, f"--namespace={way.namespace}"]
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
    """The pod whose kube-scheduler holds the Lease: the one of several replicas that decides."""
    asking = [*argv, "get", "lease", lease, "--output=jsonpath={.spec.holderIdentity}"]
    try:
        completed_process = subprocess.run(asking, capture_output=True, text=True, timeout=_FORWARD_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    pod, underscore, _ = completed_process.stdout.strip().rpartition("_")
    return f"pod/{pod}" if completed_process.returncode == 0 and underscore else None


def _advice(complaint: str) -> str:
    if denied(complaint) is not None:
        return "ask an administrator to bind the role muster-viewer to it, or say with --url where Muster is"
    return "say with --url where Muster is, or --muster-namespace if it is not in kube-system"


def _port(forward: subprocess.Popen[str]) -> int:
    """The local port that kubectl has chosen."""
    assert forward.stdout is not None  # noqa: S101 - asked for as a pipe
    deadline = time.monotonic() + _FORWARD_S
    while (left_s := deadline - time.monotonic()) > 0 and select.select([forward.stdout], [], [], left_s)[0]:
        line = forward.stdout.readline()
        if match := _FORWARDING.search(line):
            return int(match[1])
        if not line:
            complaints = forward.communicate()[1].strip().splitlines()
            complaint = complaints[-1] if complaints else "no reason given"
            raise UnreachableError(
                f"kubectl could not forward Muster's port: {refusal(complaint)}; {_advice(complaint)}"
            )
    raise UnreachableError(
        f"kubectl did not forward Muster's port within {_FORWARD_S:.0f} s; say with --url where Muster is"
    )
