"""Annotations and labels that nothing reads: on pods, in pod templates, and on the objects that have templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extender.cli.doctor.facts import Facts
from extender.cli.doctor.finding import Finding, error
from extender.kube.dialects import COSCHEDULING_POD_GROUP
from extender.kube.objects import Meta
from extender.kube.unread_keys import SAID_BY_PEOPLE, Unread, groupless, misspelt, of_others

_MEANT_FOR_PODS = (*SAID_BY_PEOPLE, COSCHEDULING_POD_GROUP)


class _Bearer(NamedTuple):
    """A template, or a pod."""

    name: str
    meta: Meta
    ours: bool
    is_pod: bool


def check(facts: Facts) -> Iterator[Finding]:
    """Whether its pods wait, run or have ended: the next ones will be like them."""
    bearers = [*_templates(facts), *_pods(facts)]
    for subject, what, fix in _told((one, found) for one in bearers for found in misspelt(one.meta)):
        yield error("UnknownKey", subject, what, fix)
    for subject, what, fix in _told((one, found) for one in bearers for found in groupless(one.meta)):
        yield error("UnreadKey", subject, what, fix)
    for subject, what, fix in _told((one, found) for one in bearers if one.ours for found in of_others(one.meta)):
        yield error("ForeignKey", subject, what, fix)
    yield from _misplaced(facts)


def _templates(facts: Facts) -> Iterator[_Bearer]:
    for owner in facts.owners or []:
        yield _Bearer(owner.name, owner.template, owner.scheduler in facts.ours, is_pod=False)


def _pods(facts: Facts) -> Iterator[_Bearer]:
    for member in facts.members or []:
        yield _Bearer(member.name, member.meta, member.scheduler in facts.ours, is_pod=True)


def _told(found: Iterable[tuple[_Bearer, Unread]]) -> Iterator[tuple[str, str, str]]:
    """Where, what and how to fix it, once for each key; a template first, because it is what has to be corrected."""
    wrong: dict[Unread, list[_Bearer]] = {}
    for bearer, unread in found:
        wrong.setdefault(unread, []).append(bearer)
    for unread, bearers in sorted(wrong.items(), key=lambda one: one[0].key):
        count = sum(one.is_pod for one in bearers)
        pods = f"; on {count} pod{'s' * (count != 1)}" if count else ""
        fix = f"{unread.fix} in the pod template, and create the pods again"
        yield bearers[0].name, f"{unread.key} {unread.what}{pods}", fix


def _misplaced(facts: Facts) -> Iterator[Finding]:
    for owner in facts.owners or []:
        own, inside = _said(owner.meta), _said(owner.template)
        for key in _MEANT_FOR_PODS:
            if key in own and key not in inside:
                yield error(
                    "KeyOnOwner", owner.name, f"{key} is on the {owner.kind} itself, where nothing reads it",
                    f"move it to spec.template.metadata.annotations of the {owner.kind}, and create the pods again",
                )  # fmt: skip


def _said(meta: Meta) -> dict[str, str]:
    return {**(meta.labels or {}), **(meta.annotations or {})}
