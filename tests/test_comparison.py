"""Advisory mode compares with enforcing: GPUs that would not be idle, and domains that would not be used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from extender.core.gate.advisory import Mode
from extender.observe.metrics import Metrics
from policies.model import Pod
from tests.builders import busy, cluster, gang, node, reborn
from tests.core.script import Script

BLOCK = "cloud.google.com/gce-topology-block"


def told(script: Script, name: str, **labels: str) -> float:
    text = Metrics(lambda: script.core.state).render().decode()
    samples = [sample for family in parsed(text) for sample in family.samples if sample.name == name]
    return next(sample.value for sample in samples if sample.labels == labels)


def bind(script: Script, pods: list[Pod], nodes: str) -> None:
    for pod, name in zip(pods, nodes.split(), strict=True):
        script.bind(pod, name)
        script.post_all()


def test_gpus_of_a_gang_that_cannot_run_are_counted_until_it_can() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 2x8"), *pods, mode=Mode.ADVISE)
    bind(script, pods[:2], "a-0 a-1")
    assert told(script, "muster_stranded_gpus") == 16
    script.see(node("late"))
    bind(script, pods[2:], "late")
    assert told(script, "muster_stranded_gpus") == 0
    script.gone(script.pods[pods[0].uid])
    assert told(script, "muster_stranded_gpus") == 0, "a gang that has run has lost a member: that is another story"


def test_a_gang_that_kube_scheduler_tore_apart_uses_more_domains_than_it_was_advised() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8", "b: 2x8"), *busy("b-0", 8), *pods, mode=Mode.ADVISE)
    bind(script, pods, "a-0 b-1")
    assert told(script, "muster_advisory_domains", level="clique", placement="used") == 2
    assert told(script, "muster_advisory_domains", level="clique", placement="advised") == 1


def test_a_gang_that_nobody_advised_is_compared_with_nothing() -> None:
    for mode, running in ((Mode.ENFORCE, False), (Mode.ADVISE, True)):
        pods = gang("train", 2)
        seen = [replace(pod, node=f"{'ab'[pod.index or 0]}-0") for pod in pods] if running else pods
        script = Script(*cluster("a: 2x8", "b: 2x8"), *seen, mode=mode)
        if not running:
            script.run(pods)
        assert script.reason("train") == "Running"
        for placement in ("used", "advised"):
            assert told(script, "muster_advisory_domains", level="clique", placement=placement) == 0


def test_a_replaced_member_is_compared_with_the_advice_for_the_replacement() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8", "b: 2x8"), *pods, mode=Mode.ADVISE)
    bind(script, pods, "a-0 a-1")
    again = reborn(pods[1])
    script.gone(script.pods[pods[1].uid])
    script.see(again)
    bind(script, [again], "b-0")
    assert told(script, "muster_advisory_domains", level="clique", placement="used") == 2
    assert told(script, "muster_advisory_domains", level="clique", placement="advised") == 1


@pytest.mark.parametrize(("blocks", "torn"), [("xx", 0), ("xy", 1)])
def test_labels_that_contradict_nesting_are_counted(blocks: str, torn: int) -> None:
    nodes = [node(f"n{block}{at}", clique="a", labels={BLOCK: block}) for at, block in enumerate(blocks)]
    assert told(Script(*nodes), "muster_topology_contradictions", level="clique") == torn
