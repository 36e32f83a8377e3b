"""The flavors of a job as its annotation ``muster.dev/flavors`` says them: ``{"podset": {"resource": "flavor"}}``.

Podsets with the same flavors are said together, their names joined with commas, which no such name has: the Jobs of a
JobSet are many. No podset at all says that the job was admitted without quota.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from extender.kube.kinds.plan import MOST_PODS

Flavors = Mapping[str, Mapping[str, str]]

MOST_BYTES = 256 << 10
"""Of a text that is read: as much as all annotations of an object may have."""


def flavors_text(flavors: Flavors) -> str:
    """Compact JSON."""
    together: dict[str, list[str]] = {}
    for name in sorted(flavors):
        together.setdefault(_compact(flavors[name]), []).append(name)
    return _compact({",".join(names): json.loads(said) for said, names in together.items()})


def flavors_from(text: str | None) -> Flavors | None:
    """None where there is none, or nobody can have written it by ``flavors_text``."""
    try:
        said = json.loads(text or "null") if len(text or "") <= MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not all(map(_is_assignment, said.values())):
        return None
    found = {name: flavors for names, flavors in said.items() for name in names.split(",")}
    return found if len(found) <= MOST_PODS else None


def _compact(said: object) -> str:
    return json.dumps(said, sort_keys=True, separators=(",", ":"))


def _is_assignment(said: object) -> bool:
    return isinstance(said, dict) and all(isinstance(flavor, str) for flavor in said.values())
