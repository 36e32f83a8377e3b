"""The flavors of a job as its annotation ``muster.dev/flavors`` says them: ``{"podset": {"resource": "flavor"}}``.

Podsets with the same flavors are said together, their names joined with commas, which no such name has: the Jobs of a
JobSet are many. No podset at all says that the job was admitted without quota.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from extender.kube.kinds.plan import MOST_PODS
from extender.kube.reading.annotated import is_identifier, is_resource, json_of
from extender.kube.reading.plain import is_name

Flavors = Mapping[str, Mapping[str, str]]


def flavors_text(flavors: Flavors) -> str:
    """Compact JSON."""
    together: dict[str, list[str]] = {}
    for name in sorted(flavors):
        together.setdefault(_compact(flavors[name]), []).append(name)
    return _compact({",".join(names): json.loads(said) for said, names in together.items()})


def flavors_from(text: str | None) -> Flavors | None:
    """None where there is none, or nobody can have written it by ``flavors_text``."""
    if (said := json_of(text, dict[str, dict[str, str]])) is None or not all(map(_is_assignment, said.values())):
        return None
    podsets = [(name, flavors) for names, flavors in said.items() for name in names.split(",")]
    return dict(podsets) if len(podsets) <= MOST_PODS and all(is_identifier(name) for name, _ in podsets) else None


def _compact(said: object) -> str:
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def _is_assignment(flavors: Mapping[str, str]) -> bool:
    return all(is_resource(resource) and is_name(flavor) for resource, flavor in flavors.items())
