"""The queues as a tree: cohorts, ClusterQueues in them, and LocalQueues that lead there, each with its quota."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fastapi import APIRouter, Request, Response

from dashboard.asking import Viewer
from dashboard.pages.rendering import render
from dashboard.pages.sharing import shared
from extender.api.models import QueueView, QuotaView
from policies.words import natural

router = APIRouter()
_KINDS = {"Cohort": "Cohort", "ClusterQueue": "Cohort", "LocalQueue": "ClusterQueue"}
"""Kind -> the kind of its parent."""
_SHOWN = 500
"""The most queues that are drawn."""


@dataclass
class Branch:
    """A queue, its bars, and the queues below it."""

    queue: QueueView
    bars: list[Bar]
    below: list[Branch] = field(default_factory=list)


@dataclass(frozen=True)
class Bar:
    """A quota as a bar. ``scale``: the amount that its whole width means."""

    quota: QuotaView
    scale: int

    @property
    def own(self) -> int:
        """The used part of its own quota."""
        return self.quota.used - self.quota.borrowed

    @property
    def left(self) -> int:
        """The part of its own quota that is neither used nor lent."""
        return max(0, self.quota.nominal - self.own - self.quota.lent)


@router.get("/queues")
@shared
async def queues(request: Request, seen: Viewer) -> Response:
    """Return the tree, of the parameter ``text``: the queues that have it in their name, with those above them."""
    text = request.query_params.get("text", "")[:200]
    every = seen.queues()
    chosen = _with_those_above(every, text.lower().split())
    tree = grow(chosen[:_SHOWN])
    return render(
        request, seen, "queues.html", tree=tree, text=text, total=len(every), left_out=max(0, len(chosen) - _SHOWN)
    )


def bars(queue: QueueView) -> list[Bar]:
    """The quotas that limit something or are used: of GPUs alone, if there are any of these."""
    known = [quota for quota in queue.quotas if quota.nominal or quota.used]
    gpus = [quota for quota in known if quota.resource.endswith("/gpu")]
    return [Bar(quota, max(quota.nominal, quota.used + quota.lent, 1)) for quota in gpus or known]


def grow(queues: Sequence[QueueView]) -> list[Branch]:
    """Return the trees that the queues make, by name. What is in a circle of cohorts stands by itself."""
    branches = {(queue.kind, queue.namespace, queue.name): Branch(queue, bars(queue)) for queue in queues}
    roots = []
    for branch in sorted(branches.values(), key=lambda entry: (natural(entry.queue.name), entry.queue.namespace)):
        above = branches.get((_KINDS[branch.queue.kind], "", branch.queue.parent))
        if above is None or _reaches(above, branch, branches):
            roots.append(branch)
        else:
            above.below.append(branch)
            branch.bars = [replace(bar, scale=_scale(bar, above)) for bar in branch.bars]
    return roots


def _scale(bar: Bar, above: Branch) -> int:
    """The scale of a bar. A LocalQueue has no quota of its own: it is drawn on the scale of its ClusterQueue."""
    same = [
        other.scale
        for other in above.bars
        if (other.quota.flavor, other.quota.resource) == (bar.quota.flavor, bar.quota.resource)
    ]
    return bar.scale if bar.quota.nominal else max([bar.scale, *same])


def _reaches(branch: Branch | None, sought: Branch, branches: dict[tuple[str, str, str], Branch]) -> bool:
    """Whether the way up from a branch leads to the other one, or into a circle."""
    passed: list[Branch] = []
    while branch is not None:
        if branch is sought or any(branch is earlier for earlier in passed):
            return True
        passed.append(branch)
        branch = branches.get((_KINDS[branch.queue.kind], "", branch.queue.parent))
    return False


def _with_those_above(queues: Sequence[QueueView], words: Sequence[str]) -> list[QueueView]:
    by_key = {(queue.kind, queue.namespace, queue.name): queue for queue in queues}
    wanted = set()
    for key, queue in by_key.items():
        if all(word in f"{queue.namespace}/{queue.name}".lower() for word in words):
            above: QueueView | None = queue
            while above is not None and key not in wanted:
                wanted.add(key)
                key = (_KINDS[above.kind], "", above.parent)
                above = by_key.get(key)
    return [queue for key, queue in by_key.items() if key in wanted]
