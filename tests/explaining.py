"""The explanations of the gangs of a small cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.api.models import Explanation
from extender.core.ledger.state import State
from extender.core.preemption.preview import Preview
from extender.core.workload.workload import Workload
from extender.observe.explain.explanation import explaining, with_all_names
from policies.model import (
    Constraints,
    Node,
    Pod,
    PodGroup,
    Requirement,
    Topology,
)
from policies.steps import finish
from tests.builders import gang, key
from tests.core.script import Script

HOST = "kubernetes.io/hostname"
TRAIN, DATA = ((Requirement("app", "In", (app,)),) for app in ("train", "data"))
CLIQUE_ONLY = Topology(required="clique")


def explain(state: State, workload: Workload, now: float, outlook: Preview | None = None) -> Explanation:
    """Explain the gang as of ``now``, with all names, at once."""
    return with_all_names(finish(explaining(state, workload, now, outlook)))


def explained(name: str, *facts: Node | Pod | PodGroup) -> Explanation:
    script = Script(*facts)
    return explain(script.core.state, script.core.state.workloads[key(name)], script.now)


def running(name: str, nodes: str) -> list[Pod]:
    """A gang that is bound on these nodes."""
    names = nodes.split()
    return [replace(pod, node=where) for pod, where in zip(gang(name, len(names)), names, strict=True)]


def asking(size: int, **asked: Any) -> list[Pod]:
    return gang("wait", size, gpus=1, labels=(("app", "train"),), constraints=Constraints(**asked))
