"""The composition root: build the parts of one running extender, connect them, and stop them in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import signal
import socket
import time
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

import uvicorn
import uvloop

from extender.config.settings import Settings
from extender.http.connections import BACKLOG, BoundedProtocol, Connections, http_config
from extender.http.hosts import Hosts
from extender.http.scrape import metrics_page
from extender.http.server import App, create_app
from extender.http.tls import Credentials, TlsError
from extender.kube.client import CredentialsError, Kube
from extender.kube.kinds.own import own_kinds
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import Registry
from extender.kube.writer import KubeApi
from extender.link import Link
from extender.observe.metrics import Metrics
from extender.observe.prometheus import Prometheus
from extender.observe.sight import Sight
from extender.replica import Replica
from extender.runtime.election import Leadership
from extender.runtime.failures_file import FailuresFile
from extender.runtime.quarantine import Quarantine
from extender.runtime.runner import Runner
from extender.runtime.verification import SLICE_UNITS
from extender.runtime.verifier import Verifier, report_drift

log = logging.getLogger("muster")

# Bytes of incomplete requests, besides one of the largest.
_ARRIVING_BYTES = 64 << 20
_OTHER_FILES = 256


class StartError(Exception):
    """The extender cannot start; the message says what to do."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code; raises StartError."""
    listener = _listen(settings.listen_host, settings.listen_port, "listen_port")
    # Every address of the pod: the page has no names, and changes nothing.
    everywhere = "0.0.0.0"  # noqa: S104
    scraped = _listen(everywhere, settings.metrics_port, "metrics_port") if settings.metrics_port else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop, listener:
        return loop.run(_serve(settings, listener, scraped))


async def _serve(settings: Settings, listener: socket.socket, scraped: socket.socket | None) -> int:
    try:
        credentials = None if settings.tls is None else Credentials(settings.tls)
    except TlsError as error:
        raise StartError(f"cannot serve HTTPS: {error}") from None
    election = settings.leader_election
    leadership = Leadership(election.identity)
    try:
        kube = await Kube.connect(
            settings.kubeconfig,
            connections=2 * settings.writes_at_once + 8,
            may_write=leadership.holds if election.enabled else lambda: True,
        )
    except CredentialsError as error:
        raise StartError(str(error)) from None
    sight = Sight()
    prometheus = Prometheus(
        settings.prometheus_url,
        settings.prometheus_token_file,
        settings.prometheus_ca_file,
        below_percent=settings.idle_below_percent,
        window_s=settings.idle_after_s,
    )
    metrics = Metrics(
        lambda: runner.core.state,
        settings.allreduce_bandwidth_ratio,
        leads=lambda: runner.acting.is_set(),
        ages=sight.ages,
        queues=lambda: runner.core.queue_reports(runner.clock()),
        quarantine=lambda: runner.quarantine,
        utilisation=lambda: (prometheus.utilisation, runner.clock()),
    )

    reader = Reader(settings.scheduler_names, registry=Registry(own_kinds(settings.job_kinds)))
    failures = FailuresFile(settings.failures_file)
    runner = Runner(
        settings.engine(),
        KubeApi(kube, reader),
        writes_at_once=settings.writes_at_once,
        observer=metrics,
        quarantine=Quarantine(failures.read(), failures.write, time.time),
    )
    replica = Replica(
        kube,
        runner,
        settings.engine,
        lambda: KubeApi(kube, reader),
        sight,
        reader,
        workload_objects=settings.workload_objects,
        capacity=settings.elastic if settings.elastic.flavors else None,
    )
    verifier = Verifier(
        runner,
        lambda: settings.engine(SLICE_UNITS),
        replica.objects,
        every_s=settings.verify_every_s,
        restart=replica.restart_core,
        report=partial(report_drift, runner, socket.gethostname()),
        observer=metrics,
    )
    app = create_app(
        runner,
        metrics,
        verifier=verifier,
        utilisation=lambda: prometheus.utilisation,
        sight=sight,
        bind_timeout_s=settings.bind_timeout_s,
        max_body=settings.max_body_mib * 1024 * 1024,
        max_candidates=settings.max_candidates,
        hosts=Hosts((*settings.allowed_hosts, settings.listen_host), every=settings.tls is not None),
        notice=lambda: replica.queues.notice,
    )
    server = _server(app, settings, metrics, credentials)
    host, port = listener.getsockname()[:2]
    names = ", ".join(settings.scheduler_names)
    log.info("listening on %s:%s for schedulers %s, mode %s", host, port, names, settings.mode)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(kube.close)
        if scraped is not None:
            await stack.enter_async_context(metrics_page(metrics, scraped, server.config.ssl))
        tasks = [
            _essential(replica.run(election, leadership), runner),
            _essential(verifier.run(), runner),
            asyncio.create_task(_stop_on_signal(server, runner)),
        ]
        if settings.dashboard_url:
            link = Link(
                runner,
                settings.dashboard_url,
                settings.dashboard_token_file,
                settings.dashboard_ca_file,
                utilisation=lambda: prometheus.utilisation,
            )
            runner.on_reached = (link.reached,)
            tasks.append(_essential(link.run(), runner))
        if settings.prometheus_url:
            tasks.append(asyncio.create_task(prometheus.run()))
        if credentials is not None:
            tasks.append(_essential(credentials.follow(), runner))
        try:
            await server.serve(sockets=[listener])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await runner.drain()
    return 1 if runner.failed.is_set() else 0


def _server(app: App, settings: Settings, metrics: Metrics, credentials: Credentials | None) -> uvicorn.Server:
    most_bytes = (settings.max_body_mib << 20) + _ARRIVING_BYTES
    shared = Connections(min(settings.max_connections, _files_for_callers(settings)), most_bytes, metrics.refused)
    server = _Server(http_config(app, partial(BoundedProtocol, shared=shared, allowed=settings.tls_client_names)))
    server.config.ssl = None if credentials is None else credentials.context
    return server


def _files_for_callers(settings: Settings) -> int:
    """How many connections the limit on open files leaves. Once it is reached, no caller can connect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    return max(64, soft - _OTHER_FILES - 2 * settings.writes_at_once)


def _essential(coroutine: Coroutine[Any, Any, None], runner: Runner) -> asyncio.Task[None]:
    """A task without which the core would work with old data: when it fails, the process ends."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a part of Muster failed in an unforeseen way; ending", exc_info=error)
            runner.failed.set()

    task = asyncio.create_task(coroutine)
    task.add_done_callback(ended)
    return task


async def _stop_on_signal(server: uvicorn.Server, runner: Runner) -> None:
    """Stop on SIGTERM, Ctrl-C, or a failed core. Held binds are failed first; the server would wait for them."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(runner.failed.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await runner.drain()
    server.should_exit = True


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the application, which has binds to fail before the server stops."""
        yield


def _listen(host: str, port: int, setting: str) -> socket.socket:
    """Listen on that address. ``setting``: the name of the port's setting. Raises StartError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        other = (
            setting if error.errno in (errno.EADDRINUSE, errno.EACCES) else "listen_host, an address of this machine"
        )
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror}; choose another {other}") from None
    listener.listen(BACKLOG)
    return listener
