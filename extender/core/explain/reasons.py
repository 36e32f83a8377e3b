"""The reason that users read of a cause: a stable code, a sentence with the current numbers, and whether it is a
warning.

No other code makes reasons. Reasons name instants and never durations: a text that changes as time passes would be
reported again and again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from typing import NamedTuple, assert_never, get_args

from extender.core import causes
from extender.core.ledger.expectations import Expectation
from policies.model import Victim
from policies.model.mentions import Mention, mentioned
from policies.model.queues import VOLCANO, Strategy
from policies.words import amount, counted, lasting, listed, many, without_name


class Reason(NamedTuple):
    """Why a workload is in its state: a stable CamelCase code, and a sentence with the current numbers."""

    code: str
    message: str
    warning: bool = True


CODES: tuple[str, ...] = tuple(sorted(kind.__name__ for kind in get_args(causes.Cause)))
"""The code of every reason."""


def code_of(cause: causes.Cause) -> str:
    """Return the code of the cause's reason, without making its text."""
    return type(cause).__name__


@lru_cache(maxsize=1024)
def reason_of(cause: causes.Cause) -> Reason:
    """Return the reason for users. Thousands of workloads may have equal causes: their text is made once."""
    return Reason(code_of(cause), text_of(cause), _warns(cause))


def turn_text(turn: str | causes.Cause) -> str:
    """Return the text of an entry of a story."""
    return turn if isinstance(turn, str) else f"{code_of(turn)}: {text_of(turn)}"


_CALM = (
    *causes.PASSING,
    causes.Running,
    causes.Ended,
    causes.Gated,
    causes.MembersMissing,
    causes.Held,
    causes.Creating,
    causes.SharedSpread,
    causes.Preempted,
    causes.Preempting,
    causes.AwaitingNodes,
)
"""Causes that end by themselves, or that a user wanted."""


def _warns(cause: causes.Cause) -> bool:
    """Whether a user may have to act."""
    match cause:
        case causes.Stopping(what=causes.PodsLeft(silent="") | causes.TakingOff(detail="") | causes.StartedOver()):
            return False
    return not isinstance(cause, _CALM)


def text_of(cause: causes.Cause) -> str:  # noqa: C901, one line for each cause
    """Return the sentence of the cause's reason."""
    text: str
    match cause:
        case causes.New():
            return "the gang has just been seen"
        case causes.Trying():
            return "the API server is asked by a dry run what it makes of its pods"
        case causes.Placed(carrier=causes.Carrier.STARTED_JOB):
            return "it is started with the plan that is written on it"
        case causes.Placed(members=members, carrier=carrier):
            return f"{counted(members, 'member', 'has', 'have')} a node; {_CARRIERS[carrier]}"
        case causes.Holding(arrived=arrived, uncreated=uncreated):
            return f"{arrived} reached bind{_uncreated(uncreated)}"
        case causes.Releasing():
            return "its members are being bound"
        case causes.Running(what=what):
            return _running(what)
        case causes.Partial(bound=bound):
            return f"its start broke off with {bound} bound; replacements are placed first"
        case causes.Ended():
            return _ended(cause)
        case causes.NotPlanned():
            return "it was started without a plan of Muster's; it is planned when it is suspended the next time"
        case causes.NamespaceTerminating(namespace=name, gone=gone):
            text = f"namespace {name} is {'deleted' if gone else 'being deleted'}"
            return f"{text}: no pod can be created in it, so nothing of it is started"
        case causes.OtherScheduler(schedulers=names, ours=ours):
            text = f"its pods have schedulerName {listed(names)}, which Muster does not serve"
            return f"{text}: nothing starts them together; set schedulerName: {ours} in the pod template"
        case causes.Contradiction(what=what):
            return _contradiction(what)
        case causes.InvalidPodGroup(problem=int(size)):
            return f"the minMember of its PodGroup is {size}, not a positive number"
        case causes.InvalidPodGroup(problem=problem, pod=pod):
            return f"{f'pod {pod}' if pod else 'its PodGroup'}: {problem}"
        case causes.PodGroupDeleted():
            return "its PodGroup is being deleted"
        case causes.PodGroupMissing(group=key, koordinator=koordinator):
            text = f"there is no PodGroup named {key.name} in namespace {key.namespace}"
            more = ", and no member says gang.scheduling.koordinator.sh/min-available"
            return f"{text}{more}" if koordinator else text
        case causes.MinMemberMissing():
            return _min_member_missing(cause)
        case causes.MembersMissing():
            return _members_missing(cause)
        case causes.TooManyMembers(members=members, min_member=least, most=most):
            text = f"it has {many(members, 'member')} and minMember {least or 'unknown'}"
            return f"{text}; a gang may have at most {most} (max_gang_members)"
        case causes.TooManyGangs(waiting=waiting, namespace=name):
            text = f"{counted(waiting, 'earlier gang', 'waits', 'wait')} in namespace {name}"
            return f"{text}, the most that are looked at (max_waiting_gangs)"
        case causes.TooManyShapes(shapes=shapes, most=most):
            text = "requests, node selector, affinity, tolerations, topology, host ports or spread"
            limit = f"a gang may have at most {most} (max_gang_shapes); use one pod template for each role"
            return f"its members have {shapes} different shapes ({text}), and {limit}"
        case causes.ResourceClaims():
            return _resource_claims(cause)
        case causes.VolumeNotBound(claim=claim, pod=pod, exists=True):
            return f"volume claim {claim} of pod {pod} {_no_volume(cause)}"
        case causes.VolumeNotBound(claim=claim, pod=pod):
            return f"there is no volume claim {claim}, which pod {pod} mounts; create it"
        case causes.Gated(gated=gated, members=members, gates=gates):
            return f"{gated} of {counted(members, 'member', 'is', 'are')} gated by {listed(gates)}"
        case causes.Held():
            return "muster.dev/hold keeps it suspended"
        case causes.NameTaken():
            return _name_taken(cause)
        case causes.InvalidJob(detail=detail) | causes.PolicyFailed(detail=detail):
            return detail
        case causes.Stopping(what=what):
            return _stopping(what)
        case causes.PodsRefused(detail=detail):
            remedy = next((text for word, text in _REMEDIES if word in detail), _REMEDY)
            return f"the API server refuses its pods: {detail}; {remedy}"
        case causes.QueueMissing():
            return _queue_missing(cause)
        case causes.QueueInactive(queue=queue, what=causes.Unusable.NOT_SELECTED, detail=namespace):
            return f"the namespaceSelector of {queue} does not select namespace {namespace}"
        case causes.QueueInactive(queue=queue, what=causes.Unusable.PARENT):
            return f"{queue} has queues below it: only those have workloads"
        case causes.QueueInactive(queue=queue, detail=detail):
            return f"{queue} cannot be used: {detail}"
        case causes.QueueStopped(queue=queue, policy=policy):
            return f"{queue} is stopped (stopPolicy {policy})" if policy else f"{queue} is closed"
        case causes.RunTooLong(queue=queue, limit_s=limit_s, expected_s=expected_s, deadline=deadline):
            begin = "it has a deadline after" if deadline else "its author expects it to run for"
            return f"{begin} {lasting(expected_s)}, and {queue} allows {lasting(limit_s)}"
        case causes.QueueOrder(first=first, queue=queue):
            return f"{first.mention} is before it in {queue}, which is {Strategy.STRICT}"
        case causes.Creating(awaited=None):
            return "pods of another job are yet to be created and may never be, and other workloads wait"
        case causes.Creating(awaited=awaited, rate=rate):
            text = f"{awaited} pods of jobs that were started before it are yet to be created"
            return f"{text}, at {rate} a second"
        case causes.SharedSpread(other=other):
            return f"a topology spread counts its members and those of {other}, which is being started"
        case causes.Preempted(preemptor=key):
            return f"it is being evicted for {key.mention}; its pods are still terminating"
        case causes.Preempting(victims=victims):
            several = len(victims) > 1
            text = f"{victims_text(victims)} {'are' if several else 'is'} being evicted for it"
            return f"{text}; it starts when {'they are' if several else 'that is'} gone"
        case causes.AwaitingNodes():
            return _awaiting(cause)
        case causes.Forgotten(what=what):
            return what if isinstance(what, str) else _refused(what)
        case causes.Refused(what=what, beside=beside):
            return _with_facts(_refused(what), beside)
        case causes.NoRoom(what=what, beside=beside) | causes.NoQuota(what=what, beside=beside):
            return _with_facts(_lack(what), beside)
        case causes.UnknownTopology(what=what) | causes.Split(what=what) | causes.OfferedByDra(what=what):
            return _lack(what)
    assert_never(cause)


_CARRIERS = {
    causes.Carrier.KUBE_SCHEDULER: "kube-scheduler is carrying it out",
    causes.Carrier.ADVISED: "where each goes is up to kube-scheduler",
    causes.Carrier.JOB: "its job is started with them, and makes its pods",
}
_REMEDIES = (
    ("there is a pod muster-trial", "delete that pod"),
    ("PodSecurity", "change its pod template, or the pod-security labels of its namespace"),
    ("service account", "create the ServiceAccount, or name another one in its pod template"),
    ("usage per", "ask for what the LimitRanges of its namespace allow"),
    ("exceeded quota", "it is tried again when other pods of its namespace may have ended; or raise the quota"),
    ("failed quota", "say in its pod template what the ResourceQuota counts, or have a LimitRange say it"),
    ("tolerations", "take the toleration out of its pod template, or let the namespace have it"),
    ("calling webhook", "the webhook has to answer, or to be taken out"),
)
"""Words in messages of the API server, with the remedy."""
_REMEDY = "change its pod template, or what refuses it"


def _uncreated(pods: int) -> str:
    return f"; {counted(pods, 'pod', 'is', 'are')} yet to be created" if pods else ""


def _running(what: causes.Bound | causes.Growing | causes.Incomplete) -> str:
    match what:
        case causes.Incomplete():
            return _incomplete(what)
        case causes.Growing(bound=bound, size=size, waiting=waiting, surplus=surplus, unmade=unmade, reserved=reserved):
            text = f"{bound} of {size} run"
            if surplus is not None:
                for_room = " for room" if isinstance(surplus, causes.NoRoom) else ""
                text += f"; {waiting} {'waits' if waiting == 1 else 'wait'}{for_room}: {text_of(surplus)}"
            if unmade:
                text += f"; {counted(unmade, 'more pod', 'is', 'are')} yet to be made"
            return text if reserved is None else f"{text}; {_room_text(reserved)}"
        case causes.Bound(bound=bound, uncreated=uncreated, waiting=waiting, surplus=surplus, led=led):
            text = f"{counted(bound, 'member', 'is', 'are')} bound{_uncreated(uncreated)}"
            if surplus is not None:
                text += f"; {counted(waiting, 'more member', 'waits', 'wait')}: {text_of(surplus)}"
            if led:
                text += "; its pod template names the nodes of the plan: suspend the job to have it planned again"
            return text
    assert_never(what)


def _incomplete(what: causes.Incomplete) -> str:
    """Text like ``"2 of 3 members are bound; room for 1 pod is kept on n-1 until 2026-11-21 14:05:10 UTC"``."""
    if not what.missing:
        return f"{what.bound} are bound; the others have a node"
    room = "no room is kept for the others" if what.reserved is None else _room_text(what.reserved)
    return f"{what.bound} are bound; {room}"


def _room_text(reserved: causes.ReplacementRoom) -> str:
    on = f" on {listed(reserved.nodes)}" if reserved.nodes else ""
    until = f"until {datetime.fromtimestamp(reserved.until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"room for {many(reserved.pods, 'pod')} is kept{on} {until}"


def _ended(cause: causes.Ended) -> str:
    if cause.reserved is not None:
        return f"none of its members is left; {_room_text(cause.reserved)}"
    if cause.pods:
        text = f"{counted(cause.pods, 'member', 'has', 'have')} ended"
        return f"{text}, {cause.failed} of them failed" if cause.failed else text
    if cause.deleting:
        return f"{counted(cause.deleting, 'member', 'is', 'are')} being deleted"
    return "its job has ended"


def _contradiction(what: causes.Disagreement | causes.TwoQueues) -> str:
    if isinstance(what, causes.TwoQueues):
        return f"its members name {what.of_members}, and its PodGroup {what.of_group}"
    return f"its members have different {what.subject}: {listed(what.values)}"


def _min_member_missing(cause: causes.MinMemberMissing) -> str:
    if cause.owner:
        has_none = f"({cause.owner}) has no label muster.dev/gang: true, or Muster may not read it"
        return f"the object that makes its pods {has_none}: the size of the gang is never guessed"
    key = "yunikorn.apache.org/task-groups" if cause.yunikorn else "muster.dev/min-member"
    return f"no member says {key}: the size of the gang is never guessed"


def _members_missing(cause: causes.MembersMissing) -> str:
    there, needed, podset = cause.there
    if podset or cause.none_left:
        text = f"{cause.there} exist"
    else:
        text = f"{there} of {counted(needed or 0, 'member', 'exists', 'exist')}"
    if cause.earlier:
        text += f"; {counted(cause.earlier, 'pod', 'belongs', 'belong')} to an earlier PodGroup of this name"
    if cause.placeholders:
        text += "; Muster makes no placeholders for pods that are yet to come"
    elif cause.stateful_set:
        order = "creates its pods one after the other unless its podManagementPolicy is Parallel"
        text += f"; StatefulSet {cause.stateful_set} {order}"
    return text


def _name_taken(cause: causes.NameTaken) -> str:
    """Say why the workload has to wait for its name, and what to do."""
    pods = cause.pods
    if pods:
        holder, until = counted(pods, "pod", "has", "have"), f"{'it is' if pods == 1 else 'they are'} gone"
    else:
        holder, until = f"{cause.holder} has", "that has ended or is gone"
    if cause.own:
        return f"{holder} the gang name {cause.name}, which is that of this job: it is planned when {until}"
    return (
        f"{holder} the gang name {cause.name}, which its pod template names too (muster.dev/pod-group): give it "
        f"another name, or none; otherwise it is planned when {until}"
    )


def _stopping(what: causes.PodsLeft | causes.TakingOff | causes.StartedOver | causes.NotSuspended) -> str:
    match what:
        case causes.PodsLeft(pods=pods, silent=silent):
            text = "it is suspended; its pods are still terminating"
            if pods is not None:
                text = f"{counted(pods, 'pod', 'is', 'are')} still terminating, of an earlier start"
            if not silent:
                return text
            return f"{text}; node {silent} does not report: give it the out-of-service taint, or delete it"
        case causes.TakingOff(detail=detail):
            refused = f", which was refused: {detail}" if detail else ""
            return f"it is suspended; what Muster wrote on it is being taken off{refused}"
        case causes.StartedOver(detail=detail):
            if detail:
                return f"it is started over: {detail}"
            return "its pods are planned on nodes where other pods are still terminating"
        case causes.NotSuspended(detail=detail, refused=refused):
            return f"it is to be suspended: {detail}; that was refused: {refused}"
    assert_never(what)


def _queue_missing(cause: causes.QueueMissing) -> str:
    match cause.what:
        case causes.Missing.NAME:
            return "it names no queue, and every workload has to (require_queue)"
        case causes.Missing.LOCAL:
            return f"there is no LocalQueue {cause.name} in namespace {cause.place}"
        case causes.Missing.CLUSTER:
            place = cause.place or "of no name"
            return f"LocalQueue {cause.name} points to ClusterQueue {place}, which does not exist"
        case causes.Missing.VOLCANO:
            return f"there is no {cause.name} of Volcano"
    assert_never(cause.what)


def _awaiting(cause: causes.AwaitingNodes) -> str:
    pods = many(cause.pods, "pod")
    match cause.call:
        case causes.Call.SHOWN:
            text = f"its {pods} are pending without a plan, so that an autoscaler makes nodes for them"
        case causes.Call.REQUESTED:
            text = f"a ProvisioningRequest asks for nodes for {pods}"
        case causes.Call.GRANTED:
            text = "the requested nodes are granted, but have not joined the cluster yet"
        case _:
            assert_never(cause.call)
    return f"it has quota of {listed(cause.flavors)} in ClusterQueue {cause.queue}, but no nodes: {text}"


def _refused(what: causes.OtherNodes | causes.TurnedDown | causes.Rests) -> str:
    match what:
        case causes.OtherNodes(words=words, without=without):
            return f"kube-scheduler refused it, and says: {words}; without those nodes, {text_of(without)}"
        case causes.TurnedDown(detail=detail, words=words, times=times):
            answer = f", and says: {words}" if words else ""
            return f"{detail}{answer}; refused {times} times in a row, so the pauses between its plans grow"
        case causes.Rests(detail=detail):
            return f"{detail}; it is tried again after a pause"
    assert_never(what)


def _lack(  # noqa: C901, one line for each lack
    what: causes.Short
    | causes.LaterWave
    | causes.ByFlavor
    | causes.Uncovered
    | causes.AskedInVain
    | causes.VictimsGone
    | causes.EvictionEnded
    | causes.Unwritten
    | causes.Protected
    | causes.Late
    | causes.Misfit
    | causes.ByDra,
) -> str:
    match what:
        case causes.Short():
            return _short(what)
        case causes.LaterWave():
            return "there is room only where it would keep pods of a later wave away from their nodes"
        case causes.ByFlavor():
            return _by_flavor(what)
        case causes.Uncovered(queue=queue, resources=names):
            return f"{queue} does not cover {listed(names)}, which it asks for"
        case causes.Misfit(detail=detail) | causes.Protected(detail=detail):
            return detail
        case causes.AskedInVain():
            return _in_vain(what)
        case causes.VictimsGone(why=why):
            return f"its victims are gone, but {text_of(why)}"
        case causes.EvictionEnded():
            return _eviction_ended(what)
        case causes.Unwritten(detail=detail):
            return f"its reservation could not be written: {detail}"
        case causes.Late():
            return _late(what)
        case causes.ByDra():
            return f"{_by_dra(what)}, and no node has such devices"
    assert_never(what)


def _resource_claims(cause: causes.ResourceClaims) -> str:
    kind, name, by = cause.kind, cause.name, f"{cause.named_by} of pod {cause.pod}"
    if not name:
        return f"pod {cause.pod} has ResourceClaims, and there is no {kind}: install the driver of its devices"
    if cause.elsewhere:
        return f"{kind} {name} is in another namespace than {by}, where no node prepares its channels"
    if cause.named_by:
        return f"there is no {kind} with UID {name}, which {by} is for"
    text = f"there is no {kind} {name}, which pod {cause.pod} uses"
    return f"{text}; ComputeDomain {cause.domain} is to have it made by its controller" if cause.domain else text


def _no_volume(cause: causes.VolumeNotBound) -> str:
    """Say why a claim that exists cannot be used."""
    if cause.trouble:
        return cause.trouble
    named = f"StorageClass {cause.storage_class}"
    if not cause.storage_class:
        return "has no volume; bind it first"
    if not cause.class_exists:
        return f"has no volume, and Muster sees no {named}; create it, or bind the claim first"
    return f"has no volume, and {named} does not wait for its pod; bind it first"


def _short(what: causes.Short) -> str:
    # Surplus pods of a running gang are placed one by one: how many fit at once means nothing.
    text = "" if what.grows else f"{what.placed} of {what.needed} members fit at once: "
    if what.near:
        text += f"{what.near}{_holders(what.holders)}; "
    text += what.detail
    if ahead := what.ahead:
        text += f"; room is kept for {many(len(ahead), 'pod')} in no gang ({mentioned(ahead)}), ahead of it in line"
    if what.reserved is not None:
        text += f"; {_room_text(what.reserved)} for replacements of lost members of other gangs"
    if what.by_dra is not None:
        text += f"; {_by_dra(what.by_dra)}, too"
    return text


def _by_dra(what: causes.ByDra) -> str:
    return f"{what.resource} is offered by DRA ({what.classes})"


def _holders(holders: causes.Holders) -> str:
    """Text like ``"; held there by train-7 (ends unknown), team-b/train-9 (ends by 2026-11-21 14:05 UTC)"``.

    Empty when no pod has room there. Gangs of other namespaces are named with their namespace.
    """
    most = [Mention(key.namespace, f"{key} ({_end(ends)})", f"{key.name} ({_end(ends)})") for key, ends in holders.most]
    holders_named = [mentioned(most)] if most else []
    if holders.more:
        holders_named.append(many(holders.more, "more gang"))
    if holders.singles:
        holders_named.append(f"{many(holders.singles, 'pod')} in no gang")
    return f"; held there by {', '.join(holders_named)}" if holders_named else ""


def _end(ends: float) -> str:
    """The end as an instant, so that the text does not change while time passes."""
    if ends == -inf:
        return "being deleted"
    try:
        return f"ends by {datetime.fromtimestamp(ends, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "ends unknown"


def _by_flavor(what: causes.ByFlavor) -> str:
    last = "" if what.last is None else text_of(what.last)
    if what.promised:
        last = "the quota that is left is reserved for workloads for which others are being evicted"
    return f"{what.queue}: {'; '.join([*dict.fromkeys(map(_of_flavor, what.flavors))][:8]) or last}"


def _of_flavor(what: causes.FlavorRefused | causes.FlavorShort) -> str:
    if isinstance(what, causes.FlavorRefused):
        return f"flavor {what.flavor}: {flavor_text(what.why)}"
    flavor, resource = what.what
    request = f"it asks for {amount(resource, what.requested, up=True)}"
    if not flavor.startswith(VOLCANO):
        request += f" of flavor {flavor}"
    if what.most is None:
        return f"{request}, of which the queue has no quota"
    if what.left is None:
        return f"{request}, and the queue can have {amount(resource, what.most)} at most"
    left = (
        f"{without_name(resource, what.left)} of {amount(resource, what.most)} {'is' if what.left == 1 else 'are'} left"
    )
    return f"{request}, and {left}{_users(what)}{_own(what)}"


def flavor_text(why: causes.NotThisFlavor) -> str:
    """Say why the workload cannot have a flavor."""
    match why:
        case causes.StartedWith(flavors=flavors):
            return f"it was started with flavor {', '.join(flavors)}"
        case causes.CountedAs(first=first):
            return f"its nodes count as those of flavor {first}, which comes first"
        case causes.Unsuited(detail=detail):
            return f"its pods do not go to nodes of that flavor: {detail}"
    return text_of(why)


def _users(what: causes.FlavorShort) -> str:
    resource = what.what[1]
    named = [Mention(key.namespace, f"{key} ({without_name(resource, much)})") for key, much in what.users]
    more = f" and {what.more} more" if what.more else ""
    return f"; it is used by {mentioned(named)}{more}" if named else ""


def _own(what: causes.FlavorShort) -> str:
    """Say how much of it the workload's own pods use, and why pods that terminate still count."""
    resource, gone = what.what[1], what.of_leaving
    text = f"; its own pods use {without_name(resource, what.own)}" if what.own > 0 else ""
    if what.leaving is not None:
        still = f"{amount(resource, gone)} still {'counts' if gone == 1 else 'count'}"
        text += f"; {still} for {leaving_text(what.leaving)}"
    return text


def leaving_text(leaving: causes.LeavingPod) -> str:
    """Text like ``"its own pod train-0, which terminates on deleted node n-1, and 2 more"``."""
    where = "deleted node" if leaving.ready is None else "node" if leaving.ready else "silent node"
    more = f", and {leaving.more} more" if leaving.more else ""
    return f"its own pod {leaving.pod}, which terminates on {where} {leaving.node}{more}"


def _in_vain(what: causes.AskedInVain) -> str:
    if what.times:
        text = f"nodes were requested and did not come, {many(what.times, 'time')} in a row"
    else:
        text = f"nodes of {listed(what.flavors)} were requested and did not come: {what.detail}"
    return f"{text}; it asks again {what.pause_s} s later"


def _eviction_ended(what: causes.EvictionEnded) -> str:
    unevicted = "" if what.evicted else ", before any pod was evicted"
    text = f"the eviction of {victims_text(what.victims)} for it has ended{unevicted}: {text_of(what.why)}"
    return f"{text}; it is tried again" if what.again else text


def _late(what: causes.Late) -> str:
    text = f"after {what.after_s} s {victims_text(what.left)} still had pods"
    if what.refused is None:
        return text
    # The message of the API server names the job.
    (key, detail), why = what.refused, "the suspension was refused"
    return f"{text}: {mentioned([Mention(key.namespace, f'{why}: {detail}', other=why)])}"


_NAMED = 5


def victims_text(victims: tuple[Victim, ...]) -> str:
    """Name the first victims, and say how many more there are."""
    named = mentioned([Mention(victim.key.namespace, str(victim)) for victim in victims[:_NAMED]])
    more = len(victims) - _NAMED
    return f"{named} and {many(more, 'more victim')}" if more > 0 else named or "no victim"


def _with_facts(text: str, facts: tuple[causes.Beside, ...]) -> str:
    """Add further facts to a text. The difference between pods and their templates comes first."""
    for fact in facts:
        text = f"{fact.detail}: {text}" if isinstance(fact, causes.Differs) else f"{text}; {fact_text(fact)}"
    return text


def fact_text(fact: causes.Beside) -> str:  # noqa: C901, one line for each fact
    match fact:
        case causes.PutOff():
            return (
                "it goes after workloads of other namespaces, because pods of jobs of this namespace were not created "
                "when those were started"
            )
        case causes.Rises(queue=queue, points=points, since=since):
            at = f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M} UTC"
            return f"its age counts in {queue}: {points} of priority a day since {at}"
        case causes.Incomplete():
            return _incomplete(fact)
        case causes.LostPins(pods=pods, nodes=nodes):
            pinned = f"pods {listed(pods)} are" if len(pods) > 1 else f"pod {pods[0]} is"
            gone = f"nodes {listed(nodes)}, which are" if len(nodes) > 1 else f"node {nodes[0]}, which is"
            return f"{pinned} pinned to {gone} gone: only deleting {'them' if len(pods) > 1 else 'it'} helps"
        case causes.PreemptionOff(priority=priority):
            return f"its priority is {priority}, but preemption is off"
        case causes.NoVictims(detail=detail) | causes.Differs(detail=detail):
            return detail
        case causes.WouldEvict(victims=victims):
            named = mentioned([Mention(victim.key.namespace, str(victim)) for victim in victims])
            return f"preemption is a dry run: on, it evicts {many(len(victims), 'victim')}: {named}"
        case causes.Uncreated(of_others=True):
            whose = "pods of another job of its namespace, of no higher priority, were not created in time"
            return f"nothing is evicted for it: {whose}"
        case causes.Uncreated():
            return "nothing is evicted for it: when it was started last, its pods were not created in time"
        case causes.Untried(detail=detail):
            if detail:
                return f"nothing is evicted for it, because the API server would refuse its pods: {detail}"
            return "nothing is evicted for it before the API server has been asked about its pods"
        case causes.NoNodesAsked(detail=detail):
            return f"no nodes are asked for: {detail}"
        case causes.AskedInVain():
            return _in_vain(fact)
        case causes.EvictionEnded():
            return _eviction_ended(fact)
        case causes.RoomReserved():
            return _reserved(fact)
        case causes.RoomReservedForOthers(workload=key, nodes=nodes, start_by=start_by):
            room = f"room on {many(len(nodes), 'node')} is reserved for"
            start = (
                ""
                if start_by is None
                else f", which starts by {instant_text(start_by)}; workloads that end before that may run there there"
            )
            return f"{room} {mentioned([Mention(key.namespace, str(key))])}{start}"
    assert_never(fact)


def _reserved(fact: causes.RoomReserved) -> str:
    """Text like ``"room on 2 nodes is reserved for it; it starts by 2026-11-21 14:05 UTC, after default/a has ended
    (...)"``."""
    text = f"room on {many(len(fact.nodes), 'node')} is reserved for it"
    if fact.start_by is None:
        return f"{text}; when the workloads there end is not known"
    text += f"; it starts by {instant_text(fact.start_by)}"
    if fact.after is None:
        return text
    ended = f"after {mentioned([Mention(fact.after.namespace, str(fact.after))])} has ended"
    return f"{text}, {ended}; that rests on {fact.rests_on}" if fact.rests_on else f"{text}, {ended}"


@lru_cache(maxsize=1024)
def expectation_text(expected: Expectation, wall_offset: float) -> str:
    """``"expected 14:20 UTC (between 14:05 and 16:40), after team-a/llm-3 ends; rests on its author's ..."``.

    Instants on another day than that of the expectation have their date. ``wall_offset``: the core's clock at 1970.
    """
    begin, start, earliest, latest = (
        datetime.fromtimestamp(instant - wall_offset, UTC)
        for instant in (expected.as_of, expected.start, expected.earliest, expected.latest)
    )

    def on(instant: datetime, day: datetime) -> str:
        return f"{instant:%H:%M}" if instant.date() == day.date() else f"{instant:%Y-%m-%d %H:%M}"

    text = f"expected {on(start, begin)} UTC (between {on(earliest, begin)} and {on(latest, begin)})"
    if (key := expected.after) is None:
        return text
    ends = Mention(key.namespace, f"after {key} ends", other="after a workload of another namespace ends")
    rests_on = f"; rests on {expected.rests_on}" if expected.rests_on else ""
    return f"{text}, {mentioned([ends])}{rests_on}"


NO_EXPECTATION = (
    "expected start unknown: how long workloads before it take is not known (muster.dev/expected-duration says it)"
)
"""The text where a start rests on an end for which no duration is known."""
STARTS_NEVER = "expected start: never, as its demands and the cluster are now"
"""The text where no end of other workloads would suffice."""


def instant_text(wall: float) -> str:
    """Text like ``"2026-11-21 14:05 UTC"``; ``wall`` is in seconds since the epoch."""
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M} UTC"
