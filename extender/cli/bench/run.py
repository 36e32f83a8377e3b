"""Carries a load test of gangs out: the namespace, a gang that is not timed, the gangs of the course, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from extender.cli.bench.clean import Leftover, leftovers, remove
from extender.cli.bench.instants import READY, Clock, Table
from extender.cli.bench.plan import GANG, NAMESPACES, WARM_UP, Course, Kind
from extender.cli.inspection.reach import Muster, RefusedError
from extender.core.instants import instant_of
from extender.kube.api.connection import METADATA_ONLY, ApiError, UnreachableError
from extender.kube.client import Kube
from extender.kube.reading.objects import AnyObject, Meta
from extender.kube.reports import CONTROLLER

_WARM_UP_S = 30.0
_EVENTS_S = 5.0
"""How long the next Event on a Binding is awaited after the last one."""
_ACCOUNT_S = 10.0
"""How long the default ServiceAccount of a new namespace may take; until then pods are refused."""
_LOOK_EVERY_S = 0.5
REMOVAL_S = 120.0


class RunError(Exception):
    """Nothing could be measured; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Shows the progress of a run.

    ``note``: shows what is being done now.
    ``say``: prints a lasting line.
    ``count``: shows how many pods were created and bound so far.
    """

    note: Callable[[str], None]
    say: Callable[[str], None]
    count: Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run.

    ``seconds``: from the first gang until the end.
    ``errors``: pods that were not bound, by reason.
    """

    table: Table
    began: float
    seconds: float
    errors: Counter[str]


async def carry_out(
    kube: Kube, muster: Muster, course: Course, timeout_s: float, progress: Progress, *, until_ready: bool
) -> Outcome:
    """Run the course, and remove all its objects. Raises RunError and ApiError.

    ``timeout_s``: how long a gang may take from when it was due.
    ``until_ready``: also wait until pods are ready.
    """
    _stop_on_sigterm()
    clock = Clock()
    table = Table(course, clock)
    leftover = await _make_namespace(kube, course)
    try:
        async with _following(kube, table):
            await _warm_up(kube, muster, table, progress)
            progress.note(f"{course.gangs} gangs of {course.size}")
            began = clock.now()
            await _load(kube, table, began, timeout_s, progress, until_ready=until_ready)
            seconds = clock.now() - began
        events = await _events(kube, table)
        errors = _errors(table, events, timeout_s)
    finally:
        await _to_the_end(asyncio.create_task(_clean_up(kube, leftover, progress)))
    return Outcome(table, began, seconds, errors)


async def _to_the_end(removing: asyncio.Task[None]) -> None:
    """Wait for the removal, even after Ctrl-C; a second Ctrl-C ends it through asyncio."""
    try:
        await asyncio.shield(removing)
    except asyncio.CancelledError:
        await removing
        raise


async def _clean_up(kube: Kube, leftover: Leftover, progress: Progress) -> None:
    """Remove the namespace. A failure is only reported: the figures are as good as before."""
    try:
        progress.say(str(await remove(kube, leftover, REMOVAL_S, progress.note)))
    except (ApiError, TimeoutError) as error:
        why = str(error) or f"nothing more has gone for {REMOVAL_S:g} s"
        progress.say(f"{leftover.namespace} is left: {why}. Remove it with muster bench gangs --clean")


def _stop_on_sigterm() -> None:
    """Let SIGTERM clean up as Ctrl-C does."""
    task = asyncio.current_task()
    if task is not None:
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _make_namespace(kube: Kube, course: Course) -> Leftover:
    """Make the namespace. If no answer says whether it was made, remove it and raise the error."""
    try:
        answer = await kube.call("POST", NAMESPACES, body=course.namespace_object(), accept=METADATA_ONLY)
    except (asyncio.CancelledError, UnreachableError):
        for leftover in await leftovers(kube):
            if leftover.run == course.run:
                await remove(kube, leftover, REMOVAL_S, lambda _: None)
        raise
    meta = msgspec.json.decode(answer, type=AnyObject).metadata or Meta()
    return Leftover(course.namespace, meta.uid or "", course.run, "")


@asynccontextmanager
async def _following(kube: Kube, table: Table) -> AsyncIterator[None]:
    """Keep the table up to date for the duration of the block."""
    watch = asyncio.create_task(table.follow(kube))
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _warm_up(kube: Kube, muster: Muster, table: Table, progress: Progress) -> None:
    """Run one gang that is not timed: it shows that Muster serves the name and has room, and makes the connections.

    Raises RunError.
    """
    course, clock = table.course, table.clock
    progress.note("a first gang, which is not timed")
    began = clock.now()
    table.expect(WARM_UP, began)
    await _create_as_soon_as_possible(kube, table)
    state = message = ""
    while not table.is_bound(WARM_UP):
        await _changed(table, _LOOK_EVERY_S)
        state, message = _judged(muster, course)
        if state == "OtherScheduler" or table.is_hopeless(WARM_UP) or clock.now() - began > _WARM_UP_S:
            break
    state, message = _judged(muster, course)
    if state == "OtherScheduler":
        raise RunError(
            f"no Muster serves the scheduler name {course.shape.scheduler}: {muster.where} says {message!r}. "
            "Name with --scheduler-name one of its scheduler_names"
        )
    if not table.is_bound(WARM_UP):
        reason = f"{state}: {message}" if state else f"{muster.where} knows nothing of it: does it serve this cluster?"
        raise RunError(
            f"a first gang of {course.size} was not bound within {clock.now() - began:.0f} s. {reason}. If Muster has "
            f"planned it, no kube-scheduler serves the scheduler name {course.shape.scheduler}: see muster doctor"
        )
    table.gangs[WARM_UP].over = True
    await _delete(kube, course, WARM_UP)
    table.forget(WARM_UP)


async def _create_as_soon_as_possible(kube: Kube, table: Table) -> None:
    """In a namespace that is new. Raises RunError."""
    try:
        async with asyncio.timeout(_ACCOUNT_S):
            while True:
                await _create(kube, table, WARM_UP)
                why = table.gangs[WARM_UP].failed
                if "serviceaccount" not in why.lower() or " not found" not in why:
                    break
                table.gangs[WARM_UP].failed = ""
                await asyncio.sleep(0.05)
    except TimeoutError:
        why = f"the namespace got no default ServiceAccount within {_ACCOUNT_S:g} s"
    if why:
        raise RunError(f"a first gang could not be created: {why}")


def _judged(muster: Muster, course: Course) -> tuple[str, str]:
    """The state and the message that Muster has for the first gang; both empty while it knows none. Raises
    UnreachableError."""
    name = f"job-{WARM_UP}" if course.kind is Kind.JOB else WARM_UP
    try:
        gang = muster.gang(course.namespace, name)
    except RefusedError:
        return "", ""
    return gang.state, gang.message


async def _load(
    kube: Kube, table: Table, began: float, timeout_s: float, progress: Progress, *, until_ready: bool
) -> None:
    """Create every gang when it is due, whatever has become of those before, and wait for all of them."""
    course, clock = table.course, table.clock
    for number, gang in enumerate(course.names()):
        table.expect(gang, began + course.due_s(number))
    async with asyncio.TaskGroup() as tasks:
        showing = tasks.create_task(_show(table, progress))
        for gang in course.names():
            if (early := table.gangs[gang].due - clock.now()) > 0:
                await asyncio.sleep(early)
            tasks.create_task(_live(kube, table, gang, timeout_s))
        await _settle(table, began + course.seconds + timeout_s, until_ready=until_ready)
        showing.cancel()


async def _live(kube: Kube, table: Table, gang: str, timeout_s: float) -> None:
    """Create a gang; with a lifetime, delete it that long after it was bound."""
    await _create(kube, table, gang)
    lifetime_s = table.course.lifetime_s
    if lifetime_s is None:
        return
    while not table.is_bound(gang) and not table.is_hopeless(gang):
        left_s = table.gangs[gang].due + timeout_s - table.clock.now()
        if left_s <= 0:
            return
        await _changed(table, left_s)
    await asyncio.sleep(lifetime_s)
    table.gangs[gang].over = True
    await _delete(kube, table.course, gang)


async def _create(kube: Kube, table: Table, gang: str) -> None:
    """All objects of a gang at once. What is refused is noted."""

    async def create_object(path: str, body: Mapping[str, Any]) -> None:
        try:
            await kube.call("POST", path, body=body, accept=METADATA_ONLY)
        except ApiError as error:
            table.fail(gang, f"not created: {error.status or 'no answer'} {error.reason}: {error.message}")
            return
        if table.course.kind is Kind.PODS:
            table.created(body["metadata"]["name"], gang)

    await asyncio.gather(*(create_object(path, body) for path, body in table.course.objects(gang)))


async def _delete(kube: Kube, course: Course, gang: str) -> None:
    """Delete what makes the gang; a failure is left to the end of the run, which deletes everything."""
    path = next(path for path, _ in course.objects(gang))
    with contextlib.suppress(ApiError):
        query, body = {"labelSelector": f"{GANG}={gang}"}, {"propagationPolicy": "Background"}
        await kube.call("DELETE", path, query=query, body=body)


async def _settle(table: Table, deadline: float, *, until_ready: bool) -> None:
    pending = list(table.gangs)
    while pending and (left_s := deadline - table.clock.now()) > 0:
        if _is_settled(table, pending[-1], until_ready=until_ready):
            pending.pop()
        else:
            await _changed(table, left_s)


def _is_settled(table: Table, gang: str, *, until_ready: bool) -> bool:
    state = table.gangs[gang]
    if table.is_hopeless(gang):
        return True
    ready = state.over or not until_ready or all(READY in pod.conditions for pod in state.members)
    return table.is_bound(gang) and ready


async def _changed(table: Table, most_s: float) -> None:
    """Wait for the next change, for ``most_s`` seconds at most."""
    table.changed.clear()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await table.changed.wait()


async def _show(table: Table, progress: Progress) -> None:
    while True:
        pods = table.pods.values()
        progress.count(
            sum(1 for pod in pods if pod.created is not None), sum(1 for pod in pods if pod.bound is not None)
        )
        await asyncio.sleep(_LOOK_EVERY_S)


async def _events(kube: Kube, table: Table) -> list[_Event]:
    """The Events of the namespace, when those on the Bindings are there; empty where they may not be read.

    kube-scheduler writes them after the Bindings, with the instant of the Binding, as fast as its limits let it.
    """
    path = f"/apis/events.k8s.io/v1/namespaces/{table.course.namespace}/events"
    lacking, deadline = math.inf, 0.0
    while True:
        try:
            pages = kube.list_pages(path)
            events = [msgspec.json.decode(raw, type=_Event) async for page in pages for raw in page.items]
        except ApiError:
            return []
        for event in events:
            pod = table.pods.get(event.regarding.name or "") if event.regarding else None
            if pod is not None and event.reason == "Scheduled":
                pod.scheduled = instant_of(event.event_time or "")
        left = sum(1 for pod in table.pods.values() if pod.bound is not None and pod.scheduled is None)
        if left < lacking:
            lacking, deadline = left, table.clock.now() + _EVENTS_S
        if not left or table.clock.now() > deadline:
            return events
        await asyncio.sleep(_LOOK_EVERY_S)


def _errors(table: Table, events: list[_Event], timeout_s: float) -> Counter[str]:
    """The pods that were not bound, by reason: of late ones, the last reason that Muster has given."""
    errors: Counter[str] = Counter()
    reasons: dict[str, tuple[str, str]] = {}
    for event in events:
        if event.reporting_controller == CONTROLLER and event.regarding is not None:
            gang = _gang_of(table.course, event.regarding.name or "")
            reasons[gang] = max(reasons.get(gang, ("", "")), (event.event_time or "", event.reason or ""))
    for gang, state in table.gangs.items():
        lacking = table.course.size - sum(1 for pod in state.members if pod.bound is not None)
        if not lacking:
            continue
        if state.failed:
            errors[state.failed] += lacking
        elif table.is_hopeless(gang):
            errors["deleted, or failed, before the gang was bound"] += lacking
        else:
            reason = reasons.get(gang, ("", "Muster has given no reason"))[1]
            errors[f"not bound within {timeout_s:g} s: {reason}"] += lacking
    return errors


def _gang_of(course: Course, regarding: str) -> str:
    """Events are on a member, or on the Job that is called like the gang."""
    known = [name for name in course.names() if regarding == name or regarding.startswith(f"{name}-")]
    return max(known, key=len, default="")


class _Regarding(msgspec.Struct):
    name: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    event_time: str | None = None
    reason: str | None = None
    reporting_controller: str | None = None
    regarding: _Regarding | None = None
