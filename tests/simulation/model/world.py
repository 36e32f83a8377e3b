"""The whole cluster in one place: everything that a scenario or a fault can change."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extender.core.engine import Engine
from extender.runtime.driver import Watcher
from extender.runtime.quarantine import Source
from extender.simulation.chance import Chance
from extender.simulation.clock import Clock
from policies.model import DisruptionBudget, Node
from policies.model.queues import QueueObject
from tests.simulation.model.agents import DaemonSets, DevicePlugins, Platform
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.autoscaler import Autoscaler, Pool
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.budgets import DisruptionController
from tests.simulation.model.cache import Bars, no_bars
from tests.simulation.model.changes import Kind, StorageObject
from tests.simulation.model.claimcontroller import ClaimController
from tests.simulation.model.cycle import Profile
from tests.simulation.model.devices import Thing
from tests.simulation.model.domains import DomainDriver
from tests.simulation.model.jobcontroller import JobController
from tests.simulation.model.jobs import Jobs
from tests.simulation.model.kubelet import Kubelets
from tests.simulation.model.kubescheduler import KubeScheduler
from tests.simulation.model.network import Network, Weather
from tests.simulation.model.owners import OwnerController
from tests.simulation.model.process import Extender, Files
from tests.simulation.model.storage import StorageController
from tests.simulation.model.wire import Wire

BEGIN_S = 1000.0


class World:
    """The cluster, driven by ``clock``. ``core`` makes a core for each life of the extender; None: there is no
    extender.

    ``pod_rate``: how many pods the controller of suspended jobs makes in a second.
    ``polices``: whether the admission policies of such jobs exist.
    ``kinds``: the kinds whose watches may break; without OWNERS there are no owners.
    ``started``: jobs that ran before there was an extender.
    ``pool``: the nodes that an autoscaler makes, if there is one.
    ``platform``: the facts of real nodes; nodes and pods are objects then, and kubelets write statuses in pieces.
    """

    def __init__(
        self,
        seed: int | str,
        nodes: Iterable[Node],
        core: Callable[[], Engine] | None,
        *,
        profile: Profile | None = None,
        weather: Weather | None = None,
        bars: Bars = no_bars,
        watcher: Watcher | None = None,
        process: Callable[..., Extender] = Extender,
        writes_at_once: int = 64,
        slice_s: float = 0.0,
        pod_rate: float = 20.0,
        polices: bool = True,
        kinds: tuple[Kind, ...] = tuple(Kind),
        queues: Iterable[QueueObject] = (),
        budgets: Iterable[DisruptionBudget] = (),
        started: Iterable[BatchJob] = (),
        pool: Pool | None = None,
        late_s: float = 0.0,
        platform: Platform | None = None,
        storage: Iterable[StorageObject] = (),
        things: Iterable[Thing] = (),
        prepare_s: float = 0.0,
    ) -> None:
        self.chance = Chance(seed)
        self.clock = Clock(BEGIN_S)
        self.api = ApiServer(None if platform is None else Wire(dict(platform.conditions)))
        self.network = Network(self.clock, self.chance.stream("network"), weather)
        manner = None if platform is None else self.chance.stream("kubelets")
        self.kubelets = Kubelets(self.api, self.clock, dice=manner)
        self.kubelets.prepare_s = prepare_s
        unprepares = self.chance.stream("when nodes are unprepared")
        self.kubelets.prepares = DomainDriver(self.api, self.clock, lambda: 5 * unprepares.random()).prepares
        self.plugins = DevicePlugins(self.api, {} if platform is None else platform.lists)
        self.daemons = {} if platform is None else platform.daemons
        DaemonSets(self.api, self.clock, self.chance.stream("daemons"), self.daemons)
        pauses = self.chance.stream("jobs")
        late = self.chance.stream("replacements")
        self.jobs = Jobs(
            self.api,
            self.clock,
            pause=lambda: 0.1 * pauses.random(),
            late=lambda: late_s * late.random() if late_s else 0.0,
        )
        allocating = self.chance.stream("claim controller")
        ClaimController(self.api, self.clock, lag=lambda: 0.05 * allocating.random())
        lags = self.chance.stream("job controller")
        self.controller = JobController(self.api, self.clock, lag=lambda: 0.05 * lags.random(), rate=pod_rate)
        delays = self.chance.stream("controllers of owners")
        self.owners = OwnerController(self.api, self.clock, lag=lambda: 0.05 * delays.random())
        counting = self.chance.stream("disruption controller")
        disruptions = DisruptionController(self.api, self.clock, lag=lambda: counting.random())
        self.api.may_evict = disruptions.evict
        self.autoscaler: Autoscaler | None = None
        if pool is not None:
            dice = self.chance.stream("autoscaler")
            self.autoscaler = Autoscaler(self.api, self.clock, dice, pool, self.daemons.values())
        self.polices = polices
        self.kinds = kinds
        self.profile = profile or Profile()
        self.extender: Extender | None = None
        self.files = Files()
        self.ended: Callable[[Source], None] = lambda _: None
        """The function that is called when the extender has ended by itself, because of that object."""
        self.scheduler: KubeScheduler | None = None
        self._core = core
        self._files_of: dict[Extender, Files] = {}
        self._bars = bars
        self._watcher = watcher
        self._process = process
        self._writes_at_once = writes_at_once
        self._slice_s = slice_s
        StorageController(self.api, self.clock, self.chance.stream("storage"))
        for kept in storage:
            self.api.set_storage(kept)
        for thing in things:
            self.api.set_thing(thing)
        for node in nodes:
            self.api.set_node(node)
        for queue in queues:
            self.api.set_queue(queue)
        for budget in budgets:
            self.api.set_budget(budget)
        for job in started:
            self.api.set_job(job)
        self.start_extender()
        self.start_scheduler()

    def start_extender(self, start_s: float = 0.0) -> None:
        if self._core is not None and self.extender is None:
            self.extender = self._process(
                self._core(),
                self.api,
                self.network,
                bind_timeout_s=self.profile.bind_timeout_s,
                start_s=start_s,
                watcher=self._watcher,
                writes_at_once=self._writes_at_once,
                served=self.kinds,
                slice_s=self._slice_s,
                files=self.files,
                ended=lambda source: self.ended(source),
            )

    def stand_by(self) -> Extender:
        """Another extender, which reads along and waits for its turn."""
        assert self._core is not None
        files = Files()
        other = self._process(
            self._core(),
            self.api,
            self.network,
            bind_timeout_s=self.profile.bind_timeout_s,
            stands_by=True,
            writes_at_once=self._writes_at_once,
            served=self.kinds,
            slice_s=self._slice_s,
            files=files,
            ended=lambda source: self.ended(source),
        )
        self._files_of[other] = files
        return other

    def change_leader(self, other: Extender) -> None:
        """kube-scheduler and extender of one pod have lost their Lease, those of the other have got it."""
        self.kill_extender()
        self.kill_scheduler()
        self.extender, self.files = other, self._files_of.pop(other)
        shown = other.shown(Kind.QUEUES).items()
        other.behind = {uid for uid, change in shown if self.api.queues.get(uid) is not change.value}
        other.lead(self._watcher)
        self.start_scheduler()

    def kill_extender(self) -> None:
        if self.extender is not None:
            self.extender.kill()
            self.extender = None

    def start_scheduler(self) -> None:
        if self.scheduler is None:
            find = None if self._core is None else lambda: self.extender
            random = self.chance.stream(f"kube-scheduler at {self.clock.now}")
            self.scheduler = KubeScheduler(self.api, self.network, random, self.profile, find, self._bars)

    def kill_scheduler(self) -> None:
        if self.scheduler is not None:
            self.scheduler.kill()
            self.scheduler = None

    def break_watches(self, seconds: float, *, relist: bool, kind: Kind | None = None) -> None:
        """The extender's watches of one kind, or of all, say nothing for a while."""
        if self.extender is not None:
            self.extender.interrupt(seconds, relist=relist, kind=kind)
