"""All kinds of jobs that are planned before their pods exist."""

from __future__ import annotations

from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import Kind
from extender.kube.objects import Meta

KINDS: tuple[Kind, ...] = (JOB,)
_BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}


def kind_of(version: str, name: str) -> Kind | None:
    """The kind of an object or of an owner, in whichever version of its group."""
    return _BY_NAME.get((version.rpartition("/")[0], name))


def is_outermost(meta: Meta) -> bool:
    """No job of these kinds has made it."""
    makers = (owner for owner in meta.owner_references or () if owner.controller)
    return not any(kind_of(maker.api_version or "", maker.kind or "") for maker in makers)
