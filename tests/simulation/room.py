"""Room is given once: nothing is promised or bound where room is kept, may be in use, or is promised to another pod."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from extender.core.effects import AnswerFilter, AnswerPreempt, Effect, Nominate, PostBinding, StartJob, Ungate
from extender.core.events import Event, FilterCalled, GroupSeen, PodGone, PodSeen, PodsSeen, PreemptCalled
from policies.model import Dialect, Job, Pod
from tests.simulation.claims import Claims
from tests.simulation.job_orders import overfull
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits, give_back, lets_in


def judge_room(effect: Effect, event: Event, shown: Shown, claims: Claims) -> str | None:
    """The fault of a request of the core, before ``claims`` knows of it."""
    match effect:
        case Nominate(uid, node=str(node)) | Ungate(uid, pin=(node,)):
            return _promised(uid, node, shown, claims)
        case AnswerFilter(passed=passed) if isinstance(event, FilterCalled):
            pod = shown.pods.get(event.pod.uid)
            return None if pod is None or pod.native_group else _let_in(pod, passed, shown, claims)
        case AnswerPreempt(victims=victims) if isinstance(event, PreemptCalled):
            return _for_nothing(event.pod, victims, shown, claims)
        case PostBinding(uid, node=node) if effect.group is None and uid in shown.pods:
            # Where nothing is promised, room is kube-scheduler's business: it may know of more.
            pod = shown.pods[uid]
            if fits(shown.free(node), pod.requests) and (short := _short(pod, node, shown, claims)):
                return f"{uid} is to be bound to {node}, where {short}"
        case StartJob():
            podsets = claims.admissions.as_known(effect.job.podsets)
            return overfull(effect, _left_for(effect.job, shown, claims), podsets)
        case _:
            pass
    return None


def judge_kept_in_vain(event: Event, shown: Shown, claims: Claims) -> str | None:
    """The complaint about useless promises, after the core has handled the event.

    If nothing of a gang is bound, nor may be, and too few members exist to start, no member is promised room. Pods
    without an owner go by its last known state.
    """
    match event:
        case PodSeen(pod):
            gangs = {pod.group_key}
        case PodsSeen(pods):
            gangs = {pod.group_key for pod in pods}
        case GroupSeen(group):
            gangs = {group.key}
        case PodGone():
            gangs = {claim.gang for claim in claims.promised.values()}
        case _:
            return None
    promised = dict.fromkeys(claim.gang for claim in claims.promised.values() if claim.gang in gangs)
    on_their_way = {binding.group for binding in claims.posting.values()}
    for key in [key for key in promised if key is not None and key not in shown.jobs and key not in on_their_way]:
        sight = shown.sight(key, former=True)
        if sight is None or sight.bound or claims.doubts.any_of(key):
            continue
        if any(pod.group is not None and pod.group.dialect is Dialect.VOLCANO for pod in sight.live):
            continue  # a Volcano Job may be about to make the others
        if sight.needed is None or sight.count(sight.live) < sight.needed:
            return f"{key} is promised room, and {len(sight.live)} of {sight.needed} members exist"
    return None


def _left_for(job: Job, shown: Shown, claims: Claims) -> Room:
    """The room for a job.

    Pods of a job that was started without a plan may get their nodes, and be bound there, before the plan is
    written.
    """
    room, key = claims.left(shown.nodes, surely=True), job.key
    for claim in (promise for promise in claims.promised.values() if promise.gang == key and promise.node in room):
        give_back(room[claim.node], claim.requests)
    for pod in shown.members.get(key, {}).values():
        if pod.owner == job.uid and pod.node in room and not pod.terminal:
            give_back(room[pod.node], pod.requests)
    return room


def _let_in(pod: Pod, passed: Collection[str], shown: Shown, claims: Claims) -> str | None:
    if pod.group_key is not None:
        # There is no room on a node that is gone. It was promised before, and kube-scheduler has yet to see it.
        known_nodes = [node for node in passed if node in shown.nodes]
        return _promised(pod.uid, known_nodes[0], shown, claims) if known_nodes and len(passed) == 1 else None
    # On a node where others are promised nothing, room is kube-scheduler's business: it may know of more.
    claimed = _claimed(shown, claims, (pod.uid,))
    for node in passed:
        if node in claimed and (short := _short(pod, node, shown, claims)):
            return f"{pod.uid} may go to {node}, where {short}"
    return None


def _claimed(shown: Shown, claims: Claims, but: Collection[str] = ()) -> set[str]:
    """The nodes with room that is promised, kept or possibly in use for other pods than these.

    A promise on a node that is gone has ended, whether that is written yet or not.
    """
    books = (claims.promised, claims.kept, claims.seats.sure, claims.doubts.minded)
    nodes = {claim.node for book in books for uid, claim in book.items() if uid not in but}
    return (nodes | claims.admissions.slots.nodes(claims.on_their_way)) & shown.nodes.keys()


def _for_nothing(pod: Pod, victims: Mapping[str, tuple[str, ...]], shown: Shown, claims: Claims) -> str | None:
    """The complaint about victims of a pod that filter keeps out even after their end."""
    for node, uids in victims.items() if pod.group_key is None and not pod.native_group else ():
        left = claims.left((node,), pod, surely=True).get(node, {})
        for victim in (shown.pods[uid] for uid in uids if uid in shown.pods):
            if victim.terminal or node not in (victim.node, claims.on_their_way.get(victim.uid)):
                continue
            left = {name: amount + dict(victim.requests).get(name, 0) for name, amount in left.items()}
        if node in _claimed(shown, claims, uids) and not fits(left, pod.requests):
            return f"{uids} may be evicted from {node} for {pod.uid}, and promised room keeps it out: {left} is left"
    return None


def _promised(uid: str, node: str, shown: Shown, claims: Claims) -> str | None:
    pod, before = shown.pods.get(uid), claims.promised.get(uid)
    if pod is None or pod.node or (before is not None and before.node == node):
        return None
    if claims.admissions.slots.has_slot(pod, node, claims.on_their_way):
        return None  # it was promised when the job was started
    doubt = claims.doubts.minded.get(uid)
    known = shown.nodes.get(doubt.node) if doubt is not None else None
    if doubt is not None and doubt.node != node and known is not None and lets_in(known, pod.selection):
        return f"{uid} is promised {node}, and may have been bound to {doubt.node}"
    earlier = claims.doubts.get(uid)
    again = earlier is not None and earlier.node == node
    short = _short(pod, node, shown, claims, again=again)
    return f"{uid} is promised {node}, where {short}" if short else None


def _short(pod: Pod, node: str, shown: Shown, claims: Claims, *, again: bool = False) -> str | None:
    """The reason why the pod does not fit there beside other promises; None if it does.

    ``again``: the pod may have had that room all the time, together with its fellows: the node may have shrunk
      since.
    """
    left = claims.left((node,), pod, again=again, surely=True)[node]
    if fits(left, pod.requests) or shown.nodes[node].bare:
        return None  # the content of a left-out node is unknown: a started job keeps its plan there
    free = shown.free(node)
    books = {"kept for": claims.kept, "in doubt for": claims.doubts.minded, "promised to": claims.promised}
    books["kept for the replacement of"] = claims.seats.sure
    whose = [f"{how} {uid}" for how, book in books.items() for uid, claim in book.items() if claim.node == node]
    return f"the room is {', '.join(whose) or 'being bound'}: {left} of {free} is left"
