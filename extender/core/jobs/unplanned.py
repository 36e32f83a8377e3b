"""Jobs that run without a plan of Muster's: somebody else has started them, or they were let go.

A job is let go that has quota of an elastic flavor and no nodes (``elastic``): one write starts it, and says in place
of the plan until when its nodes are awaited. None of its pods is let in, so that whoever makes nodes sees that they
lack some. It is planned as if it were suspended. When there is a node for all of it the plan is written on it, and it
is a job like any other. If the nodes come too late it is suspended again.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.core.gang.expected import expect
from extender.core.gang.letting_go import apart, lacking, let_go
from extender.core.jobs.job import JobRecord
from extender.core.jobs.start import HELD, to_come
from extender.core.jobs.upkeep import REMOVED, misled
from extender.core.quota.elastic import Elastic
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.telling import explain
from extender.core.workload import Workload
from policies.model import LetGo, SlotKey
from policies.words import counted

_LOOK_S = 5.0
"""So long has a new leader to plan it, however late it is: its nodes may have come meanwhile."""
_UNPLANNED = "it was started without a plan of Muster's"
_NOT_PLANNED = Reason("NotPlanned", f"{_UNPLANNED}; it is planned when it is suspended the next time")


class Unplanned:
    """``failure`` is asked for such a job whenever it is settled, ``nodes`` after that."""

    def __init__(self, state: State, elastic: Elastic) -> None:
        self._state = state
        self._elastic = elastic

    def failure(self, workload: Workload, record: JobRecord, now: float) -> str:
        """What it has to be suspended for; empty if it goes on."""
        self._state.quotas.restore(workload)
        if record.stop:
            return record.stop
        if record.seen.let_go is not None:
            return self._await_nodes(workload, record, record.seen.let_go, now)
        expect(self._state, workload, None)
        if misled(workload, record.seen):
            return REMOVED
        if not (record.seen.running or workload.members.bound):
            return _UNPLANNED
        # What runs already is left alone, and in its flavors.
        if not workload.members.live:  # else they are a gang, which says itself whether it runs or what is lacking
            explain(self._state, workload, _NOT_PLANNED, now)
        return ""

    def nodes(self, workload: Workload, record: JobRecord) -> Mapping[SlotKey, str]:
        """The plan to be written on it, if it was let go and there is a node for all of it that has to start. It is
        written again if nobody knows whether it was and the watch does not show it."""
        if record.seen.let_go is None or record.stop or not self._state.recovered:
            return {}
        if record.plan is not None:
            return record.plan
        return _nodes_of(workload) if workload.seated and not workload.filling else {}

    def _await_nodes(self, workload: Workload, record: JobRecord, said: LetGo, now: float) -> str:
        state = self._state
        expect(state, workload, to_come(workload, record.seen))
        if workload.seated or not state.recovered:
            return ""
        if (why := state.quotas.route(workload).why) is not None:
            return why.message
        if record.seen.held:
            return HELD.message
        if (ending := state.namespaces.ending(workload.key.namespace)) is not None:
            return ending.message
        if not record.coming_until:
            end = min(said.until + state.epoch, now + state.limits.elastic.within_s)
            record.expect(max(end, now + _LOOK_S))
        unlike = self._unlike(workload, record, said)
        if now < record.coming_until and not unlike:
            self._show(workload, record)
            return ""
        detail = unlike or self._late(workload, record)
        return self._elastic.in_vain(workload.key, said.attempt, record.seen.flavor_names, detail, now)

    def _unlike(self, workload: Workload, record: JobRecord, said: LetGo) -> str:
        """Why its pods would not get nodes of its flavors, although what they are made of says so. One of an
        earlier start may be seen late."""
        began = said.until - self._state.limits.elastic.within_s - 1.0
        pods = (pod for pod in workload.live if pod.created >= began and pod.uid not in record.shown)
        flavors = self._state.quotas.queues.picture.flavors
        why = lacking(pods, workload.flavoring, flavors, of_job=True, to_come=False)
        return (
            why and f"{why}, and got none: is the component job-admission installed as this version of Muster has it?"
        )

    def _late(self, workload: Workload, record: JobRecord) -> str:
        slots, first = workload.members.slots, record.seen.podsets.first
        missing = sum(pod.wave == first and not slots.pods(slot) for slot, pod in slots.templates.items())
        more = f"; {counted(missing, 'pod', 'was', 'were')} not even created" if missing > 0 else ""
        if why := apart(record.seen, self._state.quotas.queues.picture.flavors):
            more += f"; {why}"
        return f"not enough came within {self._state.limits.elastic.within_s:.0f} s{more}"

    def _show(self, workload: Workload, record: JobRecord) -> None:
        """As soon as enough are there to start: for a part of it no nodes should be made."""
        if self._there(workload) < (workload.min_member or 0):
            return
        record.show(let_go(self._state, workload, workload.live, record.shown))

    @staticmethod
    def _there(workload: Workload) -> int:
        """How many of its slots a pod has come to."""
        slots = workload.members.slots
        return sum(bool(slots.pods(slot)) for slot in slots.templates)


def _nodes_of(workload: Workload) -> dict[SlotKey, str]:
    """The node of each slot that has one, or is promised one."""
    members = workload.members
    found = {pod.identity: pod.node for pod in workload.bound if pod.node}
    found |= {one.pod.identity: one.node for one in members.placed.values()}
    return {slot: node for slot, node in (found | members.slots.planned).items() if slot in members.slots.templates}
