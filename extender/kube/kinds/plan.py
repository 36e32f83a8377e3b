"""The plan of a job as its annotation ``muster.dev/plan`` says it: ``{"podset": "nodeA*4,nodeB*4"}``, by slot index."""

from __future__ import annotations

import json
from itertools import groupby

from policies.model import PlannedNodes

MOST_PODS = 10_000
"""Of one job. The names of so many nodes still fit into one annotation of a pod template."""


def plan_text(plan: PlannedNodes) -> str:
    """Runs of one node are said once. A slot without a node has an empty name."""
    said = {name: ",".join(f"{node}*{len(list(run))}" for node, run in groupby(nodes)) for name, nodes in plan.items()}
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def plan_from(text: str | None) -> PlannedNodes | None:
    """None where there is none, or nobody can have written it by ``plan_text``."""
    try:
        said = json.loads(text or "null")
        if not isinstance(said, dict):
            return None
        plan: dict[str, tuple[str, ...]] = {}
        left = MOST_PODS
        for name, runs in said.items():
            nodes: list[str] = []
            for run in runs.split(",") if runs else ():
                node, _, times = run.rpartition("*")
                left -= int(times)
                if left < 0 or int(times) < 1:
                    return None
                nodes += [node] * int(times)
            plan[name] = tuple(nodes)
    except (ValueError, AttributeError, RecursionError):
        return None
    return plan
