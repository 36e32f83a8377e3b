"""The whole cluster at a glance: how many GPUs are used, how many workloads wait and why, and how full queues are."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request, Response

from dashboard.asking import Viewer
from dashboard.pages.queues import bars
from dashboard.pages.rendering import phase, render
from dashboard.pages.sharing import shared
from dashboard.views import Seen
from extender.api.models import DomainStock, QueueView

router = APIRouter()
_QUEUES, _DOMAINS = 12, 8
"""The most queues and domains in the lists; their own pages have all."""


@router.get("/overview")
@shared
async def overview(request: Request, seen: Viewer) -> Response:
    """Return the page. Its counts are of the workloads of all namespaces."""
    totals = seen.totals()
    queues = [queue for queue in seen.queues() if queue.kind == "ClusterQueue"]
    nearest = _nearest(seen)
    return render(
        request,
        seen,
        "overview.html",
        totals=totals,
        phases=_phases(totals.statuses),
        waiting=totals.waiting.most_common(),
        queues=[(queue, bars(queue)) for queue in sorted(queues, key=_fullest)[:_QUEUES]],
        queues_in_all=len(queues),
        domains=sorted(nearest, key=lambda domain: (-domain.free_gpus, domain.name))[:_DOMAINS],
        domains_in_all=len(nearest),
        level=nearest[0].level if nearest else "",
    )


def _phases(statuses: Counter[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for status, count in statuses.items():
        counts[phase(status)] += count
    return counts


def _nearest(seen: Seen) -> list[DomainStock]:
    """Return the domains of the nearest level."""
    domains = [domain for domain in seen.domains() if domain.name]
    return [domain for domain in domains if domain.level == domains[0].level]


def _fullest(queue: QueueView) -> tuple[object, ...]:
    """The order of queues: most waiting workloads first, then the fullest."""
    fullest = max((quota.used / quota.nominal for quota in queue.quotas if quota.nominal), default=0.0)
    return -queue.pending, -fullest, queue.name
