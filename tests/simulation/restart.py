"""A restart of the settled core: a new life begins with the objects as they are, settles, and has nothing to do.

A fault that only a restart would cure shows here: the old life has missed a write of the new one, or gives another
reason. The new life has a driver of its own; its writes are answered as done at once, and land nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from extender.core.effects import (
    CleanJob,
    Confirm,
    Deallocate,
    Effect,
    Enqueue,
    Evict,
    Nominate,
    PostBinding,
    Reserve,
    StartJob,
    SuspendJob,
    Ungate,
    Wake,
)
from extender.core.engine import Engine
from extender.core.events import (
    BudgetSeen,
    CapacityServed,
    Event,
    GroupJobSeen,
    GroupSeen,
    JobSeen,
    NodeSeen,
    OwnerSeen,
    PodSeen,
    QueueSeen,
    Synced,
)
from extender.core.explain.reasons import reason_of
from extender.core.ledger.claims import SlotOf
from extender.core.ledger.state import State
from extender.runtime.driver import Action, Driver
from extender.runtime.requests import LookAtPod, Response, Send
from policies.model import GroupKey
from tests.simulation.model.apiserver import OK, ApiServer
from tests.simulation.model.changes import Kind
from tests.simulation.model.devices import as_shown, node_as_shown
from tests.simulation.model.facts import seen
from tests.simulation.model.pods import as_read

LASTS_S = 60.0
"""How long the new life is observed, or until the old one has something to do."""


@dataclass
class Restart:
    """A restart. ``wrote``: the effects that would change something."""

    api: ApiServer
    driver: Driver
    wrote: list[Effect] = field(default_factory=list)

    @property
    def state(self) -> State:
        return self.driver.core.state

    def play(self, known: State, now: float, until: float, *, served: bool | None) -> None:
        """Play a start from the lists on.

        ``known``: the state of the old life.
        ``served``: whether nodes can be requested; None where this is unknown.
        """
        for event in self._objects():
            self._do(self.driver.handle(event, now), now)
        self._remember(known, now)
        self._do(self.driver.handle(Synced(now), now), now)
        if served is not None:
            self._do(self.driver.handle(CapacityServed(served), now), now)
        while (due := self.driver.next_wake()) is not None and due < until and not self.wrote:
            now = max(now, due)
            self._do(self.driver.wake(now), now)

    def _remember(self, known: State, now: float) -> None:
        """Copy the facts that are in no object.

        The nodes that kube-scheduler has refused are tried again when their time is over. A new life repeats
        unsuccessful evictions at once.
        """
        self.state.preemptions.learn(known.preemptions, now)
        self.state.failed_creation.learn(known.failed_creation)
        for key in self.state.workloads.keys() & known.workloads.keys():
            nodes = known.workloads[key].retries.nodes
            self.state.workloads[key].retries.nodes.update(nodes)
            for node, _ in nodes:
                self.state.refusing.remember(node, key)

    def _objects(self) -> Iterator[Event]:
        api = self.api
        for kind in (Kind.STORAGE, Kind.DEVICES, Kind.CLAIMS):
            yield from map(seen, api.changes[kind].values())
        yield from (NodeSeen(node_as_shown(node)) for node in api.nodes.values())
        yield from map(BudgetSeen, api.budgets.values())
        yield from map(QueueSeen, api.queues.values())
        yield from map(GroupSeen, api.groups.values())
        yield from map(GroupJobSeen, api.group_jobs.values())
        yield from (JobSeen(job.read()) for job in api.jobs.values())
        yield from map(OwnerSeen, api.gang_owners.values())
        yield from (PodSeen(as_shown(as_read(pod))) for pod in api.pods.values())

    def _do(self, actions: list[Action], now: float) -> None:
        for action in actions:
            if not isinstance(action, Send):
                continue
            call = action.call
            node = self.api.node_of(call.uid, (call.namespace, call.name)) if isinstance(call, LookAtPod) else ""
            if not isinstance(call, LookAtPod) and self._changes(call):
                self.wrote.append(call)
            self._do(self.driver.answered(action.ticket, Response(OK, node=node), now), now)

    def _changes(self, effect: Effect) -> bool:
        match effect:
            case (
                PostBinding()
                | Deallocate()
                | Evict()
                | Ungate()
                | StartJob()
                | SuspendJob()
                | CleanJob()
                | Enqueue()
                | Wake()
            ):
                return True
            case Confirm(group=group):
                # Of a job whose plan others have taken off it while it ran a new life knows no plan: it is a gang then.
                return group not in self.api.jobs
            case Nominate(uid, node=node):
                # Nominations that are left over are cleared: the only thing that a restart may write.
                return node is not None and self.api.pods[uid].nominated_node != node
            case Reserve(pod=pod, job=job):
                there = self.api.pods.get(pod.uid) if pod is not None else self.api.jobs.get(job.key) if job else None
                return there is not None and replace(there, **effect.fields) != there
            case _:
                return False


def complaints(api: ApiServer, known: Engine, fresh: Engine, now: float, *, served: bool | None) -> Iterator[str]:
    """The changes by a restart of the settled core: writes, waiting workloads, their reasons, and kept room."""
    restart = Restart(api, Driver(fresh))
    due = known.next_wake()
    restart.play(known.state, now, now + LASTS_S if due is None else min(due, now + LASTS_S), served=served)
    before, after = known.state, restart.state
    if after.pending.keys.keys() != before.pending.keys.keys():
        yield f"{[*before.pending.keys]} wait, and after a restart {[*after.pending.keys]} do"
    for effect in restart.wrote:
        yield f"a restart would have the consequence {effect}"
    reasons, says = _reasons(before), _reasons(after)
    different = [key for key in reasons if reasons[key] != says.get(key)]
    asking = [key for key in different if _asks_again(before, key, says)]
    # No object says when a pod has ended: a new life begins to keep its room for a replacement, and not for long.
    keeping = [key for key, workload in after.workloads.items() if workload.job is None and workload.reserved]
    for key in different:
        if key in asking or _is_explained(before, key) or _lacks_their_quota(before, key, says, [*asking, *keeping]):
            continue
        yield f"{key} is {reasons[key]}, and after a restart {says.get(key)}"
    kept, keeps = _claims(before), _claims(after)
    again = {str(SlotOf(key, slot)) for key in keeping for slot in after.workloads[key].reserved}
    keeps = {claim: None for claim in keeps if claim in kept or claim.rpartition(" on ")[0] not in again}
    if kept != keeps:
        lost, more = [claim for claim in kept if claim not in keeps], [claim for claim in keeps if claim not in kept]
        yield f"room is kept for {lost}, and after a restart for {more}"


def _is_explained(state: State, key: GroupKey) -> bool:
    """Whether a new life may give another reason than the old one.

    It does not know in what words nodes were refused. If the PodGroup of a running gang is gone, the old life
    reports the PodGroup's facts, and the new one those of the stamps.
    """
    workload = state.workloads[key]
    orphaned = workload.min_member is None and bool(workload.members.bound)
    return orphaned or bool(workload.retries.nodes)


def _asks_again(state: State, key: GroupKey, says: Mapping[GroupKey, str]) -> bool:
    """Whether it is a gang of pods whose request for nodes failed: no object states its pause, as a job does."""
    return state.workloads[key].job is None and says.get(key) == "AwaitingNodes"


def _lacks_their_quota(state: State, key: GroupKey, says: Mapping[GroupKey, str], others: list[GroupKey]) -> bool:
    """Whether ``others``, which request nodes or keep room again, have the quota in its tree that it would have."""
    return says.get(key) == "NoQuota" and any(_tree_of(state, other) == _tree_of(state, key) for other in others)


def _tree_of(state: State, key: GroupKey) -> str | None:
    queue = state.quotas.queue_of(key)
    node = None if queue is None else state.quotas.node_of(queue.name)
    return None if node is None else node.root.name


def _reasons(state: State) -> dict[GroupKey, str]:
    return {key: reason_of(workload.reason_state.cause).code for key, workload in state.workloads.items()}


def _claims(state: State) -> dict[str, None]:
    """The owners of room, each with its node."""
    return {f"{owner} on {node}": None for node in state.claims.nodes for owner, _ in state.claims.on(node)}
