"""A Muster with a bug that one pod triggers: it ends once, leaves that pod out, and all other workloads go on."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, start_muster
from extender.runtime.quarantine import LEFT_OUT_NOTICE
from policies.model import Pod
from tests.integration.stage import PATIENCE_S, RealStage
from tests.scenarios.pods import bound, gang, whole

FRAGILE = """
from extender.cli.entry import main
from extender.core.apply import PodFacts

record = PodFacts.record

def fails(self, pod, now):
    if ("odd", "true") in pod.labels:
        raise IndexError("index 8 is out of bounds")
    record(self, pod, now)

PodFacts.record = fails
main()
"""


@pytest.fixture(scope="module")
def muster(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    program = tmp_path_factory.mktemp("fragile") / "muster.py"
    program.write_text(FRAGILE)
    running.program = (Path(sys.executable), program)
    running.restart_extender()
    return running


def page(muster: RunningMuster) -> str:
    return httpx.get(f"{muster.url}/readyz", trust_env=False).text


def _at_rest(pod: Pod) -> bool:
    """Whether the pod runs and says that its gang is whole: nothing else is written on it."""
    return pod.phase == "Running" and pod.stamp is not None and pod.stamp.complete


def test_a_bound_member_that_fails_the_core_is_left_out_until_it_changes(
    muster: RunningMuster, stage: RealStage
) -> None:
    stage.add_nodes(4)
    stage.create(*gang("train", 2))
    stage.until(lambda pods: len(pods) == 2 and all(_at_rest(pod) for pod in pods))
    odd = f"{stage.pods_path}/train-0"
    stage.api.patch(odd, {"metadata": {"labels": {"odd": "true"}}})
    assert muster.extender.wait(PATIENCE_S) == 1
    muster.restart_extender()
    assert page(muster) == f"ok\n{LEFT_OUT_NOTICE}: Pod {stage.namespace}/train-0\n"
    assert "leaves it out until it changes" in stage.until_noted("train-0", "LeftOut")

    stage.create(*gang("next", 2))
    stage.until(lambda pods: whole(pods, ["next"], 2) != [])
    muster.restart_extender()
    assert page(muster) == f"ok\n{LEFT_OUT_NOTICE}: Pod {stage.namespace}/train-0\n"

    stage.api.patch(odd, {"metadata": {"labels": {"odd": None}}})
    stage.wait(lambda: page(muster), lambda text: text == "ok\n")
    assert muster.extender.running
    assert len(bound(stage.pods(), "train")) == 2, "nobody was evicted"
