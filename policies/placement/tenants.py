"""The pods that are on nodes or are promised one, indexed by what other pods may demand of them.

A decision may see them differently: with planned pods, without some pods, or besides nominated ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple, TypeVar

from policies.model import UNCONSTRAINED, Constraints, HostPort, Labels, Pod, Selector, Spread, Term
from policies.model.constraints import NAMESPACE_NAME, selects
from policies.steps import AT_ONCE, Steps, batched, chosen, quickly

K = TypeVar("K", bound=Hashable)

_EMPTY = 4
"""Most keys of a namespace, found on no pod there, whose indexes are kept."""
_ELSEWHERE = ""
"""The key for namespaces that a term selects by their labels."""


class Tenant(NamedTuple):
    """A pod on a node.

    ``leaving``: it is being deleted.
    ``expected``: it will be made once others of its job run, or kube-scheduler keeps the node for it. It may block
    other pods, and does not count for them.
    """

    node: str
    namespace: str
    name: str
    labels: Labels
    constraints: Constraints
    leaving: bool
    expected: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


Those = dict[Hashable, Tenant]
"""Tenants by the owner of their room."""


class Tenants:
    """All tenants. Work is postponed until a question: a pod without demands is only remembered until then.

    Selectors are answered from an index by label. It is made when the label's key is first asked for in a namespace,
    and kept up to date from then on. It is dropped with the last pod of the namespace.
    """

    def __init__(self) -> None:
        self._late: dict[Hashable, tuple[Pod, str]] = {}
        """Tenants added since the last question, which moves them into the indexes."""
        self._all: Those = {}
        self._in: dict[str, Those] = {}
        self._taking: dict[Constraints, Those] = {}
        self._averse: dict[str, dict[Constraints, Those]] = {}
        self._indexes: dict[str, dict[str, dict[str, Those]]] = {}
        self._unready: dict[tuple[str, str], None] = {}
        """Namespaces and keys of indexes that are still being built."""
        self._about: dict[str, Mapping[str, str]] = {}
        self._repelled: dict[str, None] = {}
        """Namespaces whose pods have recently become subject to some tenant's anti-affinity."""

    def put(self, owner: Hashable, pod: Pod, node: str) -> None:
        """Record that the pod is on that node now, instead of any earlier one."""
        if pod.constraints is UNCONSTRAINED and owner not in self._all:
            self._late[owner] = pod, node
        else:
            self._late.pop(owner, None)
            self._put(owner, pod, node)

    def settled(self) -> Steps[None]:
        """Move the tenants added since the last question into the indexes. After a start these are all there are."""
        while self._late:
            yield AT_ONCE
            self._settle(AT_ONCE)

    def _settle(self, most: int | None = None) -> None:
        """Move ``most`` of those, or all."""
        for owner in list(islice(self._late, most)):
            self._put(owner, *self._late.pop(owner))

    def _put(self, owner: Hashable, pod: Pod, node: str) -> None:
        new = Tenant(node, pod.namespace, pod.name, pod.labels, pod.constraints, pod.deleting, pod.wave > 0)
        if (old := self._all.get(owner)) is not None:
            if old == new:
                return
            self.drop(owner)
        self._all[owner] = new
        if (there := self._in.get(new.namespace)) is None:
            there = self._in[new.namespace] = {}
        there[owner] = new
        if new.constraints is not UNCONSTRAINED:
            self._note(owner, new)
        if (indexes := self._indexes.get(new.namespace)) is not None:
            for key, index in indexes.items():
                for label, value in new.labels:
                    if label == key:
                        index.setdefault(value, {})[owner] = new

    def drop(self, owner: Hashable) -> None:
        """Record that it is on no node any more."""
        if self._late.pop(owner, None) is not None:
            return
        old = self._all.pop(owner, None)
        if old is None:
            return
        _forget(self._in, old.namespace, owner)
        if old.constraints is not UNCONSTRAINED:
            self._unnote(owner, old)
        if old.namespace not in self._in:
            self._indexes.pop(old.namespace, None)
        for key, index in self._indexes.get(old.namespace, {}).items():
            for label, value in old.labels:
                if label == key:
                    _forget(index, value, owner)

    def describe(self, namespace: str, labels: Labels) -> bool:
        """Record the labels of a namespace; empty for one that is gone. Returns whether they have changed, besides its
        name."""
        about, known = dict(labels) | {NAMESPACE_NAME: namespace}, self._labels_of(namespace)
        if len(about) > 1:
            self._about[namespace] = about
        else:
            self._about.pop(namespace, None)
        return about != known

    def __iter__(self) -> Iterator[tuple[Hashable, Tenant]]:
        self._settle()
        return iter(self._all.items())

    def meant(self, terms: tuple[Term, ...]) -> Steps[list[Tenant]]:
        """The tenants that all of the terms select."""
        if not terms:
            return []
        yield from self.settled()
        first, *others = terms
        names = [name for name in self._in if name in first.namespaces or self._selected(first.elsewhere, name)]
        tenants: list[Tenant] = []
        for name in names:
            tenants += yield from self._labelled(name, first.selector)
        for term in others:
            tenants = yield from chosen(tenants, partial(self.means, term))
        return tenants

    def means(self, term: Term, pod: Pod | Tenant) -> bool:
        return term.matches(pod.namespace, dict(pod.labels), self._labels_of(pod.namespace))

    def counted(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        """The tenants that count for a topology spread constraint of a pod in that namespace."""
        if not spread.selector:
            return []
        yield from self.settled()
        selected = yield from self._labelled(namespace, spread.selector)
        return [tenant for tenant in selected if not (tenant.leaving or tenant.expected)]

    def counted_where_nominated(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:  # noqa: ARG002
        """The tenants that count for it only on the node that kube-scheduler keeps for them (``BesideNominated``)."""
        return (yield from quickly([]))

    def repelling(self, pod: Pod) -> Iterator[tuple[Term, list[Tenant]]]:
        """Yield the anti-affinity terms that select the pod, and the tenants that have them."""
        labels, about = dict(pod.labels), self._labels_of(pod.namespace)
        demanding = self._averse.get(pod.namespace, {}) | self._averse.get(_ELSEWHERE, {})
        for constraints, those in demanding.items():
            for term in constraints.anti_affinity:
                if term.matches(pod.namespace, labels, about):
                    yield term, list(those.values())

    def repels(self, namespace: str) -> bool:
        """Whether a tenant's anti-affinity may keep a pod of the namespace away, whatever that pod's labels."""
        return namespace in self._averse or _ELSEWHERE in self._averse

    def take_repelled(self) -> Callable[[str], bool] | None:
        """A test for the namespaces for which ``repels`` has become true since the last call; None if for none."""
        repelled, self._repelled = self._repelled, {}
        return (lambda namespace: namespace in repelled or _ELSEWHERE in repelled) if repelled else None

    def averse_to(self, namespace: str) -> list[Selector]:
        """The selectors by which pods of the namespace may be kept away."""
        demanding = self._averse.get(namespace, {}) | self._averse.get(_ELSEWHERE, {})
        return [term.selector for constraints in demanding for term in constraints.anti_affinity]

    def taking(self, port: HostPort) -> list[Tenant]:
        """The tenants with a port that conflicts with this one."""
        return [
            tenant
            for constraints, those in self._taking.items()
            if any(port.conflicts(taken) for taken in constraints.ports)
            for tenant in those.values()
        ]

    def _note(self, owner: Hashable, tenant: Tenant) -> None:
        if tenant.constraints.ports:
            self._taking.setdefault(tenant.constraints, {})[owner] = tenant
        for namespace in _averse_in(tenant.constraints):
            if namespace not in self._averse:
                self._repelled[namespace] = None
            self._averse.setdefault(namespace, {}).setdefault(tenant.constraints, {})[owner] = tenant

    def _unnote(self, owner: Hashable, tenant: Tenant) -> None:
        if tenant.constraints.ports:
            _forget(self._taking, tenant.constraints, owner)
        for namespace in _averse_in(tenant.constraints):
            _forget(self._averse[namespace], tenant.constraints, owner)
            if not self._averse[namespace]:
                del self._averse[namespace]

    def _labelled(self, namespace: str, selector: Selector) -> Steps[list[Tenant]]:
        """The tenants of a namespace that the selector selects."""
        if selector is None:
            return []
        those, rest = self._in.get(namespace, {}), selector
        requirement = next((requirement for requirement in selector if requirement.operator == "In"), None)
        if requirement is not None:
            index, rest = (
                (yield from self._index(namespace, requirement.key)),
                tuple(it for it in selector if it is not requirement),
            )
            those = {owner: tenant for value in requirement.values for owner, tenant in index.get(value, {}).items()}
            yield len(those) // 50
        tenants = list(those.values())
        return (yield from chosen(tenants, lambda tenant: selects(rest, dict(tenant.labels)))) if rest else tenants

    def _index(self, namespace: str, key: str) -> Steps[dict[str, Those]]:
        """The index of a namespace by the value of that label."""
        here, there = self._indexes.setdefault(namespace, {}), self._in.get(namespace, {})
        if key in here and (namespace, key) not in self._unready:
            return here[key]
        # Tenants that come or go between two steps are recorded as in any other index.
        index = here.setdefault(key, {})
        self._unready[namespace, key] = None
        for batch in batched(list(there.items())):
            for owner, tenant in batch:
                for label, value in tenant.labels:
                    if label == key and there.get(owner) is tenant:
                        index.setdefault(value, {})[owner] = tenant
            yield AT_ONCE // 8
        self._unready.pop((namespace, key), None)
        if not index and (not there or sum(not tenants for tenants in here.values()) > _EMPTY):
            # Users can put any number of such keys into pods, so only few keys without a pod are kept.
            here.pop(key, None)
        if not here:
            self._indexes.pop(namespace, None)
        return index

    def _selected(self, elsewhere: Selector, namespace: str) -> bool:
        return elsewhere is not None and selects(elsewhere, self._labels_of(namespace))

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        return self._about.get(namespace) or {NAMESPACE_NAME: namespace}


@lru_cache(maxsize=1024)
def _averse_in(constraints: Constraints) -> tuple[str, ...]:
    """The namespaces of the pods that the constraints may keep away."""
    names = dict.fromkeys(name for term in constraints.anti_affinity for name in term.namespaces)
    elsewhere = any(term.elsewhere is not None for term in constraints.anti_affinity)
    return (*names, _ELSEWHERE) if elsewhere else (*names,)


def _forget(index: dict[K, Those], key: K, owner: Hashable) -> None:
    those = index.get(key)
    if those is not None:
        those.pop(owner, None)
        if not those:
            del index[key]


class Beside(Tenants):
    """Tenants, and planned pods beside them."""

    def __init__(self, there: Tenants, planned: Iterable[tuple[Pod, str]]) -> None:
        super().__init__()
        self._there = there
        self._about = there._about
        for pod, node in planned:
            self.put(pod.uid, pod, node)

    def meant(self, terms: tuple[Term, ...]) -> Steps[list[Tenant]]:
        return (yield from self._there.meant(terms)) + (yield from super().meant(terms))

    def counted(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        return (yield from self._there.counted(spread, namespace)) + (yield from super().counted(spread, namespace))

    def counted_where_nominated(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        return self._there.counted_where_nominated(spread, namespace)

    def repelling(self, pod: Pod) -> Iterator[tuple[Term, list[Tenant]]]:
        yield from self._there.repelling(pod)
        yield from super().repelling(pod)

    def repels(self, namespace: str) -> bool:
        return self._there.repels(namespace) or super().repels(namespace)

    def averse_to(self, namespace: str) -> list[Selector]:
        return self._there.averse_to(namespace) + super().averse_to(namespace)

    def taking(self, port: HostPort) -> list[Tenant]:
        return self._there.taking(port) + super().taking(port)


class Apart(Beside):
    """Tenants without these pods."""

    def __init__(self, there: Tenants, pods: Iterable[Pod]) -> None:
        super().__init__(there, ())
        self._names = {(pod.namespace, pod.name) for pod in pods}

    def meant(self, terms: tuple[Term, ...]) -> Steps[list[Tenant]]:
        return self._remaining((yield from super().meant(terms)))

    def counted(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        return self._remaining((yield from super().counted(spread, namespace)))

    def repelling(self, pod: Pod) -> Iterator[tuple[Term, list[Tenant]]]:
        for term, those in super().repelling(pod):
            yield term, self._remaining(those)

    def taking(self, port: HostPort) -> list[Tenant]:
        return self._remaining(super().taking(port))

    def _remaining(self, those: Iterable[Tenant]) -> list[Tenant]:
        return [tenant for tenant in those if (tenant.namespace, tenant.name) not in self._names]


class BesideNominated(Beside):
    """Tenants, and pods for which kube-scheduler keeps nodes.

    kube-scheduler checks each of these with them and without. So they keep others away like present pods, but attract
    none, and a spread counts them only on their own node.
    """

    def __init__(self, there: Tenants, nominated: Iterable[tuple[Pod, str]]) -> None:
        # Like pods of a later wave they do not exist yet.
        super().__init__(there, ((replace(pod, wave=1), node) for pod, node in nominated))

    def counted_where_nominated(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        # Unlike present pods, they also count for an empty selector.
        there = yield from super().counted_where_nominated(spread, namespace)
        return there + (yield from self._labelled(namespace, spread.selector))
