"""The plan that a job is started with: enough nodes, which are open, have room, and keep what is required."""

from __future__ import annotations

from extender.core.effects import StartJob
from policies.model import CLIQUE, PodSets
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits, lets_in, take, tolerating


def judge_plan(effect: StartJob, shown: Shown, podsets: PodSets) -> str | None:
    """What is wrong with it, room aside. ``podsets``: as far as is known of their pods."""
    key, known = effect.job.key, shown.nodes
    for podset in podsets.podsets:
        template = podset.template
        nodes = [node for node in effect.plan.get(podset.name, ()) if node]
        if not min(podset.minimum, podset.size) <= len(nodes) <= podset.size:
            return f"{key} is to be started with {len(nodes)} nodes for {podset}"
        asked = tolerating(template.selection, effect.tolerations.get(podset.name, ()))
        if shut := [node for node in nodes if node not in known or not lets_in(known[node], asked)]:
            return f"{key} is to be started on {shut}, which are closed to it"
        if small := [node for node in nodes if not fits(dict(known[node].allocatable), template.requests)]:
            return f"{key} is to be started on {small}, which its pods do not fit"
        cliques = {known[node].labels.get(CLIQUE) for node in nodes}
        if template.topology.required is not None and (len(cliques) > 1 or None in cliques):
            return f"{key} is to be started in cliques {cliques}"
    if effect.minimum != effect.job.podsets.first_wave:
        return f"{key} is to be started with minMember {effect.minimum}"
    return None


def overfull(effect: StartJob, left: Room, podsets: PodSets) -> str | None:
    """``left``: what there is beside all that others were given. ``podsets``: as far as is known of their pods."""
    for podset in podsets.podsets:
        for node in (node for node in effect.plan.get(podset.name, ()) if node):
            if not fits(left.get(node, {}), podset.template.requests):
                return f"{effect.job.key} is to be started on {node}, where {left.get(node)} is left"
            take(left[node], podset.template.requests)
    return None
