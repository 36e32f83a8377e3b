"""What pods are to come of a workload that has no job: what its owner makes in order, or its PodGroup's job."""

from __future__ import annotations

from extender.core.gang.expected import expect
from extender.core.gang.owners import Owners
from extender.core.jobs.enqueues import Enqueues
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import GroupKey


class Coming:
    """Each of those that know it is asked, whenever the workload is settled."""

    def __init__(self, state: State, owners: Owners, enqueues: Enqueues) -> None:
        self._state = state
        self._owners = owners
        self._enqueues = enqueues

    def settle(self, workload: Workload, now: float) -> None:
        """Its slots are those of the pods that are there and that will come."""
        if workload.job is not None:
            return
        workload.follow_owner(remakes=self._owners.remakes(workload))
        podsets = self._owners.to_come(workload) or self._enqueues.to_come(workload, now)
        expect(self._state, workload, podsets)
        self._owners.move_up(workload, now)
        self._enqueues.settle(workload, now)

    def deadlines(self, workload: Workload, now: float) -> list[float]:
        """When it has to be looked at again."""
        return self._enqueues.deadlines(workload, now)

    def leave(self, key: GroupKey) -> None:
        """The workload is there no more."""
        self._owners.leave(key)
