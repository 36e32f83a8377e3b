"""Random histories of a small cluster: in each of them no gang runs in part and nothing is promised twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from extender.core.answers import Outcome
from extender.core.events import PodSeen
from extender.core.explain.reasons import reason_of
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits
from extender.core.workload.slots import Stage
from policies.model import GANG_GATE, Pod, Selection
from tests.builders import cluster, coscheduled, gang, node, reborn, single
from tests.core.world import World

INDEX = st.integers(0, 7)
OUTCOMES = (Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN)
"""The outcomes of a Binding."""


class Cluster(RuleBasedStateMachine):
    """Each rule is one act: of a user, kube-scheduler, the API server, or the machine room."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.names = 0
        self.unborn: list[Pod] = []
        self.gates: dict[str, tuple[str, ...]] = {}

    @initialize(
        nodes=st.integers(1, 4),
        sizes=st.lists(st.integers(1, 4), max_size=3),
        gpus=st.sampled_from([8, 4]),
        slice_units=st.sampled_from([1, 1000]),
        steering=st.sampled_from([SteeringMode.NOMINATE, *SteeringMode]),
    )
    def begin(self, nodes: int, sizes: list[int], gpus: int, slice_units: int, steering: SteeringMode) -> None:
        self.world.limits, self.world.steering = Limits(slice_units=slice_units), steering
        for node_made in cluster(f"n: {nodes}x8"):
            self.world.nodes[node_made.name] = node_made
        for size in sizes:
            self.submit_gang(size, gpus, 0, 0, has_object=False, gated=False, quota=False)
        for pod in self.unborn:
            self.world.pods[pod.uid] = pod
        self.unborn.clear()
        self.world.restart(written=False)

    @rule(
        size=st.integers(1, 4),
        gpus=st.sampled_from([8, 4, 2]),
        spare=st.integers(0, 1),
        priority=st.sampled_from([0, 0, 5]),
        has_object=st.booleans(),
        gated=st.booleans(),
        quota=st.sampled_from([False, False, False, True]),
    )
    def submit_gang(
        self, size: int, gpus: int, spare: int, priority: int, has_object: bool, gated: bool, quota: bool
    ) -> None:
        if self.names >= 8:
            return
        self.names += 1
        name, least = f"gang{self.names}", max(1, size - spare)
        if has_object:
            group, pods = coscheduled(name, size, gpus=gpus, min_member=least, priority=priority)
            self.world.add_group(group)
        else:
            pods = gang(name, size, gpus=gpus, min_member=least, priority=priority)
        gates = (GANG_GATE,) if gated else ()
        pods = [replace(pod, created=float(self.names), gates=gates) for pod in pods]
        if quota:
            pods[0] = replace(pods[0], gates=(*gates, "acme/quota"))
        self.gates[name] = gates
        self.unborn += pods

    @precondition(lambda self: self.unborn)
    @rule(which=INDEX, count=st.integers(1, 4))
    def create_pods(self, which: int, count: int) -> None:
        for _ in range(min(count, len(self.unborn))):
            self.world.change(self.unborn.pop(which % len(self.unborn)))

    @rule(gpus=st.integers(1, 8), foreign=st.booleans(), which=INDEX)
    def create_single(self, gpus: int, foreign: bool, which: int) -> None:
        if self.names >= 12 or not self.world.nodes:
            return
        self.names += 1
        pod = single(f"single{self.names}", gpus=gpus)
        where = list(self.world.nodes.values())[which % len(self.world.nodes)]
        if foreign and self.world.room_for(pod, where):
            pod = replace(pod, scheduler="default-scheduler", node=where.name)
        self.world.change(pod)

    @precondition(lambda self: self.world.pods)
    @rule(which=INDEX, gracefully=st.booleans(), again=st.booleans())
    def delete_pod(self, which: int, gracefully: bool, again: bool) -> None:
        pod = self._any(which)
        if gracefully and pod.node:
            self.world.change(replace(pod, deleting=True))
        else:
            self.world.remove(pod.uid)
        if again and pod.group is not None:
            self.names += 1
            fresh = replace(reborn(pod, str(self.names)), phase="Pending", deleting=False, selection=Selection())
            self.unborn.append(replace(fresh, gates=self.gates[pod.group.name]))

    @precondition(lambda self: any(pod.deleting for pod in self.world.pods.values()))
    @rule()
    def kubelet_ends_a_deletion(self) -> None:
        self.world.remove(next(pod.uid for pod in self.world.pods.values() if pod.deleting))

    @precondition(lambda self: any(pod.node for pod in self.world.pods.values()))
    @rule(which=INDEX, phase=st.sampled_from(["Succeeded", "Failed", "Running"]))
    def kubelet_changes_the_phase(self, which: int, phase: str) -> None:
        running = [pod for pod in self.world.pods.values() if pod.node and not pod.terminal]
        if running:
            self.world.change(replace(running[which % len(running)], phase=phase))

    @precondition(lambda self: any(pod.foreign_gates for pod in self.world.pods.values()))
    @rule()
    def quota_lets_a_pod_go(self) -> None:
        pod = next(pod for pod in self.world.pods.values() if pod.foreign_gates)
        self.world.change(replace(pod, gates=tuple(gate for gate in pod.gates if gate == GANG_GATE)))

    @precondition(lambda self: self.world.wishes or self.world.ungates)
    @rule(which=INDEX, every=st.booleans(), detail=st.sampled_from(["", "", "403 Forbidden"]))
    def a_nomination_or_an_ungating_ends(self, which: int, every: bool, detail: str) -> None:
        uids = [*self.world.wishes, *self.world.ungates]
        for uid in uids if every else [uids[which % len(uids)]]:
            self.world.end_write(uid, detail)

    @rule(which=INDEX, far=INDEX)
    def somebody_else_binds(self, which: int, far: int) -> None:
        idle = self.world.idle()
        if not idle or not self.world.nodes or which > 1:
            return
        where = list(self.world.nodes.values())[far % len(self.world.nodes)]
        if self.world.room_for(idle[0], where):
            self.world.change(replace(idle[0], node=where.name))

    @rule(which=INDEX, how=st.sampled_from(["add", "cordon", "uncordon", "remove", "shrink"]))
    def change_a_node(self, which: int, how: str) -> None:
        if how == "add" or not self.world.nodes:
            if len(self.world.nodes) < 5:
                self.names += 1
                self.world.set_node(node(f"m-{self.names}"))
            return
        node_shown = list(self.world.nodes.values())[which % len(self.world.nodes)]
        if how == "remove":
            self.world.remove_node(node_shown.name)
        elif how == "shrink":
            self.world.set_node(node(node_shown.name, gpus=7))
        else:
            self.world.set_node(replace(node_shown, unschedulable=how == "cordon"))

    @rule(count=st.integers(1, 12))
    def watch_delivers(self, count: int) -> None:
        self.world.deliver(count)

    @precondition(lambda self: self.world.shown)
    @rule(which=INDEX)
    def watch_repeats_itself(self, which: int) -> None:
        shown = list(self.world.shown.values())
        self.world.feed(PodSeen(shown[which % len(shown)]))

    @rule(which=INDEX, count=st.integers(1, 4))
    def kube_scheduler_runs(self, which: int, count: int) -> None:
        for _ in range(count):
            if idle := self.world.idle():
                self.world.schedule(idle[which % len(idle)])

    @rule(leave=st.sampled_from([0, 0, 1]), outcomes=st.lists(st.sampled_from([Outcome.DONE, *OUTCOMES]), max_size=4))
    def everything_goes_on(self, leave: int, outcomes: list[Outcome]) -> None:
        """kube-scheduler tries each pod, ``leave`` excepted; then some of the Bindings end."""
        self._catch_up()
        idle = self.world.idle()
        for pod in idle[: len(idle) - leave]:
            self.world.schedule(pod)
        for outcome in outcomes:
            if self.world.posts:
                self.world.end_post(next(iter(self.world.posts)), outcome)

    @rule(order=st.booleans())
    def everything_goes_well(self, order: bool) -> None:
        self._catch_up()
        for pod in self.world.idle()[:: 1 if order else -1]:
            self.world.schedule(pod)
        while self.world.posts:
            self.world.end_post(next(iter(self.world.posts)), Outcome.DONE)

    @precondition(lambda self: self.world.idle() and self.world.nodes)
    @rule(which=INDEX, start=INDEX, count=st.integers(1, 4))
    def kube_scheduler_asks_about_some_nodes(self, which: int, start: int, count: int) -> None:
        idle, names = self.world.idle(), [*self.world.nodes, "unknown"]
        self.world.filter(idle[which % len(idle)], tuple(names[start % len(names) :][:count]))

    @precondition(lambda self: self.world.binds)
    @rule(which=INDEX, every=st.booleans())
    def kube_scheduler_gives_up(self, which: int, every: bool) -> None:
        calls = list(self.world.binds)
        for call in calls if every else [calls[which % len(calls)]]:
            self.world.give_up(call)

    @precondition(lambda self: self.world.posts)
    @rule(which=INDEX, outcome=st.sampled_from([Outcome.DONE, Outcome.DONE, *OUTCOMES]), written=st.booleans())
    def a_binding_ends(self, which: int, outcome: Outcome, written: bool) -> None:
        posts = list(self.world.posts)
        self.world.end_post(posts[which % len(posts)], outcome, written=written)

    @rule(seconds=st.sampled_from([0.01, 0.01, 0.3, 3.0, 25.0, 70.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def muster_takes_one_step(self) -> None:
        """Other things can happen in the middle of an admission pass."""
        self.world.tick()

    @rule(written=st.booleans())
    def muster_restarts(self, written: bool) -> None:
        self.world.restart(written=written)

    def teardown(self) -> None:
        world = self.world
        world.come_to_rest()
        for workload in world.core.state.workloads.values():
            whole = workload.reached(Stage.BOUND) >= (workload.min_member or 0)
            assert not workload.members.started or whole or workload.release.complete, world.stories()
            assert not workload.live or reason_of(workload.reason_state.cause).code not in (
                "Holding",
                "Releasing",
                "Placed",
            ), world.stories()
        assert not world.binds, f"kube-scheduler still waits for {world.binds}\n{world.stories()}"
        known = {pod.uid: pod.node for pod in world.core.state.pods.values()}
        assert known == {pod.uid: pod.node for pod in world.pods.values()}

    def _catch_up(self) -> None:
        """Let Muster see everything, and carry out its nominations."""
        for _ in range(3):
            self.world.deliver(len(self.world.watch))
            self.world.pass_time(0.1)
            self.world.end_writes()

    def _any(self, which: int) -> Pod:
        pods = list(self.world.pods.values())
        return pods[which % len(pods)]


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=180,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
