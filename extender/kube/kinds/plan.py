"""The plan and the flavors of a job, as Muster writes them on its annotations and reads them back.

``muster.dev/plan`` is ``{"podset": "nodeA*4,nodeB*4"}``, by slot index. A job that was started without a plan has the
deadline for its nodes there instead.

``muster.dev/flavors`` is ``{"podset": {"resource": "flavor"}}``. Podsets with the same flavors share an entry, because
a JobSet can have many Jobs. The entry's key joins their names with commas, which no name contains. An empty object
says that the job was admitted without quota.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby

from extender.core.instants import instant_of
from extender.kube.reading.plain import is_identifier, is_name, is_resource, json_of, json_text
from policies.model import InVain, NodeWait, PlannedNodes

MOST_PODS = 10_000
"""Most pods of one job. That many node names still fit into one annotation of a pod template."""

_TIMES = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_AT = r"(?P<at>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
_NUMBER = r"(?P<number>[0-9]{1,6})"
_NODE_WAIT = re.compile(rf"nodes are awaited until {_AT}, attempt {_NUMBER}")
_IN_VAIN = re.compile(rf"no nodes came by attempt {_NUMBER}; none are asked for before {_AT}")


def plan_text(plan: PlannedNodes) -> str:
    """The plan as JSON. Runs of one node are written once; a slot without a node has an empty name."""
    runs = {name: ",".join(f"{node}*{len(list(run))}" for node, run in groupby(nodes)) for name, nodes in plan.items()}
    return json_text(runs)


def plan_from(text: str | None) -> PlannedNodes | None:
    """Parse the plan; None if there is none or ``plan_text`` cannot have written it."""
    if (podsets := json_of(text, dict[str, str])) is None:
        return None
    plan: dict[str, tuple[str, ...]] = {}
    left = MOST_PODS
    for name, runs in podsets.items():
        nodes: list[str] = []
        for run in runs.split(",") if runs else ():
            node, _, times = run.rpartition("*")
            if not _TIMES.fullmatch(times) or (node and not is_name(node)):
                return None
            if (left := left - int(times)) < 0:
                return None
            nodes += [node] * int(times)
        if not is_identifier(name):
            return None
        plan[name] = tuple(nodes)
    return plan


def node_wait_text(node_wait: NodeWait) -> str:
    """The deadline for nodes, to the second. ``plan_from`` rejects this text."""
    return f"nodes are awaited until {_instant(node_wait.until)}, attempt {node_wait.attempt}"


def node_wait_from(text: str | None) -> NodeWait | None:
    """Parse the deadline for nodes; None if ``node_wait_text`` cannot have written it."""
    instant_and_number = _instant_and_number(_NODE_WAIT, text)
    return None if instant_and_number is None else NodeWait(*instant_and_number)


def in_vain_text(in_vain: InVain) -> str:
    """The back-off after starts without nodes, to the second."""
    return f"no nodes came by attempt {in_vain.attempts}; none are asked for before {_instant(in_vain.until)}"


def in_vain_from(text: str | None) -> InVain | None:
    """Parse the back-off; None if ``in_vain_text`` cannot have written it."""
    instant_and_number = _instant_and_number(_IN_VAIN, text)
    return None if instant_and_number is None else InVain(*instant_and_number)


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _instant_and_number(pattern: re.Pattern[str], text: str | None) -> tuple[float, int] | None:
    """The instant in seconds since the epoch, and the attempt, which counts from 1."""
    match = pattern.fullmatch(text or "")
    at = instant_of(match["at"]) if match is not None else None
    if match is None or at is None or not (number := int(match["number"])):
        return None
    return at, number


Flavors = Mapping[str, Mapping[str, str]]


def flavors_text(flavors: Flavors) -> str:
    """The flavors as compact JSON."""
    together: dict[str, list[str]] = {}
    for name in sorted(flavors):
        together.setdefault(json_text(flavors[name]), []).append(name)
    return json_text({",".join(names): json.loads(text) for text, names in together.items()})


def flavors_from(text: str | None) -> Flavors | None:
    """Parse the flavors; None if there are none or ``flavors_text`` cannot have written them."""
    if (flavors_by_podset := json_of(text, dict[str, dict[str, str]])) is None or not all(
        map(_is_assignment, flavors_by_podset.values())
    ):
        return None
    podsets = [(name, flavors) for names, flavors in flavors_by_podset.items() for name in names.split(",")]
    return dict(podsets) if len(podsets) <= MOST_PODS and all(is_identifier(name) for name, _ in podsets) else None


def _is_assignment(flavors: Mapping[str, str]) -> bool:
    return all(is_resource(resource) and is_name(flavor) for resource, flavor in flavors.items())
