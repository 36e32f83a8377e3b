"""The tutorial of preemption, and the manifests with the component that lets Muster evict pods of no gang."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from devcluster.muster import MANIFESTS
from policies.model import Pod
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gated, pod

PRIORITIES = {"dev": 100, "training": 500, "inference": 10_000}


def with_preemption(folder: Path) -> Path:
    """A kustomization in that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    base, component = (os.path.relpath(MANIFESTS / part, folder) for part in ("base", "components/preemption"))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [base], "components": [component]}))
    return folder


def on(pods: Sequence[Pod], prefix: str) -> list[Pod]:
    """Those with a node whose names begin like that."""
    return [one for one in pods if one.node and one.live and one.name.startswith(prefix)]


class Tutorial:
    """3 nodes of 4 GPUs: four dev pods on the first, a training pod of 4 GPUs on each of the others."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        (self.first,) = stage.add_nodes(1, gpus=4)
        stage.create(
            *(
                pod(f"dev-{number}", gpus=1, priorityClassName="dev", terminationGracePeriodSeconds=2)
                for number in range(4)
            )
        )
        stage.until(lambda pods: len(on(pods, "dev")) == 4)
        stage.add_nodes(2, gpus=4)
        stage.create(*gated("train", 2, gpus=4, priorityClassName="training"))
        stage.until(lambda pods: len(bound(pods, "train")) == 2)

    def until_only_dev_pods_have_gone(self, prefix: str) -> None:
        pods = self.stage.until(lambda pods: len(on(pods, prefix)) == 4)
        assert {one.node for one in on(pods, prefix)} == {self.first}
        assert len(bound(pods, "train")) == 2
        assert not on(pods, "dev")
