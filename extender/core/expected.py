"""Which pods of a job are to come, and by when the next of them has to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from extender.core.job import JobRecord
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import PodSets


def expect(state: State, workload: Workload, podsets: PodSets | None) -> None:
    """What is planned for other podsets is taken back."""
    if workload.podsets == podsets:
        return
    slots = workload.members.slots
    before = slots.templates
    workload.expect(podsets)
    for slot in list(slots.planned):
        if slots.templates.get(slot) != before[slot]:
            state.assume_slot(workload, slot, "")
    # Those that are bound first: no other one may come to a slot that is planned on their node.
    for member in sorted(workload.members, key=lambda one: one.pod.node is None):
        if member.pod.index is None:
            state.put_pod(member.pod)
    state.touch(workload)


def await_pods(state: State, record: JobRecord, now: float) -> None:
    """The next pod has to come by then."""
    record.expect(now + state.limits.creation_s + state.creation.takes_s())


def close_up(state: State, workload: Workload, record: JobRecord) -> None:
    """A smaller job may have kept pods of any slots: those without an index take the slots of which no pods come."""
    slots = workload.members.slots
    if not slots.surplus:
        return
    for podset in record.seen.podsets.podsets:
        name, made_of = podset.slot(0)[0], (podset.template.owner, podset.template.series)
        live = [one for one in workload.members.live.values() if (one.pod.owner, one.pod.series) == made_of]
        if podset.indexed or len(live) < podset.size:
            continue
        for member in [one for one in live if one.pod.identity not in slots.templates]:
            if (index := slots.vacant(name, None, {})) is None:
                break
            slot = podset.slot(index)
            state.assume_slot(workload, slot, "")
            record.move(slot, member.pod.node or member.node)
            state.put_pod(replace(member.pod, index=index))


def there_first(names: Sequence[str], there: Iterable[str | None]) -> tuple[str, ...]:
    """Planned nodes of a podset without indexes: a smaller job may have kept any of its pods, so theirs come first."""
    left = Counter(there)
    first: list[str] = []
    others: list[str] = []
    for name in names:
        (first if left[name] > 0 else others).append(name)
        left[name] -= 1
    return (*first, *others)
