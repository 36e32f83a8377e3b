"""A hostile tenant beside honest neighbours.

In most sieges each has quota of his own and nodes for it. In the others there are no queues, and the first in line
has the nodes.

What is judged is seen from outside, by the objects alone. Whatever he writes, a neighbour's gang for which there is
quota and room starts within 10 s. None is bound in part, no node overcommitted, and no quota overdrawn. None is
evicted for the tenant. Without queues one may be, at most once between two restarts of Muster, by a priority that he
turns out not to have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from extender.core.effects import Effect
from extender.core.engine import Engine
from extender.core.events import Event
from extender.core.explain.reasons import reason_of
from extender.core.limits import Limits, Preempts
from extender.simulation.chance import Chance
from policies.model import GroupKey, Pod
from policies.model.queues import ClusterQueue, LocalQueue, QueueObject, Quota, ResourceFlavor, ResourceGroup
from tests.builders import GPU, node, requests
from tests.simulation.broken import BrokenPromiseError
from tests.simulation.model.cycle import Profile
from tests.simulation.model.job_specs import JobSpec, Role
from tests.simulation.model.world import BEGIN_S, World
from tests.simulation.tricks import OURS, QUEUES, THEIRS, TRICKS, Tenant, job_of

PATIENCE_S = 10.0
_LASTS_S, _STRIKES_END_S = 120.0, 90.0
DEVICES = 8
"""GPUs of a node; each pod asks for all of them."""


def is_besieged(seed: int) -> bool:
    """True for one seed in 37."""
    return seed % 37 == 17


class Siege:
    """``tricks``: by name; without them a few by chance."""

    def __init__(
        self, seed: int, tricks: Collection[str] | None = None, log: Callable[[str], None] | None = None
    ) -> None:
        chance = Chance(seed)
        self.dice = dice = chance.stream("a hostile tenant")
        self._log = log
        self._events = self._steps = 0
        count = dice.randint(3, 8)
        theirs = dice.randint(2, count - 1)
        self.queued = dice.random() < 0.6
        shares = {OURS: count - theirs, THEIRS: theirs} if self.queued else dict.fromkeys(QUEUES, count)
        self.nominal = {namespace: DEVICES * share for namespace, share in shares.items()}
        limits = Limits(
            creation_s=5.0,
            require_queue=self.queued,
            preemption=dice.choice((Preempts.OFF, Preempts.ON)),
            preemption_s=20.0,
            evict_partial=True,
            partial_s=10.0,
        )
        policed = dice.random() < 0.4
        self.world = World(
            seed,
            [node(f"n{at}", gpus=DEVICES, labels={"flavor": "gpu"}) for at in range(count)],
            lambda: Engine(limits=limits),
            profile=Profile(longest_backoff_s=3.0),
            watcher=self._watch,
            polices=policed,
            queues=self._queues() if self.queued else (),
        )
        self.tenant = Tenant(self.world, chance.stream("tricks"), requests(DEVICES), policed)
        chosen = dice.sample(list(TRICKS), dice.choice((1, 2, 4, 8)))
        self.tricks = chosen if tricks is None else tricks
        self._since: dict[tuple[str, GroupKey], float] = {}
        self._evicted: dict[tuple[GroupKey, int], set[str]] = {}
        """The neighbours' gangs that were evicted, by the life of Muster, and the pods that went by that."""
        self._submit(theirs)

    def _queues(self) -> Iterator[QueueObject]:
        yield ResourceFlavor("gpu", {"flavor": "gpu"})
        for namespace, name in QUEUES.items():
            quota = {GPU: Quota(self.nominal[namespace]), "cpu": Quota(1 << 40), "memory": Quota(1 << 60)}
            group = ResourceGroup((GPU, "cpu", "memory"), (("gpu", quota),))
            yield ClusterQueue(f"cluster-{name}", (group,), namespaces=())
            yield LocalQueue(namespace, name, f"cluster-{name}")

    def _submit(self, theirs: int) -> None:
        """Submit the workloads of the neighbours, and those of the tenant beside his tricks."""
        world, dice = self.world, self.dice
        for at in range(dice.randint(3, 6)):
            count, run_s, when = dice.randint(1, theirs), 4 + 16 * dice.random(), 80 * dice.random()
            if dice.random() < 0.5:
                spec = JobSpec(f"gang{at}", (Role(count, requests(DEVICES)),), count, run_s, THEIRS)
                world.clock.at(BEGIN_S + when, partial(self._submit_gang, spec))
            else:
                job = job_of(THEIRS, f"job{at}", count, requests(DEVICES), queue=QUEUES[THEIRS], run_s=run_s)
                world.clock.at(BEGIN_S + when, partial(world.api.set_job, job))
        for _ in range(dice.randint(0, 3)):
            world.clock.at(BEGIN_S + 60 * dice.random(), partial(self.tenant.job, 1))
        for name in self.tricks:
            for _ in range(dice.choice((1, 1, 3))):
                world.clock.at(BEGIN_S + _STRIKES_END_S * dice.random(), partial(self._strike, name))

    def _submit_gang(self, spec: JobSpec) -> None:
        self.world.jobs.submit(replace(spec, queue=QUEUES[THEIRS]))

    def _strike(self, name: str) -> None:
        self._note("TRICK", name)
        self.tenant.played.append(name)
        TRICKS[name](self.tenant)

    def play(self) -> tuple[int, int, int]:
        """Play the siege; returns the number of steps, events and tricks.

        Raises BrokenPromiseError, or what the core itself raises.
        """
        clock = self.world.clock
        for second in range(1, int(_LASTS_S) + 1):
            until = BEGIN_S + second
            while clock.step(until):
                self._steps += 1
            clock.now = until
            for complaint in self._complaints():
                raise BrokenPromiseError(complaint)
        return self._steps, self._events, len(self.tenant.played)

    def _watch(self, event: Event, effects: list[Effect]) -> None:
        self._events += 1
        if effects:
            self._note("core", (event, effects))

    def _note(self, who: str, what: object) -> None:
        if self._log is not None:
            self._log(f"{self.world.clock.now - BEGIN_S:9.3f} {who:5} {what}")

    # The referee.

    def _complaints(self) -> Iterator[str]:
        pods = [pod for pod in self.world.api.pods.values() if pod.node and not pod.terminal]
        used = Counter(pod.node for pod in pods for _ in range(dict(pod.requests).get(GPU, 0)))
        for name, amount in used.items():
            if amount > DEVICES:
                yield f"node {name} has {amount} of {DEVICES} GPUs in use"
        # A single pod uses no quota, and one with changed stamps may be in another gang: SECURITY.md says both.
        counted = [pod for pod in pods if (pod.group or pod.stamp) and pod.uid not in self.tenant.restamped]
        spent = Counter(pod.namespace for pod in counted for _ in range(dict(pod.requests).get(GPU, 0)))
        for namespace, most in self.nominal.items():
            if spent[namespace] > most:
                yield f"{namespace} uses {spent[namespace]} of {most} GPUs"
        free = sum(node.ready and not used[node.name] for node in self.world.api.nodes.values())
        left = (self.nominal[THEIRS] - spent[THEIRS]) // DEVICES
        yield from self._gang_complaints(min(free, left))

    def _gang_complaints(self, room: int) -> Iterator[str]:
        """Yield the faults of the neighbours' gangs. ``room``: how many of their pods find a node and quota."""
        now, gangs = self.world.clock.now, self._gangs()
        for key, (size, members) in gangs.items():
            bound = [pod for pod in members if pod.node]
            late = not bound and (len(members) == size or not members) and size <= room
            if self._lasts("waits", key, now, holds=late):
                yield f"{key} waits for {PATIENCE_S:.0f} s, and has quota and room for its {size} pods{self._why(key)}"
            if self._lasts("partial", key, now, holds=0 < len(bound) < size):
                yield f"{key} is bound in part: {len(bound)} of {size} pods"
            going, all_bound = {pod.uid for pod in bound if pod.deleting}, {pod.uid for pod in bound}
            if going and (self.queued or not self._evicted.setdefault((key, self.tenant.restarts), all_bound) >= going):
                yield f"{key} is evicted, and nobody has more right to its nodes{self._why(key)}"
        for kind, key in [kind_and_key for kind_and_key in self._since if kind_and_key[1] not in gangs]:
            del self._since[kind, key]

    def _gangs(self) -> dict[GroupKey, tuple[int, list[Pod]]]:
        """The neighbours' gangs that have yet to end: how many pods they need, and their existing pods."""
        world, members = self.world, dict[GroupKey, list[Pod]]()
        for pod in world.api.pods.values():
            if pod.namespace == THEIRS and pod.group_key is not None and not pod.terminal:
                members.setdefault(pod.group_key, []).append(pod)
        gangs = {
            job.spec.key: (job.spec.size, members.get(job.spec.key, []))
            for job in world.jobs.jobs.values()
            if job.spec.namespace == THEIRS and not job.ended
        }
        for key, job in world.api.jobs.items():
            if key.namespace == THEIRS and not job.ended:
                gangs[key] = job.size, members.get(key, [])
        return gangs

    def _lasts(self, kind: str, key: GroupKey, now: float, *, holds: bool) -> bool:
        """Whether that has been so for too long."""
        if not holds:
            self._since.pop((kind, key), None)
            return False
        return now - self._since.setdefault((kind, key), now) > PATIENCE_S

    def _why(self, key: GroupKey) -> str:
        extender = self.world.extender
        workload = None if extender is None else extender.core.state.workloads.get(key)
        return (
            ""
            if workload is None
            else f": {reason_of(workload.reason_state.cause).code}: {reason_of(workload.reason_state.cause).message}"
        )
