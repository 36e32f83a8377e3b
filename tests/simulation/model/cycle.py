"""A scheduling cycle of kube-scheduler: the nominated node alone, then all of them, the extender last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from extender.core.effects import AnswerFilter, AnswerPreempt
from policies.model import Pod, Selection
from tests.simulation.model.backlog import EXTENDER
from tests.simulation.model.cache import DEVICES, SHAPE, VOLUMES, Cache
from tests.simulation.model.devices import as_shown
from tests.simulation.model.dra import DynamicResources
from tests.simulation.model.network import Network
from tests.simulation.model.storage import VolumeBinding
from tests.simulation.model.tasks import Process

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Profile:
    """kube-scheduler's configuration and speed. Durations are in seconds.

    ``score_all``: whether a cycle looks at every node, or at an adaptive sample.
    ``node_s``: the cost of one more node in a cycle.
    ``slow_until``: until then a cycle takes ``slow_s``.
    """

    name: str = "muster"
    score_all: bool = True
    cycle_s: float = 0.001
    node_s: float = 0.000002
    filter_timeout_s: float = 5.0
    bind_timeout_s: float = 30.0
    longest_backoff_s: float = 10.0
    slow_s: float = 0.0
    slow_until: float = 0.0

    def takes_s(self, now: float) -> float:
        """How long a cycle takes that begins now."""
        return self.slow_s if now < self.slow_until else self.cycle_s

    def sees_all(self, nodes: int) -> bool:
        """Whether each cycle looks at all nodes, if there are that many."""
        return self.score_all or _sample(nodes) >= nodes


@dataclass(slots=True, eq=False)
class BindRequest:
    """An open bind call; ``answer(error)`` ends it, and an empty error means that the pod is bound."""

    pod: Pod
    node: str
    answer: Callable[[str], None]


class Verbs(Protocol):
    """The extender as kube-scheduler sees it. None: it has answered with an error, or is frozen and does not answer."""

    @property
    def frozen(self) -> bool: ...

    def filter(self, pod: Pod, candidates: tuple[str, ...]) -> AnswerFilter | None: ...

    def preempt(self, pod: Pod, victims: Mapping[str, tuple[str, ...]]) -> AnswerPreempt | None: ...

    def bind(self, request: BindRequest) -> None: ...

    def hang_up(self, request: BindRequest) -> None: ...


@dataclass(frozen=True, slots=True)
class Chosen:
    node: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The result of a cycle without a node.

    ``plugins``: node -> the plugin that refused it.
    ``rejectors``: the plugins whose refusal has to end.
    """

    plugins: Mapping[str, str]
    rejectors: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The extender could not be asked."""


class Cycle:
    """``find`` gives the extender that listens now; without ``find`` kube-scheduler has no extender."""

    def __init__(
        self,
        network: Network,
        random: Random,
        profile: Profile,
        cache: Cache,
        storage: VolumeBinding,
        dra: DynamicResources,
        find: Callable[[], Verbs | None] | None,
    ) -> None:
        self._storage = storage
        self._network = network
        self._random = random
        self._profile = profile
        self._cache = cache
        self._find = find
        self._dra = dra
        self._start = 0

    def run(self, pod: Pod) -> Process[Chosen | Refused | Failed]:
        """Look for a node for the pod, as kube-scheduler last saw it."""
        cache = self._cache
        if not cache.nodes:
            return Refused({}, (), "no nodes available to schedule pods")
        if pod.claims and self._storage.waits(pod):
            return Refused({}, (VOLUMES,), "a volume claim is not there")
        if pod.device_claims and self._dra.waits(pod):
            return Refused({}, (DEVICES,), "waiting for a ResourceClaim")
        nominated = pod.nominated_node
        if nominated in cache.nodes and nominated is not None and self._refusal(pod, nominated) is None:
            answer = yield from self._filter(pod, (nominated,))
            if answer is not None and answer.passed:
                return Chosen(answer.passed[0])
        feasible, plugins = self._scan(pod)
        yield self._profile.node_s * (len(feasible) + len(plugins))
        reasons = list(plugins.values())
        if feasible:
            answer = yield from self._filter(pod, feasible)
            if answer is None:
                return Failed()
            if answer.passed:
                return Chosen(self._best(answer.passed))
            plugins = plugins | dict.fromkeys(feasible, EXTENDER)
            reasons += [answer.reason] * len(feasible)
        rejectors = dict.fromkeys(plugins.values())
        if _named(pod.selection) is not None:
            rejectors[SHAPE] = None
        return Refused(plugins, tuple(rejectors), _message(len(cache.nodes), reasons))

    def ask(self, question: Callable[[Verbs], AnswerT | None]) -> Process[AnswerT | None]:
        """Call a verb, there and back; None when there is no answer in time."""
        assert self._find is not None
        yield self._network.hop()
        extender = self._find()
        if extender is None:
            return None
        answer = question(extender)
        yield self._profile.filter_timeout_s if extender.frozen else self._network.hop()
        return answer

    def _filter(self, pod: Pod, nodes: tuple[str, ...]) -> Process[AnswerFilter | None]:
        if self._find is None:
            return AnswerFilter(0, nodes)
        return (yield from self.ask(lambda extender: extender.filter(as_shown(pod), nodes)))

    def _scan(self, pod: Pod) -> tuple[tuple[str, ...], dict[str, str]]:
        """The nodes that the plugins accept, up to the wanted number, and the plugins that refused the others."""
        cache = self._cache
        names = _named(pod.selection)
        nodes = list(cache.nodes) if names is None else [name for name in names if name in cache.nodes]
        if not nodes:
            return (), {}
        wanted = len(nodes) if self._profile.score_all else _sample(len(nodes))
        start = self._start % len(nodes)
        feasible: list[str] = []
        plugins: dict[str, str] = {}
        looked = 0
        for node in (*nodes[start:], *nodes[:start]):
            looked += 1
            plugin = self._refusal(pod, node)
            if plugin is not None:
                plugins[node] = plugin
            else:
                feasible.append(node)
                if len(feasible) >= wanted:
                    break
        self._start = (start + looked) % len(nodes)
        return tuple(feasible), plugins

    def _refusal(self, pod: Pod, node: str) -> str | None:
        """The plugin that refuses the node: those of volumes and devices come after the others."""
        if (refuser := self._cache.refusal(pod, node)) is not None:
            return refuser
        if pod.claims and self._storage.refuses(pod, node):
            return VOLUMES
        return DEVICES if self._dra.refuses(pod, node) else None

    def _best(self, nodes: tuple[str, ...]) -> str:
        """The least loaded; equals by chance."""
        if len(nodes) == 1:
            return nodes[0]
        loads = {node: self._cache.load(node) for node in nodes}
        least = min(loads.values())
        return self._random.choice([node for node, load in loads.items() if load <= least])


def _named(selection: Selection) -> tuple[str, ...] | None:
    """The only nodes that a pod can be on whose every affinity term names one: kube-scheduler looks at no other."""
    if not selection.affinity:
        return None
    names: dict[str, None] = {}
    for term in selection.affinity:
        fields = [
            expression
            for expression in term
            if expression.is_field and expression.key == "metadata.name" and expression.operator == "In"
        ]
        if not fields:
            return None
        names.update(dict.fromkeys(fields[0].values))
    return tuple(names)


def _sample(nodes: int) -> int:
    """How many feasible nodes an adaptive kube-scheduler looks for, if there are ``nodes``."""
    percent = max(5, 50 - nodes // 125)
    return nodes if nodes < 100 else max(100, nodes * percent // 100)


def _message(nodes: int, reasons: list[str]) -> str:
    counts = {reason: reasons.count(reason) for reason in sorted(dict.fromkeys(reasons))}
    return f"0/{nodes} nodes are available: " + ", ".join(f"{count} {reason}" for reason, count in counts.items())
