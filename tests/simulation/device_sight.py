"""Devices as the referee counts them: as amounts of pods and nodes, and claim by claim.

What the extender was shown has claims and slices in place of amounts: here they are put back. By amounts no device is
promised twice, and each pod that waits lacks room. By claims no allocation is cleared that a pod may start with, none
is left over, and no plan leaves the node that an allocation names. A claim of several pods counts for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from extender.core.effects import Deallocate, Effect, Nominate, PostBinding, StartJob, SuspendJob, Ungate
from extender.core.events import (
    DeviceClaimGone,
    DeviceClaimSeen,
    Event,
    FilterCalled,
    JobSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PodsSeen,
    PreemptCalled,
    SliceGone,
    SliceSeen,
)
from extender.core.ledger.devices import ObjectKey
from policies.model import Job, Node, Pod, PodSets, Requests
from policies.model.devices import DOMAIN_LABEL, EXTENDED_USE, Allocation, DeviceClaim, DeviceKey, Slice
from tests.simulation.claims import Claims
from tests.simulation.fairness import OURS
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.devices import (
    ANY,
    WORN_TOO,
    amounts_in,
    amounts_of,
    claims_of,
    foreseen,
    left_of,
    node_of,
    with_amounts,
)
from tests.simulation.model.domains import domain_of
from tests.simulation.sight import Room, take


class DeviceSight:
    """Puts amounts back, and judges claims, for a whole run. ``begin_life`` is called when the extender is started."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._amounts: dict[str, Requests] = {}
        """The amounts of devices, by UID of a pod, or UID and series of a job's podset."""
        self._slices: dict[str, Slice] = {}
        """The slices that the extender was shown, by node."""
        self._nodes: dict[str, Node] = {}
        self._allocated: dict[ObjectKey, Allocation] = {}
        """The devices of claims that the extender was shown."""
        self._told: dict[str, NodeSeen] = {}
        """The nodes with their amounts, as of the last event."""
        self._of_shared: dict[ObjectKey, Requests] = {}
        """The amounts of claims that several pods name."""
        self._sharing: dict[ObjectKey, dict[str, Pod]] = {}
        """The pods of each of those claims that have yet to end, by UID, in the order in which they came. A claim whose
        pods have all ended has none."""
        self._counted_for: dict[ObjectKey, str] = {}
        """The pod that the amount counts for, by UID: the first."""
        self._left: dict[ObjectKey, bool] = {}
        """Claims that the extender was shown with devices and without a reservation: whether it asked for their
        deallocation."""
        self._neglected: dict[ObjectKey, None] = {}
        """Claims whose deallocation no earlier life asked for, although it was shown that all their pods were gone."""
        api.listeners[Kind.PODS].append(self._pod_changed)
        api.listeners[Kind.JOBS].append(self._job_changed)
        for change in api.changes[Kind.JOBS].values():
            self._job_changed(change)

    def begin_life(self) -> None:
        self._neglected |= dict.fromkeys(
            key for key, asked in self._left.items() if not asked and self._sharing.get(key) == {}
        )
        self._left.clear()
        self._slices.clear()
        self._nodes.clear()
        self._allocated.clear()
        self._told.clear()
        self._sharing.clear()
        self._counted_for.clear()

    def _pod_changed(self, change: Change) -> None:
        if isinstance(pod := change.value, Pod) and pod.device_claims:
            self._amounts[pod.uid] = amounts = foreseen(amounts_in(pod.requests))
            self._of_shared |= dict.fromkeys(_shared(pod), amounts) if amounts else {}

    def _job_changed(self, change: Change) -> None:
        if isinstance(job := change.value, BatchJob):
            for podset in job.podsets:
                self._amounts[f"{job.uid}/{podset.name}"] = foreseen(amounts_in(podset.template.requests))

    # As it was meant

    def meant(self, event: Event) -> Event:
        """The event with the amounts of what it shows."""
        match event:
            case PodSeen(pod):
                return PodSeen(self._pod_seen(pod))
            case PodsSeen(pods):
                return PodsSeen(tuple(map(self._pod_seen, pods)))
            case FilterCalled(pod=pod) | PreemptCalled(pod=pod):
                return replace(event, pod=self._pod(pod))
            case JobSeen(job):
                return JobSeen(self._job(job))
            case _:
                return self._node_meant(event) or event

    def _node_meant(self, event: Event) -> NodeSeen | None:
        """The node whose amounts the event changes."""
        match event:
            case NodeSeen(node):
                self._nodes[node.name] = node
                return self._node(node.name)
            case NodeGone(name):
                self._nodes.pop(name, None)
            case SliceSeen(published):
                self._slices[published.reach.node] = published
                return self._node(published.reach.node)
            case SliceGone(name):
                self._slices.pop(name, None)
                return self._node(name)
            case DeviceClaimSeen(claim):
                return self._claim_seen((claim.namespace, claim.name), claim)
            case DeviceClaimGone(namespace, name):
                return self._claim_seen((namespace, name), None)
            case _:
                pass
        return None

    def _claim_seen(self, key: ObjectKey, claim: DeviceClaim | None) -> NodeSeen | None:
        """Take over what the claim has. Returns its node if that has other amounts by it."""
        before, allocation = self._allocated.pop(key, None), None if claim is None else claim.allocation
        if allocation is not None:
            self._allocated[key] = allocation
        if claim is None or allocation is None or claim.reserved_for:
            self._left.pop(key, None)
            self._neglected.pop(key, None)
        else:
            self._left.setdefault(key, False)
        for name in [node_of(state) for state in (before, allocation) if state is not None]:
            known = self._told.get(name)
            if (now := self._node(name)) is not None and now != known:
                return now
        return None

    def effect_as_meant(self, effect: Effect) -> Effect:
        """The effect with the amounts of its job."""
        return replace(effect, job=self._job(effect.job)) if isinstance(effect, StartJob | SuspendJob) else effect

    def inherited(self, event: Event) -> list[PodSeen]:
        """Return the pods for which the device of a shared claim counts now that another pod is gone or has ended."""
        heirs = []
        for key, users in self._sharing.items():
            if isinstance(event, PodGone):
                users.pop(event.uid, None)
            if self._counted_for.get(key) not in users:
                self._counted_for.pop(key, None)
                heirs += [self._pod_seen(pod) for pod in list(users.values())[:1]]
        return [PodSeen(pod) for pod in heirs]

    def _pod_seen(self, pod: Pod) -> Pod:
        for key in _shared(pod):
            users = self._sharing.setdefault(key, {})
            if pod.terminal:
                users.pop(pod.uid, None)
            else:
                users[pod.uid] = pod
                self._counted_for.setdefault(key, pod.uid)
        return self._pod(pod)

    def _pod(self, pod: Pod) -> Pod:
        amounts = self._amounts.get(pod.uid)
        for key in _shared(pod):
            amounts = self._of_shared.get(key) if self._counted_for.get(key) == pod.uid else None
        return pod if not amounts else replace(pod, requests=with_amounts(pod.requests, amounts))

    def _job(self, job: Job) -> Job:
        podsets = tuple(
            replace(podset, template=replace(podset.template, requests=with_amounts(podset.template.requests, amounts)))
            if (amounts := self._amounts.get(f"{job.uid}/{podset.name}"))
            else podset
            for podset in job.podsets.podsets
        )
        return replace(job, podsets=PodSets(job.podsets.key, podsets))

    def _node(self, name: str) -> NodeSeen | None:
        node = self._nodes.get(name)
        if node is None:
            return None
        there = self._slices.get(name)
        devices = {device.name: None for device in (() if there is None else there.devices)}
        # A pod can start with the devices of its claims that the driver lists no longer.
        devices |= {
            device.device: None
            for allocation in self._allocated.values()
            for device in allocation.devices
            if device.pool == name
        }
        amounts = amounts_of(list(devices))
        seen = self._told[name] = NodeSeen(replace(node, allocatable=with_amounts(node.allocatable, amounts)))
        return seen

    def given_to_others(self, event: Event, claims: Claims, pods: Mapping[str, Pod]) -> str | None:
        """Return the node of devices that kube-scheduler has allocated to a pod which is not promised that node.

        The promise was revoked before the extender was shown the allocation, and others were promised the devices.
        """
        shown = event.claim if isinstance(event, DeviceClaimSeen) else None
        if shown is None or shown.allocation is None:
            return None
        node, users = node_of(shown.allocation), [pod for pod in pods.values() if shown in claims_of(pod, [shown])]
        promised = claims.on_their_way
        return node if not any(node in (pod.node, promised.get(pod.uid)) for pod in users) else None

    # The core's requests

    def judge(self, effect: Effect, claims: Claims, shown: Mapping[str, Change]) -> str | None:
        """The fault of an effect. ``shown``: the claims that the extender has been shown."""
        match effect:
            case Nominate(uid, node=str(node)) | Ungate(uid, pin=(node,)) | PostBinding(uid, node=node):
                pod = self._api.pods.get(uid)
                if pod is None or not pod.device_claims:
                    return None
                if (why := self._wrong_domain(pod, node)) is not None or isinstance(effect, PostBinding):
                    return why
                for claim in claims_of(
                    pod,
                    (shown_claim.value for shown_claim in shown.values() if isinstance(shown_claim.value, DeviceClaim)),
                ):
                    if claim is not None and claim.allocation is not None and node_of(claim.allocation) != node:
                        where = node_of(claim.allocation)
                        return f"{uid} is promised {node}, and its claim {claim.name} has devices on {where}"
            case Deallocate(uid, namespace, name):
                self._left[namespace, name] = True
                return self._judge_deallocation(uid, claims)
            case _:
                pass
        return None

    def _wrong_domain(self, pod: Pod, name: str) -> str | None:
        """Say that the extender was shown that the node is prepared for another ComputeDomain than the pod's."""
        domain, node = domain_of(pod, self._api), self._nodes.get(name)
        labelled = None if node is None else node.labels.get(DOMAIN_LABEL)
        if domain and labelled not in (None, domain):
            return f"{pod.uid} of domain {domain} is led to {name}, which is prepared for {labelled}"
        return None

    def _judge_deallocation(self, uid: str, claims: Claims) -> str | None:
        claim = self._api.claims.get(uid)
        if claim is None:
            return None
        for pod in self._api.pods.values():
            if not pod.device_claims or claim not in claims_of(pod, [claim]):
                continue
            if pod.uid in claims.posting or pod.uid in claims.doubts.minded:
                return f"claim {claim.name} is deallocated, and {pod.uid} may be bound with it"
            if pod.node and not pod.terminal and claim.allocation is not None:
                return f"claim {claim.name} is deallocated, and {pod.uid} is bound with it"
        return None

    # The objects

    def look(self) -> Iterator[str]:
        """Yield the devices that two claims have."""
        whose: dict[DeviceKey, str] = {}
        for claim in self._api.claims.values():
            for device in claim.allocation.devices if claim.allocation is not None else ():
                if device in whose:
                    yield f"{device} is allocated to {whose[device]} and {claim.name}"
                whose[device] = claim.name

    def at_rest(self) -> Iterator[str]:
        """Yield the faults at the end of a round: devices that no pod uses, and pods that can never start."""
        yield from self.look()
        for claim in self._api.claims.values():
            if claim.allocation is not None and not claim.reserved_for and not self._is_forgotten(claim):
                yield f"claim {claim.name} keeps {len(claim.allocation.devices)} devices from others, for no pod"
        for pod in self._api.pods.values():
            if not (pod.device_claims and pod.node and pod.live and pod.scheduler == OURS):
                continue
            for use, its in zip(pod.device_claims, claims_of(pod, self._api.claims.values()), strict=True):
                if its is None and use.name == EXTENDED_USE:
                    continue  # kube-scheduler deleted its claim when it gave the Binding up, which was written yet
                if its is None or its.allocation is None or pod.uid not in its.reserved_for:
                    yield f"{pod.uid} is bound to {pod.node}, and has no devices there"
            node, domain = self._api.nodes.get(pod.node), domain_of(pod, self._api)
            if node is not None and domain and node.labels.get(DOMAIN_LABEL) not in (None, domain):
                yield f"{pod.uid} of domain {domain} is bound to {pod.node}, which is prepared for another one"

    def _is_forgotten(self, claim: DeviceClaim) -> bool:
        """Whether a user made the claim, and a restart came before Muster could know that its pods were gone.

        Nothing on the claim says whose start allocated it: a life that was shown no pod which names it leaves it alone.
        """
        key = claim.namespace, claim.name
        return not claim.owner and key not in self._sharing and key not in self._neglected

    def cap(self, room: Room) -> None:
        """Leave the devices in ``room`` that no claim has, instead of the devices that bound pods leave."""
        used = {
            device
            for claim in self._api.claims.values()
            if claim.allocation is not None
            for device in claim.allocation.devices
        }
        for thing in self._api.things.values():
            if isinstance(thing, Slice) and thing.name in room:
                in_use = {device.name for device in thing.devices if DeviceKey(*thing.pool, device.name) in used}
                room[thing.name].update(left_of([device.name for device in thing.devices], in_use))
        for pod in self._api.pods.values():
            if pod.node in room and not pod.terminal and None in claims_of(pod, self._api.claims.values()):
                take(
                    room[pod.node], tuple(amount for amount in amounts_in(pod.requests) if amount[0] in (ANY, WORN_TOO))
                )


def _shared(pod: Pod) -> list[ObjectKey]:
    """The claims of the pod that users made, for several pods."""
    return [(pod.namespace, use.claim) for use in pod.device_claims if use.claim]
