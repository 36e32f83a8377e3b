"""Writes the past usage of LocalQueues into their status, as the leader does, and judges it.

Past usage fades by half in each half-life and no faster, in every life, and constant usage is part of it.
"""

from __future__ import annotations

from dataclasses import replace

from policies.model import GroupKey
from policies.model.queues import ClusterQueue, LocalQueue, PastUse
from policies.quota.history import Sampling
from tests.builders import GPU
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.world import World
from tests.simulation.queue_plan import FLAVOR

_SLACK = 1e-6


class PastKeeper:
    """The keeper. ``exact``: the queues do not change while the seed is played, so the pods tell the usage."""

    def __init__(self, world: World, sampling: Sampling, *, exact: bool) -> None:
        self.written = 0
        self._world = world
        self._half_life_s = sampling.half_life_s
        self._exact = exact
        self._least: dict[str, float] = {}
        """The fewest GPUs that the pods of each LocalQueue have used at a time since its status was written."""
        if self._half_life_s:
            for kind in (Kind.PODS, Kind.NODES):
                world.api.listeners[kind].append(self._changed)

    def look(self) -> str | None:
        """Write the status, and return the fault. To be called every now and then.

        A write of the last leader that the next one's watch did not show at its start is lost, and not judged.
        """
        api, extender = self._world.api, self._world.extender
        if not self._half_life_s or extender is None or extender.frozen or not extender.recovered:
            return None
        for uid, change in extender.shown(Kind.QUEUES).items():
            if isinstance(thing := change.value, LocalQueue) and api.queues.get(uid) is thing:
                past = extender.core.state.quotas.past.stored((thing.namespace, thing.name))
                if past is None or past == thing.past:
                    continue
                begins = uid in extender.behind
                extender.behind.discard(uid)
                if thing.past is not None and not begins and (complaint := self._judge(thing, thing.past, past)):
                    return complaint
                self._least[thing.name] = self._used(thing)
                self.written += 1
                api.set_queue(replace(thing, past=past))
        return None

    def _judge(self, queue: LocalQueue, before: PastUse, after: PastUse) -> str | None:
        if after.at < before.at - _SLACK:
            return f"the past usage of {queue.name} is of {after.at}, and was of {before.at}"
        left = 0.5 ** ((after.at - before.at) / self._half_life_s)
        runs = self._least.get(queue.name, 0.0) if self._exact else 0.0
        least = before.consumed.get(GPU, 0.0) * left + runs * (1 - left)
        if after.consumed.get(GPU, 0.0) < least - _SLACK:
            return (
                f"{queue.name} has used {after.consumed}, after {before.consumed}, of which {least} GPUs must be left"
            )
        return None

    def _changed(self, _: Change) -> None:
        for thing in self._world.api.queues.values():
            if isinstance(thing, LocalQueue):
                self._least[thing.name] = min(self._least.get(thing.name, 0.0), self._used(thing))

    def _used(self, queue: LocalQueue) -> float:
        """The GPUs of pods on nodes of a flavor.

        Edits may move pods into a gang, so that its pods name several queues, and the stamp of a pod names one, too.
        Then the used queue is unknown. The pods of a job need not name its queue.
        """
        api = self._world.api
        named: dict[GroupKey | None, set[str]] = {}
        for pod in api.pods.values():
            stamped = pod.stamp.queue if pod.stamp is not None else ""
            named.setdefault(pod.group_key, set()).update({pod.queue, stamped or pod.queue})
        if not any(
            isinstance(queue_object, ClusterQueue) and queue_object.name == queue.queue
            for queue_object in api.queues.values()
        ):
            return 0.0
        used = 0
        for pod in api.pods.values():
            node = api.nodes.get(pod.node or "")
            if pod.group_key is None or pod.terminal or node is None or FLAVOR not in node.labels:
                continue
            job = api.jobs.get(pod.group_key)
            if (named[pod.group_key] if job is None else named[pod.group_key] - {""} | {job.queue}) == {queue.name}:
                used += dict(pod.requests).get(GPU, 0)
        return float(used)
