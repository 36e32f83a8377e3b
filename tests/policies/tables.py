"""Cases in a line each, as ``tables/*.txt`` have them: facts of Kueue's own tables, in notation of ours.

``queue NAME@COHORT RULES AMOUNTS`` and ``cohort NAME@PARENT AMOUNTS`` describe the queues of the cases below them,
up to an empty line.

``flavor NAME MARKS`` adds to a flavor: ``@KEY=VALUE`` for a label, ``!`` for a taint, ``~`` for a toleration.

RULES begin with a letter each for withinClusterQueue, reclaimWithinCohort and borrowWithinCohort: ``N``ever,
``L``owerPriority, lowerOr``E``qual, ``A``ny. The last one has its threshold. Marks follow:

- ``!`` for StrictFIFO, ``*2`` for a weight, ``>`` for PreemptionOverBorrowing.
- ``b`` and ``p`` where the next flavor is tried instead of borrowing, or the search may stop for preemption.
- ``%`` for UsageBasedAdmissionFairSharing.

AMOUNTS are ``FLAVOR/RESOURCE=NOMINAL+BORROWING-LENDING``. ``default`` stands where no flavor is named, and ``|``
between resource groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from policies.model.node import Requirement, Selection, Taint, Toleration
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    FlavorResource,
    Fungibility,
    Preemption,
    Preference,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Search,
    Strategy,
    Usage,
)
from policies.preemption.candidates import Candidate, Request, Unit
from policies.quota.parts import PodSetRequest
from tests.conformance.quota import Incoming

_POLICIES = {"N": Evicts.NEVER, "L": Evicts.LOWER, "E": Evicts.LOWER_OR_NEWER, "A": Evicts.ANY}
_AMOUNT = re.compile(r"(?:(?P<flavor>[\w.-]+)/)?(?P<resource>[\w./-]*?)(?:=(?P<rest>.*))?$")
_QUOTA = re.compile(r"(\d+)(?:\+(\d+))?(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class Case:
    """A case with its queues.

    ``parts``: the parts of its line, separated by ``||``.
    ``flavors``: the flavors that the queues name.
    """

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...]
    flavors: dict[str, ResourceFlavor]
    parts: tuple[str, ...]
    where: str


@dataclass(slots=True)
class _Block:
    queues: list[ClusterQueue] = field(default_factory=list)
    cohorts: list[Cohort] = field(default_factory=list)
    flavors: dict[str, ResourceFlavor] = field(default_factory=dict)

    def existing(self) -> dict[str, ResourceFlavor]:
        names = (name for queue in self.queues for group in queue.groups for name, _ in group.flavors)
        return {name: ResourceFlavor(name) for name in names} | self.flavors


def cases(name: str) -> list[Case]:
    """The cases of a file."""
    block, all_cases = _Block(), []
    for number, line in enumerate((Path(__file__).parent / "tables" / name).read_text().splitlines(), 1):
        kind, _, rest = line.partition(" ")
        if not line:
            block = _Block()
        elif kind == "queue":
            block.queues.append(_queue(rest))
        elif kind == "cohort":
            block.cohorts.append(_cohort(rest))
        elif kind == "flavor":
            name, *marks = rest.split()
            block.flavors[name] = _flavor(name, marks)
        elif kind != "#":
            parts = tuple(column.strip() for column in line.split("||"))
            all_cases.append(Case((*block.queues,), (*block.cohorts,), block.existing(), parts, f"{name}:{number}"))
    return all_cases


def candidates(text: str) -> list[Candidate]:
    """``NAME@QUEUE PRIORITY CREATED/STARTED AMOUNTS``, with ``;`` between them; the times may be left out."""
    parsed = []
    for entry in text.split(";") if text else ():
        where, priority, *amounts = entry.split()
        name, _, queue = where.partition("@")
        at = amounts.pop(0) if "=" not in amounts[0] else "0/0"
        created, started = map(float, at.split("/"))
        usage = usage_of(amounts)
        parsed.append(Candidate(name, Unit.WORKLOAD, int(priority), created, (), started, queue=queue, usage=usage))
    return parsed


def request(text: str) -> Request:
    """``QUEUE PRIORITY SINCE AMOUNTS``."""
    queue, priority, since, *amounts = text.split()
    return Request("new", (), 0, int(priority), since=float(since), queue=queue, usage=usage_of(amounts))


def incoming(text: str) -> list[Incoming]:
    """``NAME@QUEUE/LOCAL PRIORITY SINCE + PODSETS``, with ``;`` between them; the LocalQueue may be left out."""
    parsed = []
    for entry in text.split(";"):
        head, _, rest = entry.partition(" + ")
        where, priority, since = head.split()
        name, _, queues = where.partition("@")
        queue, _, local = queues.partition("/")
        parsed.append(Incoming(name, queue, podsets(rest), int(priority), float(since), local))
    return parsed


def podsets(text: str) -> list[PodSetRequest]:
    """``NAME:COUNT:MINIMUM:GROUP AMOUNTS MARKS``, with ``+`` between them. MARKS: ``@KEY=VALUE`` for the selector,
    ``?`` for a term of the required affinity, ``~`` for a toleration."""
    return [_podset(entry) for entry in text.split(" + ")]


def _podset(text: str) -> PodSetRequest:
    head, *rest = text.split()
    name, count, least, group, *_ = (*head.split(":"), "")
    amounts = [word for word in rest if word[0] not in "@?~"]
    requests = {resource: amount for (_, resource), amount in usage_of(amounts).items()}
    selection = Selection(
        _marked(rest, "@"),
        tuple((Requirement(key, "In", (value,)),) for key, value in _marked(rest, "?")) or None,
        tuple(Toleration(key, "Equal", value, "NoSchedule") for key, value in _marked(rest, "~")),
    )
    return PodSetRequest(name, int(count), requests, selection, int(least) if least else None, group)


def _marked(marks: list[str], sign: str) -> tuple[tuple[str, str], ...]:
    pairs = (mark[1:].partition("=") for mark in marks if mark[0] == sign)
    return tuple((key, value) for key, _, value in pairs)


def _flavor(name: str, marks: list[str]) -> ResourceFlavor:
    taints = tuple(Taint(key, value, "NoSchedule") for key, value in _marked(marks, "!"))
    tolerations = tuple(Toleration(key, "Equal", value, "NoSchedule") for key, value in _marked(marks, "~"))
    return ResourceFlavor(name, dict(_marked(marks, "@")), taints, tolerations)


def usage_of(amounts: list[str]) -> Usage:
    """Amounts as in AMOUNTS, without limits."""
    return {what: int(rest) for what, rest in map(_split, amounts)}


def _split(text: str) -> tuple[FlavorResource, str]:
    matched = _AMOUNT.match(text)
    assert matched is not None, text
    return (matched["flavor"] or "default", matched["resource"]), matched["rest"] or ""


def _queue(text: str) -> ClusterQueue:
    where, rules, *rest = text.split()
    name, _, cohort = where.partition("@")
    (within, reclaim, borrow), threshold = (_POLICIES[letter] for letter in rules[:3]), rules[3:]
    marks, groups = _groups(rest)
    return ClusterQueue(
        name,
        groups,
        cohort,
        Strategy.STRICT if "!" in marks else Strategy.BEST_EFFORT,
        Fungibility(
            Search.NEXT if "b" in marks else Search.STOP,
            Search.STOP if "p" in marks else Search.NEXT,
            Preference.PREEMPTION if ">" in marks else Preference.BORROWING,
        ),
        _weight(marks),
        by_past_usage="%" in marks,
        preemption=Preemption(within, reclaim, borrow, int(threshold) if threshold else None),
    )


def _cohort(text: str) -> Cohort:
    where, *rest = text.split()
    name, _, parent = where.partition("@")
    marks, groups = _groups(rest)
    return Cohort(name, parent, groups, _weight(marks))


def _weight(marks: list[str]) -> Fraction:
    return next((Fraction(mark[1:]) for mark in marks if mark[0] == "*"), Fraction(1))


def _groups(tokens: list[str]) -> tuple[list[str], tuple[ResourceGroup, ...]]:
    """The marks among them, and the resource groups."""
    marks, groups = [], [dict[str, dict[str, Quota]]()]
    for text in tokens:
        if text == "|":
            groups.append({})
        elif "=" not in text:
            marks.append(text)
        else:
            (flavor, resource), amount = _split(text)
            limits = _QUOTA.match(amount)
            assert limits is not None, text
            nominal, borrowing, lending = (None if limit is None else int(limit) for limit in limits.groups())
            groups[-1].setdefault(flavor, {})[resource] = Quota(nominal or 0, borrowing, lending)
    made = (ResourceGroup(tuple(next(iter(group.values()))), tuple(group.items())) for group in groups if group)
    return marks, tuple(made)
