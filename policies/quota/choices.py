"""One assignment of flavors after another, in the order of the queue: the next one is asked for where the nodes of the
last one had no room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.model.queues import ClusterQueue, ResourceFlavor
from policies.quota.flavors import Assignment, Fit, Flavors, Preempts, nobody
from policies.quota.parts import PodSetRequest
from policies.quota.tree import QuotaTree


class Choices:
    """``refused``: by podset and flavor, why it is not to be chosen; what is in it from the start stays there.
    ``preempts``: what preempting gives, where flavors will do that others have to give way for. ``fair``, ``later``: as
    in ``Flavors``."""

    def __init__(
        self,
        tree: QuotaTree,
        flavors: Mapping[str, ResourceFlavor],
        queue: ClusterQueue,
        refused: Mapping[tuple[str, str], str] | None = None,
        preempts: Preempts | None = None,
        *,
        fair: bool = False,
        later: QuotaTree | None = None,
    ) -> None:
        self.refused = dict(refused or {})
        self._always = tuple(self.refused)
        self._queue = queue
        self._kept: dict[tuple[str, int], str] = {}
        """By podset and group of resources, the flavors of those before the one that gets another flavor."""
        self._ended: tuple[int, Assignment] | None = None
        """For how much all were tried, and the end that was found then."""
        self._least = Fit.FITS if preempts is None else Fit.PREEMPT
        self._flavors = Flavors(tree, flavors, self._why_not, preempts or nobody, fair=fair, later=later)
        self._group_of = {name: number for number, group in enumerate(queue.groups) for name, _ in group.flavors}

    def first(self, podsets: Sequence[PodSetRequest]) -> Assignment:
        """The best that there is quota for; else what keeps it. When all were tried, the end that ``after`` has found;
        for fewer pods there may be quota of other flavors."""
        if self._ended is not None and _amount(podsets) >= self._ended[0]:
            return self._ended[1]
        return self._flavors.assign(self._queue, podsets)

    def after(self, tried: Assignment, podsets: Sequence[PodSetRequest], why: str) -> Assignment:
        """The next one, because there is no room for that one: another flavor for the last podset that has one."""
        pairs = [*dict.fromkeys((name, flavor) for name, some in tried.flavors.items() for flavor in some.values())]
        found, several = tried, len(pairs) > 1
        while pairs:
            podset, flavor = pairs.pop()
            self.refused[podset, flavor] = why
            self._kept = {(name, self._group_of[one]): one for name, one in pairs}
            found = self.first(podsets)
            self._kept = {}
            if self.will_do(found):
                return found
            if several:
                self._allow(podset, self._group_of[flavor])
        end = found if not self.will_do(found) else Assignment(Fit.NO_CANDIDATES, text=why)
        self._ended = _amount(podsets), end
        return end

    def will_do(self, found: Assignment) -> bool:
        """Whether it is one that was asked for."""
        return found.fit >= self._least

    def _why_not(self, podset: PodSetRequest, flavor: ResourceFlavor) -> str:
        if self._kept.get((podset.name, self._group_of[flavor.name]), flavor.name) != flavor.name:
            return "another one is kept while those of later podsets change"
        return self.refused.get((podset.name, flavor.name), "")

    def _allow(self, podset: str, group: int) -> None:
        """What was refused only in company with the flavors of others may be chosen again with other ones."""
        for name, flavor in list(self.refused):
            if (name, flavor) not in self._always and name == podset and self._group_of[flavor] == group:
                del self.refused[name, flavor]


def _amount(podsets: Sequence[PodSetRequest]) -> int:
    """Of all resources together: it grows with each pod."""
    return sum(one.count * sum(one.requests.values()) for one in podsets)
