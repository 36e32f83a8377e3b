"""The members of a gang once they have nodes, and how many each node has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from policies.model import Pod
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound


def started(stage: RealStage, name: str, size: int) -> list[Pod]:
    """The members, once ``size`` of them have a node."""
    return bound(stage.until(lambda pods: len(bound(pods, name)) == size), name)


def started_at_once(stage: RealStage, name: str, size: int) -> list[Pod]:
    """The members, once ``size`` of them have a node, by the first plan, which kube-scheduler has not refused."""
    pods = started(stage, name, size)
    story = [text for _, text in stage.gangs()[name].story]
    assert not any("forgotten" in text.lower() for text in story), story
    return pods


def per_node(pods: Sequence[Pod]) -> list[int]:
    return sorted(Counter(member.node for member in pods).values())
