"""Everything the core knows: the parts of the ledger, made together. Each class is given the parts that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from inspect import signature
from typing import TypeVar

from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claims, emptied
from extender.core.ledger.consequences import Consequences
from extender.core.ledger.creation import Creation, FailedCreation, Trials
from extender.core.ledger.devices import DeviceClasses
from extender.core.ledger.kube_scheduler import KubeQueue, Refusing
from extender.core.ledger.namespaces import Namespaces
from extender.core.ledger.outbox import Outbox
from extender.core.ledger.pending import Pending
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.process import Counts, Process
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import KeptOut, WaitingSingles
from extender.core.ledger.store import Store
from extender.core.ledger.volumes import Volumes
from extender.core.ledger.waiting import Changes, Starting, Timers
from extender.core.limits import Limits
from extender.core.workload.additions import Additions
from extender.core.workload.names import Astray
from extender.core.workload.release import BindCalls
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod
from policies.model.levels import LevelKey

T = TypeVar("T")


class State:
    """The facts, the promises and the outbox. The engine makes it; tests, reports and metrics read it."""

    def __init__(
        self,
        schedulers: tuple[str, ...] = ("muster",),
        limits: Limits | None = None,
        levels: tuple[LevelKey, ...] = (),
    ) -> None:
        self.schedulers, self.limits = schedulers, limits or Limits()
        self.process, self.counts = Process(), Counts()
        self.volumes, self.namespaces = Volumes(), Namespaces()
        self.store = store = Store(self.volumes)
        self.budgets, self.devices = DisruptionBudgets(), DeviceClasses()
        self.claims = claims = Claims(levels)
        self.quotas = Quotas(self.limits, claims, store.pods, store.workloads, self.namespaces)
        self.preemptions = Preemptions(claims)
        self.creation, self.failed_creation = Creation(), FailedCreation()
        self.trials, self.additions, self.astray = Trials(enabled=self.limits.trials), Additions(), Astray()
        self.starting, self.timers = Starting(), Timers()
        self.singles, self.kept_out = WaitingSingles(), KeptOut()
        self.kube_queue, self.refusing, self.changes = KubeQueue(), Refusing(), Changes()
        self.pending = self.make(Pending)
        self.binds = BindCalls()
        self.outbox = Outbox(store, self.binds)
        self.room = self.make(Room)
        self.make(Consequences)

    @property
    def pods(self) -> dict[str, Pod]:
        return self.store.pods

    @property
    def workloads(self) -> dict[GroupKey, Workload]:
        return self.store.workloads

    def take_apart(self) -> Iterator[None]:
        """Free everything, in small steps, of a core that is not needed any more.

        The lists of consequences tie the stores to each other: without them nothing is left for a garbage collector.
        """
        self.store.on_put = self.store.on_drop = ()
        self.claims.on_node = self.claims.on_move = self.room.on_free = ()
        yield from self.claims.take_apart()
        yield from emptied(self.workloads)
        yield from emptied(self.pods)

    def make(self, kind: Callable[..., T], **others: object) -> T:
        """Make one with the parts that its constructor names; ``others``: what else it names."""
        names = _named_by(kind)
        parts = {name: getattr(self, name) for name in names if name not in others and hasattr(self, name)}
        return kind(**{names[name]: part for name, part in (parts | others).items()})


@cache
def _named_by(kind: Callable[..., object]) -> dict[str, str]:
    """The parameters by the names of the parts: what a class keeps to itself begins with an underscore there."""
    return {name.lstrip("_"): name for name in signature(kind).parameters}
