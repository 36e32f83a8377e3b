"""Choose the flavor of each podset and resource, explain what limits the choice, and give the next assignment.

The rules are those of Kueue (``pkg/scheduler/flavorassigner`` at ff69552e79). One difference is on purpose: a flavor
counts as fitting only if the workload can be placed on its nodes. Where the nodes of one assignment have no room,
``Choices`` gives the next one, in the order of the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Generic, TypeVar

from policies.model.node import Node, Selection
from policies.model.queues import (
    ClusterQueue,
    Evicts,
    FlavorResource,
    Fungibility,
    Preference,
    Quota,
    ResourceFlavor,
    Search,
    Usage,
)
from policies.placement.matching import admits
from policies.quota.parts import FlavorRequest, PodSetRequest, flavor_requests, in_groups
from policies.quota.tree import QuotaTree
from policies.steps import Steps, finish, quickly


def suits(flavor: ResourceFlavor, selection: Selection) -> bool:
    """Whether a pod with this selection may use nodes of the flavor.

    Of its selector and required affinity only the labels that the flavor has count; the nodes decide about other
    labels. A term without such labels admits the pod.
    """
    if not flavor.node_labels and not flavor.taints and selection.affinity != ():
        return True
    labels = flavor.node_labels
    selector = tuple((key, value) for key, value in selection.node_selector if key in labels)
    affinity = selection.affinity
    if affinity is not None:
        terms = tuple(
            tuple(requirement for requirement in term if not requirement.is_field and requirement.key in labels)
            for term in affinity
        )
        affinity = terms if all(terms) else None
    selection_there = Selection(selector, affinity, (*selection.tolerations, *flavor.tolerations))
    return admits(Node(flavor.name, (), labels, flavor.taints), selection_there)


def unsuited(flavor: ResourceFlavor, selection: Selection) -> str:
    """Explain why a pod with this selection may not use nodes of the flavor; empty if it may."""
    if suits(flavor, selection):
        return ""
    tolerant = Selection(tolerations=(*selection.tolerations, *flavor.tolerations))
    for taint in flavor.taints:
        if not admits(Node(flavor.name, (), {}, (taint,)), tolerant):
            value = f"={taint.value}" if taint.value else ""
            return f"they do not tolerate its taint {taint.key}{value}:{taint.effect}"
    for key, value in selection.node_selector:
        if (has := flavor.node_labels.get(key, value)) != value:
            return f"they select {key}={value}, and its label is {has}"
    return "their required node affinity rules out its labels"


_NO_NODES = "no node of it has room"
_LOOKS = 64
"""The most calls for offers while flavors of several podsets are combined, once the best ones do not fit together."""


class Fit(IntEnum):
    """How a request can be met; the higher, the better."""

    NONE = 0
    """Not even with victims."""
    NO_CANDIDATES = 1
    """Other workloads use the quota, and none of them may be preempted."""
    PREEMPT = 2
    RECLAIM = 3
    """Preempting only workloads that have borrowed the quota is enough."""
    FITS = 4


class Lack(IntEnum):
    """Why a request cannot be met; the higher, the graver."""

    NOTHING = 0
    NODES = 1
    """The quota is enough, but the nodes are not."""
    QUOTA = 2
    """Other workloads use the quota."""
    EXCEEDS = 3
    """The request is more than the queue can ever have."""
    NO_FLAVOR = 4
    """No flavor suits the pods."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer of one flavor to a podset: how it fits, how far away the quota is borrowed, and what is lacking."""

    flavor: str
    fit: Fit
    level: int = 0
    lack: Lack = Lack.NOTHING
    text: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The flavors of a workload.

    ``flavors``: by podset and resource.
    ``usage``: the amounts that it adds to the queue's usage.
    ``level``: the farthest borrowing.
    ``text``: one sentence about what is lacking.
    ``counts``: the number of pods of each podset, if not all of them.
    """

    fit: Fit
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)
    level: int = 0
    lack: Lack = Lack.NOTHING
    text: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


Places = Callable[[PodSetRequest, ResourceFlavor], str]
"""Explains why the podset cannot be placed on the nodes of the flavor; empty if it can."""
Preempts = Callable[[ClusterQueue, FlavorResource, int], Steps[tuple[Fit, int]]]
"""Returns how preempting gives a queue this amount of a flavor and resource, and how far away it borrows then."""
Later = Callable[[], AbstractContextManager[QuotaTree]]
"""Opens a block in which the tree is another one, or is changed; all changes are undone at its end."""


def no_place_needed(_podset: PodSetRequest, _flavor: ResourceFlavor) -> str:
    """Accept every podset: quota alone decides."""
    return ""


def nobody(_queue: ClusterQueue, _what: FlavorResource, _amount: int) -> Steps[tuple[Fit, int]]:
    """Find no victims: no workload may be preempted."""
    return quickly((Fit.NO_CANDIDATES, 0))


class Flavors:
    """The choice of flavors for one workload.

    ``flavors``: all existing ones, by name.
    ``places``, ``preempts``: questions to the planner; by default every podset has room, and no workload is preempted.
    ``fair``: whether queues are compared by their shares.
    ``later``: opens a block in which the tree is as it will be once victims have gone and their preemptors have
    started. Quota is available if it is so both now and later.
    """

    def __init__(
        self,
        tree: QuotaTree,
        flavors: Mapping[str, ResourceFlavor],
        places: Places = no_place_needed,
        preempts: Preempts = nobody,
        *,
        fair: bool = False,
        later: Later | None = None,
    ) -> None:
        self._tree = tree
        self._later = later
        self._flavors = flavors
        self._places = places
        self._preempts = preempts
        self._fair = fair

    def assign(self, queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> Assignment:
        """Run ``assigning`` at once."""
        return finish(self.assigning(queue, podsets))

    def assigning(self, queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> Steps[Assignment]:
        """Assign a flavor to every resource of every podset. The steps are those of ``preempts``.

        Resources that the queue does not cover are left out; the caller checks whether that is allowed. If the best
        flavors of the first podsets leave none for the others, and preempting does not help, other flavors are tried
        for all of them together.
        """
        parts, offers, taken = flavor_requests(queue, podsets), list[Offer](), Counter[FlavorResource]()
        for request in parts:
            offers.append((yield from self._best(queue, request, taken)))
            if offers[-1].fit is Fit.NONE:
                break
            request.take(taken, offers[-1].flavor)
        if len(podsets) > 1 and min((offer.fit for offer in offers), default=Fit.FITS) < Fit.PREEMPT:
            offers = (yield from self._together(queue, parts)) or offers
        return _assigned(podsets, parts, offers)

    def _together(self, queue: ClusterQueue, parts: Sequence[FlavorRequest]) -> Steps[list[Offer] | None]:
        """Offers, one for each part, that all fit beside each other; None if none are found."""
        looks = 0

        def fitting(at: int, taken: Counter[FlavorResource]) -> Steps[list[Offer] | None]:
            nonlocal looks
            if at == len(parts):
                return []
            looks += 1
            offers = yield from self._fitting(queue, parts[at], taken)
            if queue.fungibility.when_can_borrow is Search.NEXT:
                offers.sort(key=lambda offer: offer.level)
            for offer in offers:
                if looks >= _LOOKS:
                    break
                beside = taken.copy()
                parts[at].take(beside, offer.flavor)
                if (others := (yield from fitting(at + 1, beside))) is not None:
                    return [offer, *others]
            return None

        for request in parts:
            if not (yield from self._fits_alone(queue, request)):
                return None
        return (yield from fitting(0, Counter()))

    def _fitting(
        self, queue: ClusterQueue, request: FlavorRequest, taken: Mapping[FlavorResource, int]
    ) -> Steps[list[Offer]]:
        """All offers that fit, in the order of the queue."""
        offers: list[Offer] = []
        for name, quotas in request.group.flavors:
            offer = yield from self._offer(queue, name, quotas, request, taken)
            if offer.fit is Fit.FITS:
                offers.append(offer)
        return offers

    def _fits_alone(self, queue: ClusterQueue, request: FlavorRequest) -> Steps[bool]:
        """Whether any flavor has quota for the request without the others."""
        for name, quotas in request.group.flavors:
            if (yield from self._offer(queue, name, quotas, request, {})).fit is Fit.FITS:
                return True
        return False

    def _best(self, queue: ClusterQueue, request: FlavorRequest, taken: Mapping[FlavorResource, int]) -> Steps[Offer]:
        """The offer at which the search may end, else the best of all, in the order of the queue."""
        best: Offer | None = None
        for name, quotas in request.group.flavors:
            offer = yield from self._offer(queue, name, quotas, request, taken)
            if _is_enough(offer, queue.fungibility):
                return offer
            if best is None or _is_better(offer, best, queue.fungibility):
                best = offer
        return best or Offer("", Fit.NONE, lack=Lack.NO_FLAVOR, text=f"queue {queue.name} has no flavor")

    def _offer(
        self,
        queue: ClusterQueue,
        name: str,
        quotas: Mapping[str, Quota],
        request: FlavorRequest,
        taken: Mapping[FlavorResource, int],
    ) -> Steps[Offer]:
        """The worst offer over the resources of a part; if that can be had, also whether nodes have room."""
        if (flavor := self._flavors.get(name)) is None:
            return Offer(name, Fit.NONE, lack=Lack.NO_FLAVOR, text=f"flavor {name} does not exist")
        if why := next(filter(None, (unsuited(flavor, podset.selection) for podset in request.podsets)), ""):
            text = f"its pods do not go to nodes of flavor {name}: {why}"
            return Offer(name, Fit.NONE, lack=Lack.NO_FLAVOR, text=text)
        worst = Offer(name, Fit.FITS)
        for resource, amount in request.requests.items():
            what = name, resource
            if resource not in quotas:
                text = f"queue {queue.name} has no quota for {resource} of flavor {name}"
                return Offer(name, Fit.NONE, lack=Lack.EXCEEDS, text=text)
            offer = yield from self._of_one(queue, what, amount + taken.get(what, 0), quotas[resource])
            worst = _worst(worst, offer)
        for podset in request.podsets if worst.fit > Fit.NO_CANDIDATES else ():
            if text := self._places(podset, flavor):
                return Offer(name, Fit.NO_CANDIDATES, worst.level, Lack.NODES, text)
        return worst

    def _of_one(self, queue: ClusterQueue, what: FlavorResource, amount: int, quota: Quota) -> Steps[Offer]:
        flavor, resource = what
        node = self._tree.queues[queue.name]
        potential, left = node.potential(what), max(0, node.left(what))
        if self._later is not None:
            with self._later() as later:
                left = max(0, min(left, later.queues[queue.name].left(what)))
        if amount > potential:
            text = f"queue {queue.name} can have {potential} {resource} of flavor {flavor}, and it asks for {amount}"
            return Offer(flavor, Fit.NONE, lack=Lack.EXCEEDS, text=text)
        if amount <= left:
            return Offer(flavor, Fit.FITS, self._tree.level(queue.name, what, amount)[0])
        with nullcontext(self._tree) if self._later is None else self._later() as later:
            level, may_reclaim = later.level(queue.name, what, amount)
        text = f"queue {queue.name} has {left} {resource} of flavor {flavor} left, and it asks for {amount}"
        if quota.nominal >= amount or may_reclaim or self._while_borrowing(queue):
            fit, at = yield from self._preempts(queue, what, amount)
            return Offer(flavor, fit, at if fit > Fit.NO_CANDIDATES else level, Lack.QUOTA, text)
        return Offer(flavor, Fit.NONE, level, Lack.QUOTA, text)

    def _while_borrowing(self, queue: ClusterQueue) -> bool:
        """Whether the queue may borrow quota and evict others for it."""
        rules = queue.preemption
        return rules.borrow is not Evicts.NEVER or (self._fair and rules.reclaim is not Evicts.NEVER)


def _assigned(podsets: Sequence[PodSetRequest], parts: Sequence[FlavorRequest], offers: Sequence[Offer]) -> Assignment:
    """Turn offers into an assignment. ``offers``: one for each part; if the last one is NONE, later parts have none."""
    taken, worst = Counter[FlavorResource](), Offer("", Fit.FITS)
    chosen: dict[str, dict[str, str]] = {podset.name: {} for together in in_groups(podsets) for podset in together}
    for request, offer in zip(parts, offers, strict=False):
        worst = _worst(worst, offer)
        if offer.fit is Fit.NONE:
            return Assignment(Fit.NONE, lack=worst.lack, text=worst.text)
        request.take(taken, offer.flavor)
        for podset in request.podsets:
            limited = [name for name in request.group.limited if name in podset.requests]
            if any(podset.requests[name] * podset.count for name in limited):
                chosen[podset.name] |= dict.fromkeys(limited, offer.flavor)
    return Assignment(worst.fit, chosen, dict(taken), worst.level, worst.lack, worst.text)


def _worst(offer: Offer, other: Offer) -> Offer:
    """The offer that is harder to have, with the farther borrowing of both."""
    worst = other if (other.fit, -other.lack) < (offer.fit, -offer.lack) else offer
    level = max(offer.level, other.level)
    return worst if worst.level == level else replace(worst, level=level)


def _is_enough(offer: Offer, rules: Fungibility) -> bool:
    """Whether the search for a flavor ends with this offer."""
    if offer.fit <= Fit.NO_CANDIDATES:
        return False
    if offer.fit < Fit.FITS and rules.when_can_preempt is Search.NEXT:
        return False
    return not (offer.level and rules.when_can_borrow is Search.NEXT)


def _is_better(offer: Offer, other: Offer, rules: Fungibility) -> bool:
    if offer.fit <= Fit.NO_CANDIDATES or other.fit <= Fit.NO_CANDIDATES:
        return (offer.fit, -offer.lack, -offer.level) > (other.fit, -other.lack, -other.level)
    if rules.preference is Preference.PREEMPTION:
        return (-offer.level, offer.fit) > (-other.level, other.fit)
    return (offer.fit, -offer.level) > (other.fit, -other.level)


W = TypeVar("W")


class Choices(Generic[W]):
    """The assignments of a workload, one after another.

    ``refused``: reasons by podset and flavor, in the caller's own form; entries given at the start are never removed.
    ``preempts``: how preempting gives quota; with it, flavors that need victims are also accepted.
    ``fair``, ``later``: as in ``Flavors``.
    """

    def __init__(
        self,
        tree: QuotaTree,
        flavors: Mapping[str, ResourceFlavor],
        queue: ClusterQueue,
        refused: Mapping[tuple[str, str], W] | None = None,
        preempts: Preempts | None = None,
        *,
        fair: bool = False,
        later: Later | None = None,
    ) -> None:
        self.refused: dict[tuple[str, str], W] = dict(refused or {})
        self._always = tuple(self.refused)
        self._queue = queue
        self._fixed: dict[tuple[str, int], str] = {}
        """Flavors of earlier podsets, by podset and group of resources; fixed while a later podset gets another one."""
        self._ended: tuple[int, Assignment] | None = None
        """The requested amount for which all flavors were tried, and the final result for it."""
        self._least = Fit.FITS if preempts is None else Fit.PREEMPT
        self._flavors = Flavors(tree, flavors, self._why_not, preempts or nobody, fair=fair, later=later)
        self._group_of = {name: number for number, group in enumerate(queue.groups) for name, _ in group.flavors}

    def first(self, podsets: Sequence[PodSetRequest]) -> Assignment:
        """The best assignment for which there is quota; else one with the reason.

        Once ``after`` has tried all flavors, its final result. Fewer pods may still get quota of other flavors.
        """
        return finish(self._first(podsets))

    def after(self, tried: Assignment, podsets: Sequence[PodSetRequest], why: W) -> Assignment:
        """The next assignment, since the nodes have no room for ``tried``: another flavor for the last podset that
        has one."""
        return finish(self._after(tried, podsets, why))

    def choosing(self, podsets: Sequence[PodSetRequest], tried: Assignment | None, why: W) -> Steps[Assignment]:
        """The assignment ``after`` the one that was tried, or the ``first``, in the steps of ``preempts``."""
        return self._first(podsets) if tried is None else self._after(tried, podsets, why)

    def _first(self, podsets: Sequence[PodSetRequest]) -> Steps[Assignment]:
        if self._ended is not None and _amount(podsets) >= self._ended[0]:
            return self._ended[1]
        return (yield from self._flavors.assigning(self._queue, podsets))

    def _after(self, tried: Assignment, podsets: Sequence[PodSetRequest], why: W) -> Steps[Assignment]:
        pairs = [
            *dict.fromkeys(
                (name, flavor)
                for name, flavor_by_resource in tried.flavors.items()
                for flavor in flavor_by_resource.values()
            )
        ]
        assignment, several = tried, len(pairs) > 1
        while pairs:
            podset, flavor = pairs.pop()
            self.refused[podset, flavor] = why
            self._fixed = {(name, self._group_of[flavor]): flavor for name, flavor in pairs}
            assignment = yield from self._first(podsets)
            self._fixed = {}
            if self.will_do(assignment):
                return assignment
            if several:
                self._allow(podset, self._group_of[flavor])
        end = assignment if not self.will_do(assignment) else Assignment(Fit.NO_CANDIDATES, text=_NO_NODES)
        self._ended = _amount(podsets), end
        return end

    def will_do(self, assignment: Assignment) -> bool:
        """Whether the assignment is good enough."""
        return assignment.fit >= self._least

    def _why_not(self, podset: PodSetRequest, flavor: ResourceFlavor) -> str:
        if self._fixed.get((podset.name, self._group_of[flavor.name]), flavor.name) != flavor.name:
            return "another one is kept while those of later podsets change"
        return _NO_NODES if (podset.name, flavor.name) in self.refused else ""

    def _allow(self, podset: str, group: int) -> None:
        """Allow flavors again that were refused only in combination with other podsets' flavors."""
        for name, flavor in list(self.refused):
            if (name, flavor) not in self._always and name == podset and self._group_of[flavor] == group:
                del self.refused[name, flavor]


def _amount(podsets: Sequence[PodSetRequest]) -> int:
    """The sum of all requested amounts; it grows with each pod."""
    return sum(podset.count * sum(podset.requests.values()) for podset in podsets)
