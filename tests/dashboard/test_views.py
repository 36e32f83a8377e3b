"""A tenant reads everything of its own namespaces, and of others no name, only counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.access import Person
from dashboard.cluster import Cluster
from dashboard.feed import joined
from dashboard.views import Seen
from extender.api.feed import Update
from extender.api.models import Explanation, GangView
from extender.core.events import NamespaceSeen, QueueSeen
from extender.core.limits import Limits, Preempts
from extender.observe.changes import Changes
from extender.observe.explain.explanation import explaining
from extender.observe.queues import queues
from extender.observe.views import view
from policies.model import GroupKey, Pod, RunTerms, Topology
from policies.model.mentions import Mention, mentioned
from policies.model.queues import Cohort, LocalQueue
from policies.steps import finish
from tests.builders import cluster, gang, single
from tests.core.backfilling import Backlog
from tests.core.queues import cluster_queue, flavor
from tests.explaining import explain

OURS, THEIRS = "team-a", "secretive"
"""Every name in the second namespace has its name in it, so that a leak of any of them is found."""
WALL = 1_796_000_000.0


class World(Backlog):
    """Two tenants with a queue each, which lend each other quota, on three cliques."""

    def __init__(self, **limits: Any) -> None:
        chosen = Limits(preemption=Preempts.ON, preemption_s=60.0, reserve_after_s=60.0, **limits)
        super().__init__(*cluster("a: 4x8", "b: 4x8", "c: 2x8"), limits=chosen, checked=1_000)
        for thing in (flavor("gpus"), Cohort("all")):
            self.feed(QueueSeen(thing))
        for space in (OURS, THEIRS):
            self.feed(NamespaceSeen(space, (("kubernetes.io/metadata.name", space),)))
            # Names of ClusterQueues are everybody's.
            self.feed(QueueSeen(cluster_queue(f"queue-{space[0]}", {"gpus": 40}, cohort="all")))
            self.feed(QueueSeen(LocalQueue(space, f"local-{space}", f"queue-{space[0]}")))
        self.advance(0.5)

    def come(self, space: str, name: str, size: int, *, queued: bool = False, **facts: Any) -> list[Pod]:
        """A gang of that tenant comes."""
        runs = RunTerms(facts.pop("runs_s", None))
        if queued:
            facts["queue"] = f"local-{space}"
        made = gang(f"{name}-{space}", size, created=self.now, **facts)
        pods = [replace(pod, namespace=space, uid=f"{space}-{pod.uid}", run=runs) for pod in made]
        self.see(pods)
        self.advance(0.5)
        return pods

    def start(self, space: str, name: str, size: int, **facts: Any) -> list[Pod]:  # type: ignore[override]
        """The same, and it runs."""
        pods = self.come(space, name, size, **facts)
        self.run(pods)
        assert len(self.bound(pods)) == size
        return pods

    def seen(self, *spaces: str, everything: bool = False) -> Seen:
        """The view of a person who may list the pods of these namespaces."""
        changes, cluster, whole = Changes(self.core, self.now, WALL), Cluster(), None
        for text in changes.updates(self.now):
            if text:
                update = Update.model_validate_json(text)
                whole = update if whole is None else joined(whole, update)
        changes.stop()
        assert whole is not None
        asyncio.run(cluster.take(whole))

        async def explained(namespace: str, name: str) -> Explanation:
            workload = self.core.state.workloads[GroupKey(namespace, name)]
            outlook = finish(self.core.outlook(workload, self.now))
            marked = finish(explaining(self.core.state, workload, self.now, outlook))
            return Explanation.model_validate_json(marked.model_dump_json())

        cluster.explain = explained
        return Seen(cluster, Person("somebody", frozenset(spaces), sees_all=everything), now=WALL)


def full() -> World:
    """All of it is used by the other tenant, and a gang of ours waits."""
    world = World()
    world.start(THEIRS, "first", 4, runs_s=3600.0)
    world.start(THEIRS, "second", 4)
    world.see(replace(single("one"), namespace=THEIRS, name=f"one-{THEIRS}", node="c-0"))
    world.start(OURS, "small", 1, gpus=4)
    world.come(OURS, "waits", 4, topology=Topology(required="clique"))
    return world


def short_of_quota() -> World:
    """The other tenant has borrowed our quota."""
    world = World()
    world.start(THEIRS, "borrows", 8, queued=True)
    world.come(OURS, "waits", 6, queued=True)
    world.come(THEIRS, "waits", 2, queued=True)
    return world


def urgent() -> World:
    """Gangs of the other tenant are evicted for one of ours."""
    world = World()
    world.start(THEIRS, "low", 4, priority=-1)
    world.start(THEIRS, "lower", 4, priority=-2)
    world.come(OURS, "high", 4, priority=100, topology=Topology(required="clique"))
    world.advance(5)
    return world


def evicted() -> World:
    """A gang of ours is evicted for one of the other tenant."""
    world = World()
    world.start(OURS, "low", 4, priority=-1)
    world.start(OURS, "lower", 4, priority=-2)
    world.come(THEIRS, "high", 4, priority=100, topology=Topology(required="clique"))
    world.advance(5)
    return world


def reserved() -> World:
    """A workload of ours waits until one of theirs has ended, and has a reservation."""
    world = full()
    world.advance(400)
    world.come(THEIRS, "waits", 8, runs_s=600.0)
    world.advance(400)
    return world


CASES: list[Callable[[], World]] = [full, short_of_quota, urgent, evicted, reserved]


def texts(seen: Seen) -> Iterator[str]:
    """Everything that goes to that person, as JSON."""
    gangs = seen.gangs()
    for models in (gangs, seen.queues(), seen.domains(), seen.nodes(), seen.history()):
        yield from (model.model_dump_json() for model in models)
    yield seen.topology().model_dump_json()
    yield str(seen.totals())
    for gang_view in gangs:
        explanation = asyncio.run(seen.explain(gang_view.namespace, gang_view.name))
        assert explanation is not None
        yield explanation.model_dump_json()


@pytest.mark.parametrize("case", CASES)
def test_a_tenant_reads_no_name_of_another_one(case: Callable[[], World]) -> None:
    world = case()
    sent = [*texts(world.seen(OURS))]
    assert any("of another namespace" in text or "of other namespaces" in text for text in sent)
    for text in sent:
        assert THEIRS not in text
        assert not any("\ue000" <= letter <= "\ue003" for letter in text)


@pytest.mark.parametrize("case", CASES)
def test_the_counts_are_the_same_for_everybody(case: Callable[[], World]) -> None:
    world = case()
    nobody, all_of_it = world.seen(), world.seen(everything=True)
    assert nobody.gangs() == []
    assert nobody.totals() == all_of_it.totals()
    assert nobody.totals().workloads == len(world.core.state.workloads)
    for mine, full_one in zip(nobody.nodes(), all_of_it.nodes(), strict=True):
        assert mine == full_one.model_copy(update={"workloads": []})
    assert [(queue.name, queue.pending, queue.quotas) for queue in nobody.queues()] == [
        (queue.name, queue.pending, queue.quotas) for queue in all_of_it.queues() if queue.kind != "LocalQueue"
    ]


@pytest.mark.parametrize("case", CASES)
def test_whoever_sees_everything_reads_what_the_extenders_own_api_shows(case: Callable[[], World]) -> None:
    world = case()
    seen, state = world.seen(everything=True), world.core.state
    assert seen.gangs() == [view(state, record, world.now) for _, record in sorted(state.workloads.items())]
    assert seen.queues() == finish(queues(world.core, world.now))
    for key, workload in state.workloads.items():
        outlook = finish(world.core.outlook(workload, world.now))
        assert asyncio.run(seen.explain(*key)) == explain(state, workload, world.now, outlook)


def test_a_workload_that_may_not_be_seen_is_as_if_it_were_not_there() -> None:
    seen = full().seen(OURS)
    assert seen.gang(THEIRS, f"first-{THEIRS}") is None
    assert asyncio.run(seen.explain(THEIRS, f"first-{THEIRS}")) is None
    assert asyncio.run(seen.explain(THEIRS, "nothing")) is None


SPACES = st.sampled_from(["a", "b", "c"])
MENTIONS = st.builds(
    lambda space, other: Mention(space, f"{space}/<{space}>", other=other), SPACES, st.sampled_from(["", "somebody"])
)
PARTS = st.one_of(st.lists(MENTIONS, min_size=1, max_size=7).map(mentioned), st.text("xyz ,;", max_size=5))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(PARTS, max_size=6).map("".join), st.sets(SPACES), SPACES)
def test_any_text_loses_the_names_that_its_reader_may_not_see(text: str, sees: set[str], home: str) -> None:
    cluster = Cluster()
    original = GangView(
        namespace=home, name="gang", state="NoRoom", message=text, for_s=0, min_member=1, members=1, bound=0, held=0,
        waiting=1, pods=[], story=[(0.0, text)],
    )  # fmt: skip
    asyncio.run(cluster.take(Update(number=0, as_of=WALL, views_as_of=WALL, whole=True, gangs=[original])))
    for gang_seen in Seen(cluster, Person("p", frozenset({*sees, home})), now=WALL).gangs():
        for shown in (gang_seen.message, gang_seen.story[0][1]):
            assert all(f"<{space}>" not in shown for space in {"a", "b", "c"} - sees - {home})


def test_seconds_go_on_between_updates() -> None:
    world = full()
    (before,) = (gang_view for gang_view in world.seen(OURS).gangs() if gang_view.name.startswith("waits"))
    seen = world.seen(OURS)
    later = Seen(seen._cluster, seen.person, now=WALL + 100.0)
    (after,) = (gang_view for gang_view in later.gangs() if gang_view.name.startswith("waits"))
    assert after.for_s == pytest.approx(before.for_s + 100.0)
    assert after.status_for_s == pytest.approx(before.status_for_s + 100.0)
    assert [ago for ago, _ in after.story] == [pytest.approx(ago + 100.0) for ago, _ in before.story]
