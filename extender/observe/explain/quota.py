"""Remedies for a lack of quota, each tried in a statement before it is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from extender.core.causes import NotThisFlavor
from extender.core.explain.facts import leaving, leaving_pods
from extender.core.explain.reasons import flavor_text, leaving_text
from extender.core.ledger.quotas import Use
from extender.core.ledger.state import State
from extender.core.queue.demands import QuotaRequest, fewest_of
from extender.core.workload.shape import Flavoring, PodSetKey
from extender.core.workload.workload import Workload
from extender.observe.explain.remedy import Help, Remedy, all_of, fewest
from policies.model import GroupKey, Node, Pod
from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    FlavorResource,
    QueueObject,
    Quota,
    ResourceGroup,
    VolcanoQueue,
)
from policies.quota.flavors import Assignment, Choices, Fit, unsuited
from policies.quota.parts import FlavorRequest, flavor_requests, uncovered
from policies.quota.tree import QuotaTree
from policies.statement import Statement
from policies.steps import finish, quickly
from policies.words import amount, listed, without_name

_FLAVORS = 3
"""Most flavors for which the missing quota is worked out."""
_SINGLES = 64
"""Most workloads that are tried each on its own."""
_NOTHING: Mapping[str, int] = {}


class Short(NamedTuple):
    """A shortage of one resource of a flavor. ``most``: what the queue could use if no workload used any."""

    what: FlavorResource
    requested: int
    left: int
    most: int

    @property
    def missing(self) -> int:
        return self.requested - self.left


class QuotaQuestion:
    """The quota that a workload needs of its ClusterQueue for the members that have to start together."""

    def __init__(self, state: State, gang: Workload, queue: ClusterQueue, pods: Sequence[Pod]) -> None:
        self._state = state
        self._gang = gang
        self._queue = queue
        self._snapshot = state.quotas.queues.snapshot
        self._request = QuotaRequest(gang, pods, queue, self._snapshot)
        self._closed = self._request.closed()
        self._podsets = self._request.podsets(fewest_of(gang, pods, gang.lacking)[0])
        self._statement = Statement(tree=self._snapshot.tree, of_ledger=True)

    def choices(self) -> Iterator[tuple[tuple[str, ...], Mapping[PodSetKey, Flavoring]]]:
        """Yield the flavors that have quota, one assignment after another, with what each demands of nodes."""
        tree, flavors = self._snapshot.tree, self._snapshot.flavors
        choices: Choices[NotThisFlavor | str] = Choices(tree, flavors, self._queue, self._closed)
        with self._own(self._statement):
            assignment = choices.first(self._podsets)
        while assignment.fit is Fit.FITS:
            names = dict.fromkeys(name for by_resource in assignment.flavors.values() for name in by_resource.values())
            yield tuple(names), self._request.flavorings(assignment)
            with self._own(self._statement):
                assignment = choices.after(assignment, self._podsets, "its nodes have no room")

    def remedies(self) -> list[Remedy]:
        """Remedies that give it quota; at least one if it has none."""
        with self._own(self._statement):
            return [*self._remedies()]

    def _remedies(self) -> Iterator[Remedy]:
        title = self._queue.title
        if names := uncovered(self._queue, self._podsets):
            total = Counter[str]()
            for podset in self._podsets:
                total.update(podset.requests)
            much = listed(amount(name, total[name], up=True) for name in names)
            yield Remedy(
                Help.NEVER,
                f"add {listed(names)} to coveredResources of {title}, with a nominalQuota of at least {much}, or take "
                f"{'it' if len(names) == 1 else 'them'} out of what its pods ask for",
            )
            return
        if self._fits(self._snapshot.tree, self._queue):
            yield from self._promised()
            return
        shortages, unsuitable = self._shortages()
        yield from unsuitable
        combined = self._alternatives(shortages)
        if combined and any(all(short.requested <= short.most for short in shorts) for shorts in combined):
            yield from self._waits(combined)
        never = all(any(short.requested > short.most for short in shorts) for shorts in combined)
        for shorts in combined:
            yield from self._raised(shorts, never=never)

    def others(self, tried: Container[str]) -> Iterator[tuple[str, Mapping[PodSetKey, Flavoring], list[Remedy]]]:
        """Yield flavors with too little quota, with what they demand of nodes, and how to get their quota."""
        parts = flavor_requests(self._queue, self._podsets)
        for request in parts if len(parts) == 1 else ():
            for name, quotas in request.group.flavors:
                if name in tried or self._unsuited(request, name):
                    continue
                chosen = {podset.name: dict.fromkeys(request.requests, name) for podset in request.podsets}
                made = self._request.flavorings(Assignment(Fit.FITS, chosen))
                with self._own(self._statement):
                    raised = [*self._raised(self._short_of(request, name, quotas, {}), never=False)]
                yield name, made, raised

    def _fits(self, tree: QuotaTree, queue: ClusterQueue) -> bool:
        return Choices(tree, self._snapshot.flavors, queue, self._closed).first(self._podsets).fit is Fit.FITS

    @contextmanager
    def _own(self, statement: Statement) -> Iterator[None]:
        """Try the quota as it is for the workload itself."""
        with statement.open():
            self._state.quotas.give_back_own(statement, self._gang.key)
            yield

    def _fits_without(self, uses: Iterable[Use]) -> bool:
        """Whether it has quota once these uses have ended."""
        with self._statement.open():
            for use in uses:
                self._statement.give_back(use.queue, use.usage)
            return self._fits(self._snapshot.tree, self._queue)

    def _ends_enough(self, keys: Iterable[GroupKey]) -> bool:
        """Whether it has quota once these workloads have ended."""
        return self._fits_without(use for key in keys for use in self._state.quotas.uses.of(key).values())

    def _promised(self) -> Iterator[Remedy]:
        preemptors = [key.mention for key in self._state.preemptions.under_way if key != self._gang.key]
        if preemptors:
            yield Remedy(
                Help.WAIT, f"wait for {all_of(preemptors)} to start: what is left of the quota is kept for that"
            )
        else:
            yield Remedy(Help.DONE, "nothing to do: there is quota by now, and it is planned in a moment")

    def _shortages(self) -> tuple[list[list[list[Short]]], list[Remedy]]:
        """The shortage by flavor, for each part without quota; and what to do if no flavor suits."""
        taken = Counter[FlavorResource]()
        shorts: list[list[list[Short]]] = []
        unsuitable: list[Remedy] = []
        for request in flavor_requests(self._queue, self._podsets):
            flavors = [(name, quotas) for name, quotas in request.group.flavors if not self._unsuited(request, name)]
            if not flavors:
                unsuitable.append(self._change_pods(request))
                continue
            short: list[list[Short]] = []
            for name, quotas in flavors:
                if not (lacking := self._short_of(request, name, quotas, taken)):
                    request.take(taken, name)
                    break
                short.append(lacking)
            else:
                shorts.append(short)
                request.take(taken, flavors[0][0])
        return shorts, unsuitable

    def _short_of(
        self, request: FlavorRequest, flavor: str, quotas: Mapping[str, Quota], taken: Mapping[FlavorResource, int]
    ) -> list[Short]:
        """The shortages of that flavor besides what other parts have ``taken``."""
        node = self._snapshot.tree.queues[self._queue.name]
        shorts: list[Short] = []
        for resource, much in request.requests.items():
            what, limited = (flavor, resource), resource in quotas
            requested, left = much + taken.get(what, 0), node.left(what) if limited else 0
            if requested > left:
                shorts.append(Short(what, requested, left, node.potential(what) if limited else 0))
        return shorts

    def _unsuited(self, request: FlavorRequest, name: str) -> str:
        """Why no quota of this flavor helps its pods; empty if it does."""
        flavor = self._snapshot.flavors.get(name)
        if flavor is None:
            return "there is no such ResourceFlavor"
        closed = (self._closed[podset.name, name] for podset in request.podsets if (podset.name, name) in self._closed)
        other = (unsuited(flavor, podset.selection) for podset in request.podsets)
        return next(filter(None, (*map(flavor_text, closed), *other)), "")

    def _change_pods(self, request: FlavorRequest) -> Remedy:
        why = [f"{name}: {self._unsuited(request, name)}" for name, _ in request.group.flavors]
        return Remedy(
            Help.NEVER,
            f"change the node selector, affinity or tolerations of its pods, or the flavors of {self._queue.title}: "
            f"none of them suits its pods ({'; '.join(why[:_FLAVORS])})",
        )

    @staticmethod
    def _alternatives(shortages: list[list[list[Short]]]) -> list[list[Short]]:
        """Combine one flavor of each part: all that is needed together."""
        if not shortages:
            return []
        first, *others = shortages
        rest = [short for flavors in others for short in flavors[0]]
        return [_summed([*shorts, *rest]) for shorts in first[:_FLAVORS]]

    def _waits(self, combined: Sequence[Sequence[Short]]) -> Iterator[Remedy]:
        """Yield workloads whose end frees enough quota, as few as are found."""
        key, title = self._gang.key, self._queue.title
        own = [use for use in self._state.quotas.uses.of(key).values() if not use.unseen]
        if own:
            pods = leaving_pods(self._state.store.pods, self._state.claims, self._state.quotas, self._gang)
            if pods and self._fits_without(own):
                yield Remedy(Help.DONE, _own_pods_go(pods))
        users = Counter[GroupKey]()
        for what in dict.fromkeys(short.what for shorts in combined for short in shorts):
            users.update(self._state.quotas.uses.users(what, self._queue.name))
        users.pop(key, None)
        if ends := self._fewest(users):
            yield Remedy(
                Help.WAIT,
                f"wait for {all_of([end.mention for end in ends])} to finish: that frees enough quota of {title}",
            )

    def _fewest(self, users: Mapping[GroupKey, int]) -> list[GroupKey]:
        smallest = sorted(users, key=lambda key: (users[key], key))[:_SINGLES]
        largest = sorted(users, key=lambda key: (-users[key], key))
        return finish(fewest(smallest, largest, lambda keys: quickly(self._ends_enough(keys))))

    def _raised(self, shorts: Sequence[Short], *, never: bool) -> Iterator[Remedy]:
        """Yield how much more quota suffices. ``never``: it can never start with less."""
        head, tail, rank = "", "", Help.MORE
        if never:
            rank = Help.NEVER
            wanted = listed(
                f"{amount(short.what[1], short.requested, up=True)} wanted, "
                f"{without_name(short.what[1], short.most)} at most"
                for short in shorts
                if short.requested > short.most
            )
            head = f"it can never start in {self._queue.title} as that is ({wanted}): "
            tail = ", or make it smaller"
        for text in self._volcanos(shorts) if self._queue.name.startswith(VOLCANO) else self._kueues(shorts):
            yield Remedy(rank, f"{head}{text}{tail}")
            return
        yield Remedy(rank, f"{head}raise the quota of {self._queue.title} or of the queues above it{tail}")

    def _kueues(self, shorts: Sequence[Short]) -> Iterator[str]:
        """Yield a higher nominal quota of its own; or a higher borrowing limit, if that suffices."""
        if not self._enough(nominal := _with_more(self._queue, shorts, borrowing=False)):
            return
        texts = [self._sentence(short, nominal, "nominalQuota") for short in shorts]
        limited = _with_more(self._queue, shorts, borrowing=True)
        if limited != self._queue and self._enough(limited):
            texts += [self._sentence(short, limited, "borrowingLimit") for short in shorts]
            yield f"raise {listed(texts[: len(shorts)])}, or {listed(texts[len(shorts) :])}"
        else:
            yield f"raise {listed(texts)}"

    def _sentence(self, short: Short, raised: ClusterQueue, field: str) -> str:
        flavor, resource = short.what
        quota = _quota_of(raised, short.what)
        much = quota.nominal if field == "nominalQuota" else quota.borrowing or 0
        return f"{field} of flavor {flavor} in {self._queue.title} to {amount(resource, much, up=True)}"

    def _volcanos(self, shorts: Sequence[Short]) -> Iterator[str]:
        """Yield a higher capability of the Queue, and of the queues above it that limit it, too."""
        seen = self._state.quotas.queues.seen
        changed: list[VolcanoQueue] = []
        at = self._queue.name.removeprefix(VOLCANO)
        while (event := seen.get((VolcanoQueue.__name__, "", at))) is not None:
            queue = event.object
            if not isinstance(queue, VolcanoQueue):
                return
            more = {
                short.what[1]: queue.capability[short.what[1]] + short.missing
                for short in shorts
                if short.what[1] in queue.capability
            }
            if more:
                changed.append(replace(queue, capability={**queue.capability, **more}))
                if self._enough(*changed):
                    yield f"raise {listed(_capability(volcano_queue, shorts) for volcano_queue in changed)}"
                    return
            if at in (queue.parent or "root", "root"):
                break
            at = queue.parent or "root"
        missing = {short.what[1]: short.missing for short in shorts}
        nodes = f"add nodes with {listed(amount(name, much, up=True) for name, much in missing.items())}"
        theirs = ", or lower what other Queues are guaranteed by as much: the rest of the cluster is theirs"
        if self._enough(more=missing):
            yield f"{nodes}{theirs}"
        elif self._enough(*changed, more=missing):
            raised = listed(_capability(volcano_queue, shorts) for volcano_queue in changed)
            yield f"raise {raised}, and {nodes}{theirs}"

    def _enough(self, *things: QueueObject, more: Mapping[str, int] = _NOTHING) -> bool:
        """Whether it has quota with these objects in place of those of their names, and ``more`` on nodes."""
        tree, queues = self._state.quotas.queues.tried(things, more)
        queue = queues[self._queue.name]
        with self._own(Statement(tree=tree)):
            return self._fits(tree, queue)


def _capability(queue: VolcanoQueue, shorts: Sequence[Short]) -> str:
    names = dict.fromkeys(short.what[1] for short in shorts if short.what[1] in queue.capability)
    much = listed(amount(name, queue.capability[name], up=True) for name in names)
    return f"the capability of Queue {queue.name} to {much}"


def _own_pods_go(pods: Sequence[tuple[Pod, Node | None]]) -> str:
    """Advice on pods of the workload itself that still count."""
    counted = f"quota still counts for {leaving_text(leaving(pods))}"
    if any(node is not None and not node.ready for _, node in pods):
        taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        return f"delete the silent Node, or give it the taint {taint}, if the machine is off: {counted}"
    removes = (
        "; Kubernetes removes pods of deleted nodes within a minute" if any(node is None for _, node in pods) else ""
    )
    return f"nothing to do: {counted}{removes}"


def _summed(shorts: Iterable[Short]) -> list[Short]:
    """The largest demand for each flavor and resource, which includes what earlier parts take."""
    largest: dict[FlavorResource, Short] = {}
    for short in shorts:
        known = largest.get(short.what)
        largest[short.what] = short if known is None or short.requested > known.requested else known
    return list(largest.values())


def _with_more(queue: ClusterQueue, shorts: Sequence[Short], *, borrowing: bool) -> ClusterQueue:
    missing = {short.what: short.missing for short in shorts}

    def more(what: FlavorResource, quota: Quota) -> Quota:
        if not borrowing:
            return replace(quota, nominal=quota.nominal + missing.get(what, 0))
        return quota if quota.borrowing is None else replace(quota, borrowing=quota.borrowing + missing.get(what, 0))

    def group_with(group: ResourceGroup) -> ResourceGroup:
        flavors = []
        for name, quotas in group.flavors:
            new = {
                resource: Quota(0)
                for flavor, resource in missing
                if flavor == name and resource not in quotas and resource in group.covered and not borrowing
            }
            flavors.append((name, {key: more((name, key), quota) for key, quota in {**quotas, **new}.items()}))
        return replace(group, flavors=tuple(flavors))

    return replace(queue, groups=tuple(map(group_with, queue.groups)))


def _quota_of(queue: ClusterQueue, what: FlavorResource) -> Quota:
    flavor, resource = what
    return next(dict(group.flavors)[flavor][resource] for group in queue.groups if flavor in dict(group.flavors))
