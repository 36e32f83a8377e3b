"""The story of a run, for people: a line for each event."""

from __future__ import annotations

from extender.core.events import FilterCalled, PodsSeen, PreemptCalled
from policies.model import Pod

Entry = tuple[float, str, object]
"""Seconds since the beginning, the actor, and the event."""


def told(entry: Entry) -> str:
    """The line of an entry, or some lines when the core was involved."""
    at, who, what = entry
    match what:
        case Pod():
            facts = {
                "node": what.node,
                "nominated": what.nominated_node,
                "phase": what.phase,
                "deleting": what.deleting,
                "gates": what.gates,
                "refusal": what.refusal,
                "gang": what.group.name if what.group else None,
            }
            text = f"pod {what.uid} " + ", ".join(f"{name} {fact}" for name, fact in facts.items() if fact)
        case (event, list() as effects):
            text = _saw(event) + "".join(f"\n            -> {effect}" for effect in effects)
        case _:
            text = f"{what}"
    return f"{at:10.4f} {who:5} {text}"


def _saw(event: object) -> str:
    """The event in words. The line of the API server has shown the details of a pod."""
    match event:
        case PodsSeen(pods):
            return f"saw {', '.join(pod.uid for pod in pods)}"
        case FilterCalled(call, pod, candidates):
            return f"filter, call {call}: may {pod.uid} go to {', '.join(candidates)}"
        case PreemptCalled(call, pod, victims):
            return f"preempt, call {call}: may {pod.uid} take the place of {dict(victims)}"
    return f"{event}"
