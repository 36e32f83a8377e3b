"""Tenants as one decision sees them: with pods that are planned, without some, or beside those that are nominated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from policies.model import HostPort, Pod, Selector, Spread, Term
from policies.placement.tenants import Tenant, Tenants
from policies.steps import Steps


class Beside(Tenants):
    """Some tenants, and pods that are planned to be there with them."""

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

    def kept_for(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        return self._there.kept_for(spread, namespace)

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
    """Some tenants, but for these pods."""

    def __init__(self, there: Tenants, pods: Iterable[Pod]) -> None:
        super().__init__(there, ())
        self._names = {(pod.namespace, pod.name) for pod in pods}

    def meant(self, terms: tuple[Term, ...]) -> Steps[list[Tenant]]:
        return self._strangers((yield from super().meant(terms)))

    def counted(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        return self._strangers((yield from super().counted(spread, namespace)))

    def repelling(self, pod: Pod) -> Iterator[tuple[Term, list[Tenant]]]:
        for term, those in super().repelling(pod):
            yield term, self._strangers(those)

    def taking(self, port: HostPort) -> list[Tenant]:
        return self._strangers(super().taking(port))

    def _strangers(self, those: Iterable[Tenant]) -> list[Tenant]:
        return [tenant for tenant in those if (tenant.namespace, tenant.name) not in self._names]


class BesideNominated(Beside):
    """Some tenants, and pods for which kube-scheduler keeps nodes: it looks at each of these with them and without.

    So they keep others away as if they were there, but nobody is near them, and a spread counts them on the very node
    and on no other.
    """

    def __init__(self, there: Tenants, nominated: Iterable[tuple[Pod, str]]) -> None:
        # Like pods of a later wave they are yet to come.
        super().__init__(there, ((replace(pod, wave=1), node) for pod, node in nominated))

    def kept_for(self, spread: Spread, namespace: str) -> Steps[list[Tenant]]:
        # Unlike pods that are there, they also count for a selector that is empty.
        there = yield from super().kept_for(spread, namespace)
        return there + (yield from self._labelled(namespace, spread.selector))
