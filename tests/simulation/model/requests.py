"""A request of the driver to the simulated API server, on its way through the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from extender.core.effects import (
    CleanJob,
    Confirm,
    Deallocate,
    Enqueue,
    Evict,
    Hint,
    Nominate,
    PostBinding,
    Report,
    Reserve,
    StartJob,
    SuspendJob,
    TryPod,
    Ungate,
    Wake,
)
from extender.runtime.requests import ApiCall, LookAtPod, Response
from policies.model import Pod
from tests.simulation.model.additions import as_created
from tests.simulation.model.apiserver import OK, ApiServer
from tests.simulation.model.batch import BatchJob, Write
from tests.simulation.model.network import Network
from tests.simulation.model.tasks import Process

_NO_QUOTA = 429


def carry_out(
    call: ApiCall, timeout_s: float, api: ApiServer, network: Network, rests: Callable[[], float]
) -> Process[Response]:
    """Carry the request out; ends with the answer that the extender's ``KubeApi`` would get.

    ``rests``: gives how long its process stands still now, before it can send another request.
    """
    if isinstance(call, StartJob | SuspendJob | CleanJob) or (isinstance(call, Reserve) and call.job is not None):
        return (yield from _write_job(call, timeout_s, api, network, rests))
    if isinstance(call, Deallocate):
        return (yield from _deallocate(call, timeout_s, api, network, rests))
    if isinstance(call, TryPod):
        send, tries = network.hung if network.hanging else network.request, call.job.key
        status = yield from send(lambda: _NO_QUOTA if tries in api.blocked else OK, timeout_s)
        podset = next(podset for podset in call.job.podsets.podsets if podset.name == call.podset)
        made = as_created(podset, podset.template) if status == OK else None
        return Response(status, f"the API server said {status}", pod=made)
    if isinstance(call, Enqueue | Report | Reserve):
        send = network.hung if network.hanging else network.request
        status = yield from send(network.unless_refused(lambda: _write_mark(call, api)), timeout_s)
        return Response(status, f"the API server said {status}")
    return (yield from _send(call, timeout_s, api, network))


def _send(call: ApiCall, timeout_s: float, api: ApiServer, network: Network) -> Process[Response]:
    node: str | None = ""

    def land() -> int:
        nonlocal node
        match call:
            case PostBinding(uid, namespace, name):
                return api.bind(uid, (namespace, name), call.node, call.annotations)
            case Nominate(uid, namespace, name):
                return api.nominate(uid, (namespace, name), call.node, wakes=call.parked)
            case Ungate(uid, namespace, name):
                return api.ungate(uid, (namespace, name), call.pin)
            case Wake(uid):
                return api.touch_pod(uid)
            case Confirm(uid, namespace, name):
                return api.confirm(uid, (namespace, name))
            case Evict(uid):
                return api.evict_pod(uid)
            case LookAtPod(uid, namespace, name):
                node = api.node_of(uid, (namespace, name))
                return OK
            case (
                TryPod()
                | Report()
                | Hint()
                | Enqueue()
                | StartJob()
                | SuspendJob()
                | CleanJob()
                | Reserve()
                | Deallocate()
            ):
                return OK
            case _:
                assert_never(call)

    write = land if isinstance(call, LookAtPod) else network.unless_refused(land)
    status = yield from (network.hung if network.hanging else network.request)(write, timeout_s)
    return Response(status, f"the API server said {status}", node=node)


def _write_mark(call: Enqueue | Report | Reserve, api: ApiServer) -> int:
    """The phase of a PodGroup, the reservation of a pod."""
    match call:
        case Reserve(pod=Pod() as pod):
            return api.change_pod(pod.uid, **call.fields)
        case Enqueue(key, uid):
            return api.take_up(key, uid)
        case Report(key, str(uid), pending=False):
            return api.tell_of_group(key, uid, started=call.code in ("Running", "Ended"))
        case _:
            return OK


def _deallocate(
    call: Deallocate, timeout_s: float, api: ApiServer, network: Network, rests: Callable[[], float]
) -> Process[Response]:
    """A GET, and one PATCH on the condition that the claim is as it was then."""
    version, claim = 0, None

    def look() -> int:
        nonlocal version, claim
        version, claim = api.look_at_claim(call.uid)
        return OK

    status = yield from (network.hung if network.hanging else network.request)(look, timeout_s)
    if status == OK and claim is not None and claim.allocation is not None:
        while (standstill_s := rests()) > 0:
            yield standstill_s
        write = network.unless_refused(lambda: api.deallocate_claim(call.uid, version))
        status = yield from network.request(write, timeout_s)
    return Response(status, f"the API server said {status}")


def _write_job(
    write: Write, timeout_s: float, api: ApiServer, network: Network, rests: Callable[[], float]
) -> Process[Response]:
    """A GET, and one PATCH on the condition that the job is as it was then."""
    seen: tuple[int, BatchJob | None] = 0, None

    def look() -> int:
        nonlocal seen
        seen = api.look_at_job(write)
        return OK

    if network.unread:
        yield 2 * network.hop()
        return Response(503, "the API server reads no job", unsent=True)
    send = network.hung if network.hanging else network.request
    status = yield from send(look, timeout_s)
    unsent = status != OK
    if not unsent:
        while (standstill_s := rests()) > 0:
            yield standstill_s
        status = yield from network.request(network.unless_refused(lambda: api.write_job(write, seen)), timeout_s)
    return Response(status, f"the API server said {status}", unsent=unsent)
