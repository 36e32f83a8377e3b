"""Large gangs and a core that plans in slices."""

from __future__ import annotations

from dataclasses import replace

from extender.core.events import PodSeen, Tick
from extender.core.limits import Limits
from policies.model import Pod, Requirement, Selection
from tests.builders import cluster, gang
from tests.core.script import Script
from tests.effort import calls

ONE = Limits(slice_units=1)
NODES = [node for number in range(60) for node in cluster(f"c{number:02}: 5x8")]


def choosy(name: str, count: int, *, terms: int = 1, namespace: str = "default", gpus: int = 9) -> list[Pod]:
    """A gang whose members have distinct affinity each, within the limits of a pod."""
    pods = []
    for number, pod in enumerate(gang(name, count, gpus=gpus)):
        affinity = tuple(
            (Requirement("kubernetes.io/hostname", "NotIn", (f"{name}-{number}", str(term))),) for term in range(terms)
        )
        uid = f"{namespace}-{pod.uid}"
        pods.append(replace(pod, uid=uid, namespace=namespace, selection=Selection(affinity=affinity)))
    return pods


def pinned(pods: list[Pod], *nodes: str) -> list[Pod]:
    pins = [((Requirement("metadata.name", "In", (name,), is_field=True),),) for name in nodes]
    return [replace(pod, selection=Selection(affinity=pin)) for pod, pin in zip(pods, pins, strict=True)]


def appear(script: Script, pods: list[Pod]) -> None:
    """The watch shows them, and nothing is done about it yet."""
    for pod in pods:
        script.pods[pod.uid] = pod
        script.feed(PodSeen(pod))


def step(script: Script) -> None:
    """Run one slice of what is due now."""
    wake = script.core.next_wake()
    assert wake is not None
    script.now = max(script.now, wake)
    script.feed(Tick())


def until_walking(script: Script) -> None:
    """The pass has begun, and has more to do."""
    while not script.core.passes[1]:
        step(script)


def ticks(script: Script) -> list[int]:
    """How many functions each slice calls until nothing is due."""
    costs = []
    while (wake := script.core.next_wake()) is not None and wake <= script.now + 1:
        script.now = max(script.now, wake)
        costs.append(calls(lambda: script.core.handle(Tick(), script.now)))
    return costs
