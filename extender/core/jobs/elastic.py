"""Elastic flavors, whose nodes are made on request: a workload with quota for one, but no nodes, asks for nodes.

It keeps that quota meanwhile. A job asks by a ProvisioningRequest if the cluster serves them, and the answer is an
event. Else the job is started without a plan, by one write that says until when its nodes are awaited. Muster's filter
lets none of its pods in, so an autoscaler sees that they lack nodes. When there is a node for each of them, the plan is
written on the job. If the nodes come too late, the job is suspended again.

A gang of pods is ungated without a plan. kube-scheduler tries each pod, gets no node from Muster, and marks the pod
unschedulable. A gate cannot be put back, and what is written on a pod cannot be removed. So Muster writes nothing on
these pods: they have to select and tolerate the nodes of the flavor themselves. For a job, the pod template or the
admission policy does that.

When the nodes do not come in time, the quota becomes free again, and the workload asks again after a pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from extender.core.answers import CapacityAnswered, Ungated
from extender.core.causes import (
    AskedInVain,
    AwaitingNodes,
    Call,
    Cause,
    Held,
    NoNodesAsked,
    NoRoom,
    NotPlanned,
    NotThisFlavor,
    with_facts,
)
from extender.core.effects import Ungate
from extender.core.events import CapacityServed
from extender.core.explain.reasons import text_of
from extender.core.explain.telling import Reporter
from extender.core.instants import pause_s
from extender.core.jobs.acts import JobActs
from extender.core.jobs.start import podsets_to_create, starts_now
from extender.core.jobs.upkeep import REMOVED, has_pods_of_lost_plan
from extender.core.ledger.claims import Claims, Owner
from extender.core.ledger.expected import ExpectedPods
from extender.core.ledger.pending import Config, Own, Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Namespaces, Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.queue.demands import QuotaRequest
from extender.core.workload.job import JobRecord
from extender.core.workload.shape import Demand, Flavoring, PodSetKey, Shape, podset_key
from extender.core.workload.workload import Workload
from policies.model import (
    GANG_GATE,
    Controller,
    GroupKey,
    InVain,
    Job,
    Node,
    NodeWait,
    Pod,
    Requests,
    Selection,
    SlotKey,
    Toleration,
)
from policies.model.queues import ClusterQueue, ResourceFlavor
from policies.placement.matching import admits
from policies.quota.flavors import Assignment, Choices, Fit
from policies.words import counted, listed


@dataclass(frozen=True, slots=True)
class RequestedPods:
    """Pods of one podset that nodes are asked for.

    ``labels``, ``tolerations``: what the pods select and tolerate, by their flavor and by additions of the API server.
    ``requests``: what each pod asks for, even if its template asks for less.
    """

    podset: str
    count: int
    labels: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    requests: Requests = ()


@dataclass(frozen=True, slots=True)
class CapacityAsk:
    """A request for nodes for all of these pods of a job together. ``attempt`` counts from 1."""

    key: GroupKey
    job: Controller
    pods: tuple[RequestedPods, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request for nodes that is under way.

    ``attempt``: counts from 1.
    ``until``: the deadline for the nodes; 0 for a job that is started without a plan, which carries its deadline.
    ``ask``: the request of a job; None without one.
    ``granted``: whether the nodes are being made, or exist.
    ``exposed_pods``: UIDs of pods of a gang that were ungated without a plan.
    """

    attempt: int
    pods: tuple[Pod, ...]
    shape: Shape
    queue: str
    flavors: tuple[str, ...]
    until: float
    ask: CapacityAsk | None
    granted: bool = False
    exposed_pods: frozenset[str] = frozenset()

    @property
    def cause(self) -> AwaitingNodes:
        if self.granted:
            return AwaitingNodes(self.queue, self.flavors, len(self.pods), Call.GRANTED)
        if self.ask is None:
            return shown(self.queue, self.flavors, self.pods)
        return AwaitingNodes(self.queue, self.flavors, len(self.pods), Call.REQUESTED)


def requested_pods(demand: Demand, made: Mapping[PodSetKey, Flavoring]) -> tuple[RequestedPods, ...]:
    """The podsets of a job's demand, as pods that nodes are asked for."""
    differences = []
    pods = {pod.series: pod for pod in demand.pods}
    for name, count in sorted(Counter(pod.series for pod in demand.pods).items()):
        flavoring, selection = made.get(name), pods[name].selection
        labels = dict(selection.node_selector) | dict(flavoring.labels if flavoring else ())
        tolerations = dict.fromkeys((*selection.tolerations, *(flavoring.tolerations if flavoring else ())))
        differences.append(RequestedPods(name, count, tuple(labels.items()), tuple(tolerations), pods[name].requests))
    return tuple(differences)


_IN_WAVES = (
    "those of its pods that need such nodes are made one after the other, so that no autoscaler sees all of them: have "
    "them made together (a JobSet without startupPolicy InOrder and dependsOn, an MPIJob with launcherCreationPolicy "
    "AtStartup)"
)


def ungate_unplanned(outbox: Outbox, workload: Workload, pods: Sequence[Pod], shown: frozenset[str]) -> frozenset[str]:
    """Ungate those of these pods that have Muster's gate and are not among ``shown``, which were ungated before.

    Returns the UIDs of both.
    """
    for pod in pods:
        if GANG_GATE in pod.gates and pod.uid not in shown:
            outbox.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key))
    return shown.union(pod.uid for pod in pods)


def ungated_pod(store: Store, event: Ungated) -> Pod | None:
    """A pod of a job that was started without a plan, as it is after its gate came off; None for any other event.

    The watch may show that late. Until then the pod must not be ungated once more, with a pin to the nodes of its plan.
    """
    entry = None if event.detail else store.member(event.uid)
    if entry is None or entry[0].job is None or event.uid not in entry[0].job.exposed_pods:
        return None
    pod = entry[1].pod
    return replace(pod, gates=tuple(gate for gate in pod.gates if gate != GANG_GATE))


def unseen(pods: Sequence[Pod], made: Mapping[PodSetKey, Flavoring], elastic: frozenset[str]) -> str:
    """Why an autoscaler would not see all of these pods that need nodes; empty if it would."""
    first = _first_wave(pods)
    later = dict.fromkeys(podset_key(pod, of_job=True) for pod in pods if pod.wave > first)
    needy = any(not elastic.isdisjoint(made[podset].flavors.values()) for podset in later if podset in made)
    return _IN_WAVES if needy else ""


def shown(queue: str, flavors: Sequence[str], pods: Collection[Pod]) -> AwaitingNodes:
    """The cause of a workload whose pods an autoscaler sees. Pods of later waves do not exist yet and do not count."""
    first = _first_wave(pods)
    return AwaitingNodes(queue, tuple(flavors), sum(pod.wave == first for pod in pods), Call.SHOWN)


def _first_wave(pods: Iterable[Pod]) -> int:
    return min((pod.wave for pod in pods), default=0)


def lacking(
    pods: Iterable[Pod],
    made: Mapping[PodSetKey, Flavoring],
    flavors: Mapping[str, ResourceFlavor],
    *,
    of_job: bool,
    not_created: bool,
) -> str:
    """The text that says what these pods lack for an autoscaler to make nodes of their flavors; empty if nothing.

    ``not_created``: they get what their flavors bring when they are created.
    """
    for pod in pods:
        if (given := made.get(podset_key(pod, of_job=of_job))) is None:
            continue
        labels, more = (given.labels, given.tolerations) if not_created else ((), ())
        for name in dict.fromkeys(given.flavors.values()):
            if not _asks_for(pod.selection, labels, more, flavor := flavors[name]):
                demands = [f"the nodeSelector {key}={value}" for key, value in sorted(flavor.node_labels.items())]
                demands += ["tolerations of its taints"] if flavor.taints else []
                return f"for nodes of {name} its pods need {listed(demands)}"
    return ""


def apart(job: Job, flavors: Mapping[str, ResourceFlavor]) -> str:
    """A text: what keeps pods without a flavor from nodes that are made for the others in one domain; empty if nothing.

    Such a domain may have other nodes, too, but that is not known before the nodes exist.
    """
    chosen = {
        name: [flavors[flavor_name] for flavor_name in by_resource.values() if flavor_name in flavors]
        for name, by_resource in (job.flavors or {}).items()
    }
    pods = {podset.name: podset.template for podset in job.podsets.podsets if podset.template.topology.required}
    for name, pod in pods.items():
        level = pod.topology.required
        beside = (
            flavor for other in pods if pods[other].topology.required == level for flavor in chosen.get(other, ())
        )
        flavor = next((flavor for flavor in beside if not _tolerates(pod.selection.tolerations, flavor)), None)
        if flavor is not None and not chosen.get(name):
            return (
                f"the pods of {name or job.key.name} have to share one {level} with those on nodes of {flavor.name}, "
                "and need tolerations of its taints for that"
            )
    return ""


def _asks_for(
    selection: Selection, labels: Iterable[tuple[str, str]], more: Iterable[Toleration], flavor: ResourceFlavor
) -> bool:
    """Whether such a pod goes to nodes of the flavor and to no others, with these additional labels and tolerations."""
    named = flavor.node_labels.items() <= {**dict(labels), **dict(selection.node_selector)}.items()
    return named and _tolerates((*selection.tolerations, *more), flavor)


def _tolerates(tolerations: tuple[Toleration, ...], flavor: ResourceFlavor) -> bool:
    return admits(Node(flavor.name, (), flavor.node_labels, flavor.taints), Selection(tolerations=tolerations))


MOST = 32
"""The most workloads that ask for nodes at a time."""
_TRIES = 16
"""Assignments of flavors that are tried for one of them."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 1800.0


@dataclass(frozen=True, slots=True)
class _Denied:
    """A request that failed. The workload asks again after ``until``."""

    attempts: int
    until: float
    what: AskedInVain


@dataclass(frozen=True, slots=True)
class AskNodes:
    """An outcome of a turn: ask for nodes of the flavors of this assignment."""

    request: QuotaRequest
    assignment: Assignment


@dataclass(eq=False)
class Elastic:
    """Asks for nodes. A turn calls ``continue_asking`` and ``fallback``; ``follow`` is called after every event."""

    _limits: Limits
    _process: Process
    _store: Store
    _outbox: Outbox
    _quotas: Quotas
    _preemptions: Preemptions
    _namespaces: Namespaces
    _pending: Pending
    _reporter: Reporter
    _acts: JobActs

    def __post_init__(self) -> None:
        self._served: bool | None = None
        """Whether the cluster serves ProvisioningRequests; None while that is unknown."""
        self._asking: dict[GroupKey, NodeRequest] = {}
        self._denied: dict[GroupKey, _Denied] = {}
        self._aside: dict[GroupKey, None] = {}
        """Workloads that would ask, and are looked at again when another request ends."""

    @property
    def can_be_asked(self) -> bool | None:
        """Whether the cluster serves ProvisioningRequests; None while that is unknown."""
        return self._served

    @property
    def asking(self) -> Collection[GroupKey]:
        """The workloads that ask for nodes."""
        return self._asking.keys()

    @property
    def asks(self) -> tuple[CapacityAsk, ...]:
        """The requests for nodes that are under way."""
        return tuple(node_request.ask for node_request in self._asking.values() if node_request.ask is not None)

    def ungates_unplanned(self, key: GroupKey, uid: str) -> bool:
        """Whether this pod is to be tried without a plan, so that an autoscaler sees it."""
        asking, workload = self._asking.get(key), self._store.workloads.get(key)
        record = None if workload is None else workload.job
        return (asking is not None and uid in asking.exposed_pods) or (
            record is not None and uid in record.exposed_pods
        )

    def continue_asking(self, workload: Workload, shape: Shape) -> AwaitingNodes | None:
        """Continue a request for nodes, with the pods that have come. Ends it if the shape has changed.

        Returns the cause that the workload waits for; None if it asks for none.
        """
        asking, record = self._asking.get(workload.key), workload.job
        if record is not None and record.awaits_nodes:
            queue = self._quotas.members.queue_of(workload.key) or ""
            pods = workload.members.slots.templates.values()
            return shown(queue, record.seen.flavor_names, pods) if asking is None else asking.cause
        if asking is not None and asking.shape != shape:
            self._end(workload.key)
            return None
        if asking is not None and record is None:
            self._show(workload, asking)
        return None if asking is None else asking.cause

    def fallback(self, workload: Workload, why: Cause, now: float) -> AskNodes | Cause:
        """The request for nodes of a workload that has no room and can evict none; else the cause why it waits."""
        if not self._limits.elastic.flavors or not isinstance(why, NoRoom):
            return why
        demand, queue = workload.current_demand, self._quotas.queue_of(workload.key)
        if demand is None or queue is None or not self._may(workload):
            return why
        denied = self._denied.get(workload.key) or self._recall(workload, now)
        if denied is not None and now < denied.until:
            return with_facts(why, denied.what)
        quota_request = QuotaRequest(workload, demand.pods, queue, self._quotas.queues.snapshot)
        assignment = self._choice(quota_request, demand, queue)
        if assignment is None:
            return why
        if why_not := self._why_no_capacity(workload, demand, quota_request.flavorings(assignment)):
            return with_facts(why, NoNodesAsked(why_not))
        if len(self._asking) >= MOST:
            self._aside[workload.key] = None
        can = (self._served is not None or workload.job is None) and len(self._asking) < MOST
        return AskNodes(quota_request, assignment) if can else why

    def served(self, event: CapacityServed, _now: float) -> None:
        """Record whether the cluster serves ProvisioningRequests."""
        self._served = event.served
        for key in [ask.key for ask in self.asks] if not event.served else ():
            self._end(key)
        self._pending.wake(Config())

    def answered(self, event: CapacityAnswered, now: float) -> None:
        """Handle the answer to a request."""
        asking = self._asking.get(event.key)
        if asking is None or asking.ask is None or asking.attempt != event.attempt:
            return
        if not event.granted:
            self._deny(event.key, asking, event.detail, now)
        elif not asking.granted:
            until = now + self._limits.elastic.within_s
            self._asking[event.key] = replace(asking, granted=True, until=until)
            self._pending.wake(Own(event.key))

    def follow(self, now: float) -> None:
        """End requests of workloads that have their nodes or wait for them no more, and requests that are late."""
        if not self._asking and not self._denied:
            return
        for key, asking in list(self._asking.items()):
            workload = self._store.workloads.get(key)
            if workload is None or not self._goes_on(workload, asking):
                self._end(key)
            elif asking.until and now >= asking.until:
                late = "they were granted, and it has no plan on them" if asking.granted else "not enough joined"
                self._deny(key, asking, f"{late} within {self._limits.elastic.within_s:.0f} s", now)
        for key, denied in list(self._denied.items()):
            if key not in self._pending.keys and not _comes_back(self._store.workloads.get(key)):
                del self._denied[key]
            elif denied.until and now >= denied.until:
                self._denied[key] = replace(denied, until=0.0)
                self._pending.wake(Own(key))

    def next_end(self) -> float | None:
        """When the next request ends, or may be repeated."""
        ends = [node_request.until for node_request in self._asking.values()] + [
            denial.until for denial in self._denied.values()
        ]
        return min(filter(None, ends), default=None)

    def _choice(self, quota_request: QuotaRequest, demand: Demand, queue: ClusterQueue) -> Assignment | None:
        """The first assignment with quota for all of its pods in which a flavor is elastic."""
        snapshot, podsets = self._quotas.queues.snapshot, quota_request.podsets(demand.pods)
        choices: Choices[NotThisFlavor | str] = Choices(snapshot.tree, snapshot.flavors, queue, quota_request.closed())
        assignment = choices.first(podsets)
        for _ in range(_TRIES):
            if assignment.fit is not Fit.FITS:
                return None
            if any(
                name in self._limits.elastic.flavors
                for by_resource in assignment.flavors.values()
                for name in by_resource.values()
            ):
                return assignment
            assignment = choices.after(assignment, podsets, "no node of it has room")
        return None

    def begin(self, workload: Workload, shape: Shape, ask_nodes: AskNodes, now: float) -> AwaitingNodes:
        """Reserve the quota and ask for the nodes. Returns the cause that the workload waits for."""
        quota_request, assignment = ask_nodes.request, ask_nodes.assignment
        demand, key = workload.current_demand, workload.key
        assert demand is not None  # noqa: S101
        denied = self._denied.get(key)
        attempt, ask, made = 1 if denied is None else denied.attempts + 1, None, quota_request.flavorings(assignment)
        if workload.job is not None and self._served:
            ask = CapacityAsk(key, workload.job.seen.owner, requested_pods(demand, made), attempt)
        usage: dict[tuple[str, str], int] = {}
        for podset in quota_request.podsets(demand.pods):
            for resource, flavor in assignment.flavors[podset.name].items():
                usage[flavor, resource] = usage.get((flavor, resource), 0) + podset.requests.get(resource, 0)
        self._quotas.reserve(key, usage)
        names = tuple(dict.fromkeys(flavor for flavor, _ in usage))
        queue = self._quotas.members.queue_of(key) or ""
        until = now + self._limits.elastic.within_s
        awaits_nodes = workload.job is not None and ask is None
        # The answer to its start may be late although the start was written. Until then its quota stays reserved.
        ends = 0.0 if awaits_nodes else until
        asking = self._asking[key] = NodeRequest(attempt, demand.pods, shape, queue, names, ends, ask)
        workload.reason_state.note(now, f"asks for nodes, attempt {attempt}")
        if workload.job is None:
            self._show(workload, asking)
        elif awaits_nodes:
            awaits = NodeWait(float(ceil(until - self._process.wall_offset)), attempt)
            self._acts.start_without_nodes(workload, workload.job, made, awaits, now)
        return asking.cause

    def _show(self, workload: Workload, asking: NodeRequest) -> None:
        pods = [] if workload.current_demand is None else _there(workload, workload.current_demand)
        shown = ungate_unplanned(self._outbox, workload, pods, asking.exposed_pods)
        self._asking[workload.key] = replace(asking, exposed_pods=shown)

    def _why_no_capacity(self, workload: Workload, demand: Demand, made: Mapping[PodSetKey, Flavoring]) -> str:
        """The reason why the workload may not ask; empty if it may."""
        flavors = self._quotas.queues.snapshot.flavors
        if workload.job is None:
            return lacking(_there(workload, demand), made, flavors, of_job=False, not_created=False)
        if self._served is not False:
            return ""
        pods = [workload.members.pod_for(pod.identity) for pod in demand.pods]
        return unseen(pods, made, self._limits.elastic.flavors) or lacking(
            pods, made, flavors, of_job=True, not_created=True
        )

    def _may(self, workload: Workload) -> bool:
        """Whether the workload may ask: it has not started, evicts no victims, and all of its pods are known.

        That is a job, or a gang whose pods all exist.
        """
        record, key = workload.job, workload.key
        ready = workload.podsets is None if record is None else record.plannable
        if not ready or workload.has_promised_quorum or workload.members.bound:
            return False
        if self._namespaces.ending(key.namespace) is not None:
            return False
        return key not in self._preemptions.under_way and key in self._pending.keys

    def _goes_on(self, workload: Workload, asking: NodeRequest) -> bool:
        """Whether it still lacks its nodes, and its queue and flavors still exist."""
        quotas = self._quotas
        if asking.ask is None and workload.job is not None:
            return workload.job.awaits_nodes and workload.job.writing is not None  # ``Unplanned`` handles it after that
        known = all(name in quotas.queues.snapshot.flavors for name in asking.flavors)
        there = known and quotas.members.queue_of(workload.key) == asking.queue and quotas.route(workload).why is None
        return there and self._may(workload)

    def _deny(self, key: GroupKey, asking: NodeRequest, detail: str, now: float) -> None:
        """End a request without nodes: its quota is freed, and it is repeated after a pause that grows."""
        self._end(key)
        what = self.record_failure(key, asking.attempt, asking.flavors, detail, now)
        if (workload := self._store.workloads.get(key)) is not None:
            why = NoRoom(what)
            workload.reason_state.note(now, text_of(why))
            self._reporter.explain(workload, why, now)

    def record_failure(
        self, key: GroupKey, attempts: int, flavors: Sequence[str], detail: str, now: float
    ) -> AskedInVain:
        """Record that a request failed, and pause. Returns the facts to report."""
        pause = pause_s(attempts, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        what = AskedInVain(tuple(flavors), detail, round(pause))
        self._denied[key] = _Denied(attempts, now + pause, what)
        return what

    def rest(self, key: GroupKey) -> InVain | None:
        """The pause until it asks again, to be written on its job; None if it may ask."""
        denied = self._denied.get(key)
        if denied is None or not denied.until:
            return None
        return InVain(float(ceil(denied.until - self._process.wall_offset)), denied.attempts)

    def _recall(self, workload: Workload, now: float) -> _Denied | None:
        """The failed request that Muster wrote on the job before a restart; None without one."""
        in_vain = None if workload.job is None else workload.job.seen.in_vain
        if in_vain is None:
            return None
        left = min(in_vain.until + self._process.wall_offset - now, _LONGEST_PAUSE_S)
        what = AskedInVain((), "", round(left), in_vain.attempts)
        denied = self._denied[workload.key] = _Denied(in_vain.attempts, now + left if left > 0 else 0.0, what)
        return denied

    def _end(self, key: GroupKey) -> None:
        """End the workload's request, if it has one."""
        if self._asking.pop(key, None) is not None:
            self._quotas.unreserve(key)
            for other in (key, *self._aside):
                self._pending.wake(Own(other))
            self._aside.clear()


def _comes_back(workload: Workload | None) -> bool:
    """Whether its job is being suspended, to wait again."""
    record = None if workload is None else workload.job
    return record is not None and not record.seen.finished and (record.seen.suspended or bool(record.stop))


def _there(workload: Workload, demand: Demand) -> list[Pod]:
    """The live pods among those of the demand."""
    live = workload.members.live
    return [live[pod.uid].pod for pod in demand.pods if pod.uid in live]


def protected_nodes(limits: Limits, claims: Claims, quotas: Quotas) -> dict[str, None]:
    """Nodes of elastic flavors that are promised to pods which are not there yet.

    An autoscaler removes empty nodes and knows nothing of Muster's plans.
    """
    if not limits.elastic.flavors:
        return {}
    promised = claims.promised_nodes.items()
    return {
        node: None for node, owners in promised if any(_is_elastic(limits, claims, quotas, owner) for owner in owners)
    }


def _is_elastic(limits: Limits, claims: Claims, quotas: Quotas, owner: Owner) -> bool:
    claim = claims.get(owner)
    if claim is None or claim.workload is None:
        return False
    use = quotas.uses.of(claim.workload).get(owner)
    return use is not None and not limits.elastic.flavors.isdisjoint(use.flavors.values())


_LOOK_S = 5.0
"""A new leader has at least this long to plan the job, even if it is late: its nodes may have come meanwhile."""
_UNPLANNED = "it was started without a plan of Muster's"


@dataclass(eq=False)
class Unplanned:
    """Jobs that were started without a plan.

    When one is settled, ``failure`` is called first and ``nodes`` after it.
    """

    _limits: Limits
    _process: Process
    _outbox: Outbox
    _quotas: Quotas
    _namespaces: Namespaces
    _reporter: Reporter
    _expected: ExpectedPods
    _elastic: Elastic

    def failure(self, workload: Workload, record: JobRecord, now: float) -> str:
        """Why the job has to be suspended; empty if it goes on."""
        self._quotas.restore(workload)
        if record.stop:
            return record.stop
        if record.seen.node_wait is not None:
            return self._await_nodes(workload, record, record.seen.node_wait, now)
        self._expected.expect(workload, None)
        if has_pods_of_lost_plan(workload, record.seen):
            return REMOVED
        if not (record.seen.running or workload.members.bound):
            return _UNPLANNED
        # Pods that run already are left alone, in their flavors.
        if not workload.members.live:  # live pods are a gang, which reports itself whether it runs or what it lacks
            self._reporter.explain(workload, NotPlanned(), now)
        return ""

    def nodes(self, workload: Workload, record: JobRecord) -> Mapping[SlotKey, str]:
        """The plan to write on a job that was started without one, once each pod that has to start has a node.

        The plan is written again if its write had an unknown outcome and the watch does not show it.
        """
        if record.seen.node_wait is None or record.stop or not self._process.recovered:
            return {}
        if record.plan is not None:
            return record.plan
        return _nodes_of(workload) if starts_now(self._process, workload, record) else {}

    def _await_nodes(self, workload: Workload, record: JobRecord, node_wait: NodeWait, now: float) -> str:
        self._expected.expect(workload, podsets_to_create(workload, record.seen))
        if workload.has_promised_quorum or not self._process.recovered:
            return ""
        if (why := self._quotas.route(workload).why) is not None:
            return text_of(why)
        if record.seen.held:
            return text_of(Held())
        if (ending := self._namespaces.ending(workload.key.namespace)) is not None:
            return text_of(ending)
        if not record.next_pod_deadline:
            end = min(node_wait.until + self._process.wall_offset, now + self._limits.elastic.within_s)
            record.expect(max(end, now + _LOOK_S))
        unlike = self._unlike(workload, record, node_wait)
        if now < record.next_pod_deadline and not unlike:
            self._show(workload, record)
            return ""
        detail = unlike or self._late(workload, record)
        flavors = record.seen.flavor_names
        return text_of(NoRoom(self._elastic.record_failure(workload.key, node_wait.attempt, flavors, detail, now)))

    def _unlike(self, workload: Workload, record: JobRecord, node_wait: NodeWait) -> str:
        """Why its pods would not get nodes of its flavors, although their template selects them.

        The watch may show a pod of an earlier start late, which does not count.
        """
        began = node_wait.until - self._limits.elastic.within_s - 1.0
        pods = (pod for pod in workload.live if pod.created >= began and pod.uid not in record.exposed_pods)
        flavors = self._quotas.queues.snapshot.flavors
        why = lacking(pods, workload.flavoring, flavors, of_job=True, not_created=False)
        return (
            why and f"{why}, and got none: is the component job-admission installed as this version of Muster has it?"
        )

    def _late(self, workload: Workload, record: JobRecord) -> str:
        slots, first = workload.members.slots, record.seen.podsets.first
        missing = sum(pod.wave == first and not slots.pods(slot) for slot, pod in slots.templates.items())
        more = f"; {counted(missing, 'pod', 'was', 'were')} not even created" if missing > 0 else ""
        if why := apart(record.seen, self._quotas.queues.snapshot.flavors):
            more += f"; {why}"
        return f"not enough joined within {self._limits.elastic.within_s:.0f} s{more}"

    def _show(self, workload: Workload, record: JobRecord) -> None:
        """Ungate the pods as soon as enough exist to start: no nodes should be made for only some of them."""
        if self._there(workload) < (workload.min_member or 0):
            return
        record.expose(ungate_unplanned(self._outbox, workload, workload.live, record.exposed_pods))

    @staticmethod
    def _there(workload: Workload) -> int:
        """How many of its slots have a pod."""
        slots = workload.members.slots
        return sum(bool(slots.pods(slot)) for slot in slots.templates)


def _nodes_of(workload: Workload) -> dict[SlotKey, str]:
    """The node of each slot that has one, or is promised one."""
    members = workload.members
    nodes = {pod.identity: pod.node for pod in workload.bound if pod.node}
    nodes |= {member.pod.identity: member.node for member in members.placed.values()}
    return {slot: node for slot, node in (nodes | members.slots.planned).items() if slot in members.slots.templates}
