"""Annotations and labels that nothing reads: on pods, in pod templates, and on the objects that have templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from extender.cli.doctor.facts import Facts, marks_of
from extender.cli.doctor.finding import Finding, error
from extender.kube.dialects import COSCHEDULING_POD_GROUP, MIN_MEMBER
from extender.kube.dialects.unread_keys import WRITTEN_BY_PEOPLE, Unread, groupless, misspelt, of_others
from extender.kube.keys import GANG
from extender.kube.kinds.registry import asks
from extender.kube.reading.objects import Meta
from policies.words import many

_MEANT_FOR_PODS = (*WRITTEN_BY_PEOPLE, COSCHEDULING_POD_GROUP)


class _Bearer(NamedTuple):
    """A template, or a pod."""

    name: str
    meta: Meta
    ours: bool
    is_pod: bool


def check(facts: Facts) -> Iterator[Finding]:
    """Check pods and templates, whether the pods wait, run or have ended: the next pods will be like them."""
    owners, members = facts.owners or [], facts.members or []
    bearers = [_Bearer(owner.name, owner.template, owner.scheduler in facts.ours, is_pod=False) for owner in owners]
    bearers += [
        _Bearer(str(member.pod), member.meta, member.pod.scheduler in facts.ours, is_pod=True) for member in members
    ]
    for fault in _unread(bearers, misspelt):
        yield error("UnknownKey", *fault)
    # A job that Muster admits as a whole is a gang without naming one. So is an object that marks its pods as a gang.
    # Both may say how few of their pods are enough.
    managed = {
        owner.name
        for owner in owners
        if asks(owner.meta) and (owner.kind == "Job" or "true" in owner.meta.values_of(GANG))
    }
    for fault in _unread([bearer for bearer in bearers if bearer.name not in managed], groupless):
        yield error("UnreadKey", *fault)
    for fault in _unread([bearer for bearer in bearers if bearer.ours], of_others):
        yield error("ForeignKey", *fault)
    for owner in owners:
        for unread in misspelt(owner.meta, of_job=True):
            yield error("UnknownKey", owner.name, f"{unread.key} on the {owner.kind} itself {unread.what}", unread.fix)
        own, inside = marks_of(owner.meta), marks_of(owner.template)
        for key in _MEANT_FOR_PODS:
            if key in own and key not in inside and not (key == MIN_MEMBER and owner.name in managed):
                what = f"{key} is on the {owner.kind} itself, where nothing reads it"
                fix = f"move it to spec.template.metadata.annotations of the {owner.kind}, and create the pods again"
                yield error("KeyOnOwner", owner.name, what, fix)


def _unread(bearers: Iterable[_Bearer], look: Callable[[Meta], Iterable[Unread]]) -> Iterator[tuple[str, str, str]]:
    """Yield place, fault and fix, once for each key. If a template has the key, that is the place to correct it."""
    wrong: dict[Unread, list[_Bearer]] = {}
    for bearer in bearers:
        for unread in look(bearer.meta):
            wrong.setdefault(unread, []).append(bearer)
    for unread, bearers_with in sorted(wrong.items(), key=lambda pair: pair[0].key):
        count = sum(bearer.is_pod for bearer in bearers_with)
        pods = f"; on {many(count, 'pod')}" if count else ""
        fix = f"{unread.fix} in the pod template, and create the pods again"
        yield bearers_with[0].name, f"{unread.key} {unread.what}{pods}", fix
