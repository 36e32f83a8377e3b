"""Preview of preemption: which victims a waiting workload would evict. The preview itself evicts none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from extender.core.causes import Lacks
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Process
from extender.core.limits import Limits, Preempts
from extender.core.preemption.preempt import may_not_preempt
from extender.core.preemption.reservations import preempted_by
from extender.core.preemption.search import Found, VictimSearch
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import Pod
from policies.preemption.victims import Choice, Refusal
from policies.steps import Steps
from policies.words import listed

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview, with the mentions in all texts marked (``policies.model.mentions``).

    ``text``: a sentence for people.
    ``victims``: pairs of a victim's mention and the text of its eviction.
    """

    text: str
    victims: tuple[tuple[str, str], ...] = ()


@dataclass(eq=False)
class PreemptionPreview:
    """Makes previews. ``of`` takes as long as a victim search, and changes nothing.

    ``victims``: the search for people.
    """

    _limits: Limits
    _process: Process
    _pods: Mapping[str, Pod]
    _quotas: Quotas
    _preemptions: Preemptions
    _victims: VictimSearch

    def of(self, workload: Workload, now: float) -> Steps[Preview | None]:
        """The preview for a workload; None if it lacks neither room nor quota, or has changed meanwhile."""
        if (preemption := self._preemptions.under_way.get(workload.key)) is not None:
            victims = ((victim.mention, preemption.why[victim]) for victim in preemption.reservation.victims)
            return Preview("workloads are being evicted for it already; it starts when they are gone", tuple(victims))
        demand = workload.current_demand
        if not isinstance(workload.reason_state.cause, Lacks) or demand is None or demand.shape is None:
            return None
        if why := may_not_preempt(workload, demand):
            return Preview(f"nothing would be evicted for it: {why}")
        try:
            search = yield from self._victims.find(workload, demand, demand.shape, now)
        except PolicyError as error:
            return Preview(f"what would be evicted for it is not known: {error}")
        return None if search is None else self._preview_of(workload, demand.shape, search, now)

    def _preview_of(self, workload: Workload, shape: Shape, search: Found, now: float) -> Preview | None:
        match search.chosen:
            case None:
                queue = self._quotas.queue_of(workload.key)
                named = "its queue" if queue is None else queue.title
                if queue is not None and queue.open:
                    return Preview(f"nothing would be evicted for it: {named} may take no quota from others")
                why = f"spec.preemption of {named} allows no eviction for this quota"
                return Preview(f"nothing would be evicted for it: {why}")
            case Refusal(why):
                return Preview(f"nothing would be evicted for it: {why}")
            case Choice(victims=()):
                return None
            case Choice(victims=victims, why=rules):
                names = listed(victim.mention for victim in search.victims)
                wall = now - self._process.wall_offset
                lost = sum(candidate.lost(wall) for candidate in victims) / _HOUR_S
                pairs = zip(search.victims, victims, strict=True)
                texts = (
                    (who.mention, preempted_by(self._pods, self._quotas, workload, who, rules[candidate.name]))
                    for who, candidate in pairs
                )
                return Preview(
                    f"{self._when(workload, shape, names)}; {lost:.1f} device-hours would be lost", tuple(texts)
                )

    def _when(self, workload: Workload, shape: Shape, names: str) -> str:
        match self._limits.preemption:
            case Preempts.OFF:
                return f"preemption is off; if it were on, {names} would be evicted for it"
            case Preempts.DRY_RUN:
                return f"preemption is a dry run; if it were on, {names} would be evicted for it"
            case Preempts.ON if (failure := self._preemptions.failed_for(workload.key, shape)) is not None:
                again = "not tried again until something changes" if failure.rests_until == inf else "it is tried again"
                return f"{names} would be evicted for it, which failed before: {again}"
            case Preempts.ON:
                return f"about to be evicted for it: {names}"
