"""Random courses of devices, claims and gangs: no device is ever promised twice, whatever kube-scheduler chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from extender.core.events import DeviceClaimGone, SliceGone
from policies.model import Pod
from policies.model.devices import ClaimRequest, DeviceRequest
from tests.builders import cluster
from tests.core.devices import CLASS, LARGE, claim, devices, request, template, with_template
from tests.core.script import Script
from tests.policies.devices.vendors import NVIDIA

NODES = ("a-0", "a-1", "b-0")
EITHER = ClaimRequest("gpu", (DeviceRequest(NVIDIA, (LARGE,)), DeviceRequest(NVIDIA)))
SMALL = "!" + LARGE
TEMPLATES: dict[str, tuple[ClaimRequest, Callable[[str], bool], int]] = {
    "any": (request(), lambda _: True, 1),
    "two": (request(2), lambda _: True, 2),
    "large": (request(1, LARGE), lambda kind: kind == "h100", 1),
    "small": (request(1, SMALL), lambda kind: kind == "a100", 1),
    "either": (EITHER, lambda _: True, 1),
}
ANY = "devices/gpu.nvidia.com"
KINDS = st.lists(st.sampled_from(["h100", "a100"]), max_size=4)


class Courses(RuleBasedStateMachine):
    """The state of the world beside the core: the devices of each slice, and the devices that each claim holds."""

    @initialize()
    def begin(self) -> None:
        self.script = Script(*cluster("a: 2x0", "b: 1x0"))
        self.script.feed(CLASS)
        for name, (requested, _, _) in TEMPLATES.items():
            self.script.feed(template(requested, name=name))
        self.slices: dict[str, list[str]] = {}
        self.gangs: dict[str, tuple[str, list[Pod]]] = {}
        self.held: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.made = 0

    @rule(node=st.sampled_from(NODES), kinds=KINDS)
    def publish(self, node: str, kinds: list[str]) -> None:
        self.slices[node] = [f"{kind}-{number}" for number, kind in enumerate(kinds)]
        self.feed(devices(node, *kinds))

    @precondition(lambda self: self.slices)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.slices)))
        del self.slices[node]
        self.feed(SliceGone(node))

    @rule(kind=st.sampled_from(sorted(TEMPLATES)), size=st.integers(1, 3))
    def submit(self, kind: str, size: int) -> None:
        self.made += 1
        name = f"g{self.made}"
        self.gangs[name] = kind, with_template(name, size, kind)
        self.script.see(self.gangs[name][1])
        self.check()

    @precondition(lambda self: self.gangs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        _, pods = self.gangs.pop(data.draw(st.sampled_from(sorted(self.gangs))))
        self.script.gone(*pods)
        for pod in pods:
            if self.held.pop(pod.uid, None) is not None:
                self.feed(DeviceClaimGone("default", f"{pod.name}-gpu"))
        self.check()

    @precondition(lambda self: self.promised())
    @rule(data=st.data())
    def allocate(self, data: st.DataObject) -> None:
        """Let kube-scheduler give a pod matching devices on its node, whatever Muster has planned."""
        uid = data.draw(st.sampled_from(sorted(self.promised())))
        pod, node = self.script.core.state.pods[uid], self.script.core.state.claims.get(uid)
        assert node is not None
        _, matches, count = TEMPLATES[pod.device_claims[0].template]
        free = [device for device in self.free(node.node) if matches(device.partition("-")[0])]
        if len(free) < count:
            return
        chosen = tuple(data.draw(st.permutations(free))[:count])
        self.held[uid] = node.node, chosen
        self.feed(
            claim(
                f"{pod.name}-gpu", TEMPLATES[pod.device_claims[0].template][0], pod=pod, node=node.node, devices=chosen
            )
        )

    @precondition(lambda self: self.gangs)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        """A gang of which every pod has its devices is bound."""
        _, pods = self.gangs[data.draw(st.sampled_from(sorted(self.gangs)))]
        if all(pod.uid in self.held and pod.uid in self.promised(allocated=True) for pod in pods):
            self.script.run([self.script.pods[pod.uid] for pod in pods])
            self.check()

    def feed(self, event: object) -> None:
        self.script.feed(event)  # type: ignore[arg-type]
        self.script.advance(3.0)
        self.check()

    def promised(self, *, allocated: bool = False) -> list[str]:
        promises = [
            (owner, claim)
            for owner, claim in self.script.core.state.claims
            if isinstance(owner, str) and claim.promised
        ]
        return [owner for owner, _ in promises if (owner in self.held) is allocated]

    def free(self, node: str) -> list[str]:
        taken = {device for where, taken_there in self.held.values() for device in taken_there if where == node}
        return [device for device in self.slices.get(node, ()) if device not in taken]

    def check(self) -> None:
        """Check the promises on each node.

        All pods with promised room and without devices can get some. The rest is counted as free, for all devices of
        bound pods.
        """
        devices = self.script.core.state.devices
        for node in NODES:
            waiting = [
                self.script.core.state.pods[owner].device_claims[0].template
                for owner, claim in self.script.core.state.claims.on(node)
                if isinstance(owner, str) and claim.promised and owner not in self.held
            ]
            assert self.given(waiting, self.free(node)), f"{waiting} on {node}, which has {self.free(node)}"
            if devices.settled and ANY in devices.lines:
                left = len(self.free(node)) - sum(TEMPLATES[name][2] for name in waiting)
                assert self.script.core.state.claims.room(node).get(ANY, 0) == left

    def given(self, waiting: list[str], free: list[str]) -> bool:
        """Whether all waiting pods can get devices, by trying every choice."""
        if not waiting:
            return True
        _, matches, count = TEMPLATES[waiting[0]]
        first, *rest = [device for device in free if matches(device.partition("-")[0])] or [""]
        if not first:
            return False
        kinds = {device.partition("-")[0]: device for device in [first, *rest]}
        for device in kinds.values():
            left = [other for other in free if other != device]
            if count == 1:
                if self.given(waiting[1:], left):
                    return True
                continue
            again = {device.partition("-")[0]: device for device in left}
            if any(self.given(waiting[1:], [device for device in left if device != other]) for other in again.values()):
                return True
        return False


TestCourses = Courses.TestCase
TestCourses.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@given(st.permutations(sorted(TEMPLATES)))
@settings(max_examples=10, deadline=None)
def test_templates_that_come_after_the_pods_count_the_same(order: list[str]) -> None:
    script = Script(*cluster("a: 2x0"))
    script.feed(CLASS)
    script.feed(devices("a-0", "h100", "a100", "h100"))
    for name in order:
        script.see(with_template(f"g-{name}", 1, name))
    for name in order:
        script.feed(template(TEMPLATES[name][0], name=name))
    script.advance(5.0)
    placed = [name for name in order if script.planned(script.pods[f"uid-g-{name}-0"])]
    assert sum(TEMPLATES[name][2] for name in placed) == 3


def test_a_large_device_that_a_small_request_takes_is_noticed() -> None:
    script = Script(*cluster("a: 1x0"))
    for event in (CLASS, devices("a-0", "h100", "a100"), template(request(), name="any")):
        script.feed(event)
    script.feed(template(request(1, LARGE), name="large"))
    any_, large = with_template("any", 1, "any"), with_template("large", 1, "large")
    script.see(any_, large)
    assert script.planned(any_[0])
    assert script.planned(large[0])
    script.feed(claim("any-0-gpu", request(), pod=replace(any_[0]), node="a-0", devices=("h100-0",)))
    script.advance(1.0)
    assert script.reason("large") == "NoRoom"
