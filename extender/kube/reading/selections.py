"""What a pod demands of its node: its selector, required node affinity and tolerations, read into one Selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from weakref import WeakKeyDictionary, ref

from extender.kube.reading.objects import Expression, PodSpec, SelectorTerm, TaintObject, Tolerates
from policies.model import Requirement, Selection, Taint, Toleration

MOST_CONDITIONS = 128
MOST_VALUES = 256
MOST_CHARACTERS = 8192
"""That a pod may set for its nodes, in its selector, required affinity and tolerations together."""

TOO_CHOOSY = (
    f"it has more than {MOST_CONDITIONS} node selectors, affinity terms and tolerations, {MOST_VALUES} values, or "
    f"{MOST_CHARACTERS:,} characters in them"
)

_shared: WeakKeyDictionary[Selection, ref[Selection]] = WeakKeyDictionary()
"""Equal selections are one object: most pods have that of many others, and it is most of what is kept of a pod."""


def selection_of(spec: PodSpec) -> Selection | None:
    """None when it is too much to look at: each part costs a look at every node."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required if node_affinity else None
    terms = (required.node_selector_terms if required else None) or ()
    selector, tolerations = spec.node_selector or {}, spec.tolerations or ()
    asked = [one for term in terms for one in (*(term.match_expressions or ()), *(term.match_fields or ()))]
    parts = len(selector) + len(asked) + len(tolerations)
    if max(parts, len(terms)) > MOST_CONDITIONS or sum(len(one.values or ()) for one in asked) > MOST_VALUES:
        return None
    words = chain(
        *selector.items(),
        *((one.key, one.operator, *(one.values or ())) for one in asked),
        *((one.key, one.operator, one.value, one.effect) for one in tolerations),
    )
    if sum(len(word or "") for word in words) > MOST_CHARACTERS:
        return None
    known: dict[str, str] = {}
    found = Selection(
        node_selector=tuple(sorted(selector.items())),
        affinity=None if required is None else tuple(requirements(term, known) for term in terms),
        tolerations=tolerations_of(tolerations),
    )
    known_as = _shared.setdefault(found, ref(found))()
    return found if known_as is None else known_as


def tolerations_of(tolerations: Iterable[Tolerates]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(one.key or "", one.operator or "Equal", one.value or "", one.effect or "") for one in tolerations
    )


def taints_of(taints: Iterable[TaintObject]) -> tuple[Taint, ...]:
    return tuple(Taint(one.key or "", one.value or "", one.effect or "") for one in taints)


def requirements(term: SelectorTerm, known: dict[str, str] | None = None) -> tuple[Requirement, ...]:
    """All of one term. ``known``: see below."""
    known = {} if known is None else known
    return (
        *_expressions(term.match_expressions or (), known),
        *_expressions(term.match_fields or (), known, is_field=True),
    )


def _expressions(
    expressions: Iterable[Expression],
    known: dict[str, str],
    *,
    is_field: bool = False,
) -> Iterator[Requirement]:
    """Each key, operator and value is kept once, however often it is said: ``known``."""

    def once(text: str) -> str:
        return known.setdefault(text, text)

    for one in expressions:
        yield Requirement(once(one.key or ""), once(one.operator or ""), tuple(map(once, one.values or ())), is_field)
