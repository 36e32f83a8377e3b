"""Jobs as Muster writes them, but for one change that it never makes: the policies have to refuse each."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from devcluster.api import Object
from extender.kube.kinds.change import merge_patch
from tests.integration.extender import MERGE, Extender
from tests.integration.team import Team


def spoilt(obj: Object, path: str, change: Object) -> Object:
    """The object itself, with more at that path of its spec: keys and places in lists, with dots between them."""
    inside: Any = obj["spec"]
    for key in filter(None, path.split(".")):
        inside = inside[int(key)] if key.isdigit() else inside.setdefault(key, {})
    inside.update(deepcopy(change))
    return obj


def check_refused(team: Team, extender: Extender, path: str, changed: Iterable[Object]) -> None:
    """The extender cannot make any of these of the object at that path, which stays as it is."""
    before = team.api.get(path)
    for after in changed:
        extender.refused("PATCH", path, merge_patch(before, after), MERGE)
    assert team.api.get(path) == before
