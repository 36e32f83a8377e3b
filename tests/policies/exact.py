"""Whether a gang can start at all: an exhaustive search for small clusters, and the planner beside it.

``python -m tests.policies.exact [--count N] [--first SEED] [--only related]`` plays random cases: every second one
has roles, levels and slices alone, the others (``related``) also host ports, pod (anti-)affinity, spread and limits
of pods per node. The search knows nothing of how the planner works: it tries every node for every member, in every
order, and has each one pass kube-scheduler's filters. The members of a plan bind in rounds as kube-scheduler would
see them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from random import Random

from policies.model import Node, Pod
from policies.placement.one_by_one import rounds
from policies.placement.place import CUT_SHORT, Placed, Shortfall, place
from tests.policies.filters import There, admits, lets_in, refusals
from tests.policies.mixed import KEYS, LEVELS, Mixed, mixed, unit_of

Open = list[list[Node]]
"""The nodes that its required level leaves to each role."""


class Kind(StrEnum):
    PLANNED = "can start, and planned"
    MISSED = "can start, and missed"
    SPENT = "can start, and missed as the budget was spent"
    FEWER = "elastic, and planned with fewer members than could start"
    WAITS = "cannot start, and not planned"


@dataclass(frozen=True)
class Outcome:
    """``wrong``: which rules a plan breaks, and where kube-scheduler refuses it."""

    case: Mixed
    found: Placed | Shortfall
    kind: Kind
    wrong: tuple[str, ...]


def can_start(case: Mixed) -> bool:
    """Whether enough members can start together, whole slices of any roles."""
    return any(_can_all(case, roles) for roles in _parts(case))


def complaints(case: Mixed, found: Placed | Shortfall) -> Iterator[str]:
    """The faults of a plan, in words. Its members are bound one after the other, in its order, and then in rounds."""
    if isinstance(found, Shortfall):
        return
    by_uid, by_name = {pod.uid: pod for pod in case.pods}, {node.name: node for node in case.nodes}
    there = list(case.there)
    if len(found.nodes) < case.needed:
        yield f"{len(found.nodes)} members have a node"
    for uid, name in found.nodes.items():
        if not lets_in(by_uid[uid], by_name[name], case.nodes, there):
            yield f"kube-scheduler refuses {uid} on {name}"
        there.append((by_uid[uid], by_name[name]))
    seated = [(by_uid[uid], by_name[name]) for uid, name in found.nodes.items()]
    found_rounds = rounds([(pod, where.name) for pod, where in seated], case.snapshot())
    yield from refusals(Random(case.seed), seated, case.nodes, case.there, found_rounds)
    yield from broken(case, seated)


def broken(case: Mixed, seated: There) -> Iterator[str]:
    """The levels and slices that members on these nodes break."""
    roles = [[(pod, where) for pod, where in seated if pod.series == role[0].series] for role in case.roles]
    yield from _broken_levels(roles)
    for role in roles:
        yield from _cut_slices(role)


def _broken_levels(roles: Sequence[There]) -> Iterator[str]:
    for at in sorted({at for role in roles if role and (at := required(role[0][0])) is not None}):
        homes = {
            where.labels.get(KEYS[at])
            for role in roles
            for pod, where in role
            if (required(pod) or 0) <= at and required(pod) is not None
        }
        if len(homes) != 1 or None in homes:
            yield f"the required {LEVELS[at]} is broken: {homes}"


def _cut_slices(role: There) -> Iterator[str]:
    slices: dict[tuple[int, int], set[str | None]] = {}
    for pod, where in role:
        for size, level in layers(pod):
            slices.setdefault((size, (pod.index or 0) // size), set()).add(where.labels.get(KEYS[level]))
    for (size, number), homes in slices.items():
        if len(homes) != 1 or None in homes:
            yield f"slice {number} of {size} is cut: {homes}"


def required(pod: Pod) -> int | None:
    """The number of the pod's required level."""
    level = pod.topology.required
    return None if level in (None, "none") else LEVELS.index(level or "")


def slice_level(pod: Pod) -> int:
    return LEVELS.index(pod.topology.slice_level or LEVELS[0])


def layers(pod: Pod) -> list[tuple[int, int]]:
    """Sizes of its slices and their levels, the nearest first."""
    topology = pod.topology
    around = [(size, LEVELS.index(level)) for size, level in topology.around]
    return [(topology.slice_size, slice_level(pod)), *around] if topology.slice_size else []


def _parts(case: Mixed) -> Iterator[list[list[Pod]]]:
    """The parts of the gang that are enough, the whole gang first: each is a number of whole slices of each role."""
    cuts = []
    for role in case.roles:
        size = unit_of(role[0])
        slices = [role[at : at + size] for at in range(0, len(role), size)]
        choices = [slices[:count] for count in range(len(slices), -1, -1)]
        if len(slices[-1]) < size:
            choices += [[*slices[:count], slices[-1]] for count in range(len(slices) - 1)]
        cuts.append([[pod for members in chosen for pod in members] for chosen in choices])
    parts = [list(combination) for combination in product(*cuts) if sum(map(len, combination)) >= case.needed]
    yield from sorted(parts, key=lambda roles: -sum(map(len, roles)))


def _can_all(case: Mixed, part: list[list[Pod]]) -> bool:
    roles = [role for role in part if role]
    search = _let_in if case.related or any(role[0].topology.around for role in roles) else _packed
    return any(search(case, roles, opened) for opened in _homes(case, roles))


def _homes(case: Mixed, roles: list[list[Pod]]) -> Iterator[Open]:
    """Every choice of domains for the roles with a required level: they share one domain of each such level."""
    levels = sorted({at for role in roles if (at := required(role[0])) is not None})
    names = [sorted({node.labels[KEYS[at]] for node in case.nodes if KEYS[at] in node.labels}) for at in levels]
    for chosen in product(*names):
        home = dict(zip(levels, chosen, strict=True))
        yield [[node for node in case.nodes if _is_home(node, required(role[0]), home)] for role in roles]


def _is_home(one: Node, at: int | None, home: dict[int, str]) -> bool:
    return at is None or all(one.labels.get(KEYS[level]) == name for level, name in home.items() if level >= at)


def _packed(case: Mixed, roles: list[list[Pod]], opened: Open) -> bool:
    """No pod minds any other: the members in one order, and every node for each."""
    order = [(number, pod) for number, role in enumerate(roles) for pod in role]
    free = {node.name: dict(node.allocatable) for node in case.nodes}
    for pod, where in case.there:
        _charge(free[where.name], pod, 1)
    known: set[object] = set()

    def go_on(at: int, slice_home: str | None) -> bool:
        if at == len(order):
            return True
        number, pod = order[at]
        begins = not pod.topology.slice_size or (pod.index or 0) % pod.topology.slice_size == 0
        state = (at, None if begins else slice_home, tuple(tuple(sorted(amounts.items())) for amounts in free.values()))
        if state in known:
            return False
        for node in opened[number]:
            home = node.labels.get(KEYS[slice_level(pod)])
            cut = pod.topology.slice_size and (home is None or (not begins and home != slice_home))
            if cut or not admits(node, pod) or any(free[node.name][name] < much for name, much in pod.requests):
                continue
            _charge(free[node.name], pod, 1)
            fits = go_on(at + 1, home)
            _charge(free[node.name], pod, -1)
            if fits:
                return True
        known.add(state)
        return False

    return go_on(0, None)


def _charge(free: dict[str, int], pod: Pod, times: int) -> None:
    for name, amount in pod.requests:
        free[name] -= times * amount


def _let_in(case: Mixed, roles: list[list[Pod]], opened: Open) -> bool:
    """Every order in which they may come, and every node for each. Which of a role's members are a slice is decided in
    the end, by how many are in each domain.
    """
    known: set[frozenset[tuple[tuple[int, str], int]]] = set()
    seats: Counter[tuple[int, str]] = Counter()

    def go_on(now: There) -> bool:
        if len(now) == len(case.there) + sum(map(len, roles)):
            return all(_in_slices(number, role, seats, case.nodes) for number, role in enumerate(roles))
        if (state := frozenset(seats.items())) in known:
            return False
        known.add(state)
        for number, role in enumerate(roles):
            seated = sum(count for (whose, _), count in seats.items() if whose == number)
            if seated == len(role):
                continue
            for node in opened[number]:
                if not lets_in(role[seated], node, case.nodes, now):
                    continue
                seats[number, node.name] += 1
                fits = go_on([*now, (role[seated], node)])
                seats[number, node.name] -= 1
                if not seats[number, node.name]:
                    del seats[number, node.name]
                if fits:
                    return True
        return False

    return go_on(case.there)


def _in_slices(number: int, role: list[Pod], seats: Counter[tuple[int, str]], nodes: list[Node]) -> bool:
    """Whether each domain holds whole slices of the role, except for one incomplete slice in all domains together."""
    for size, level in layers(role[0]):
        counts: Counter[str | None] = Counter()
        for node in nodes:
            counts[node.labels.get(KEYS[level])] += seats[number, node.name]
        over = len(role) % size
        rests = sorted(count % size for count in counts.values() if count % size)
        if counts[None] or rests != ([over] if over else []):
            return False
    return True


def judged(case: Mixed) -> Outcome:
    """The plan, and the search's verdict: the search runs only for refusals, and for plans in part."""
    plan = place(case.pods, case.needed, case.snapshot())
    wrong = tuple(complaints(case, plan))
    if isinstance(plan, Shortfall):
        cut = CUT_SHORT in plan.explanation
        kind = Kind.WAITS if not can_start(case) else Kind.SPENT if cut else Kind.MISSED
    else:
        more = len(plan.nodes) + 1
        fewer = more <= len(case.pods) and can_start(replace(case, needed=more))
        kind = Kind.FEWER if fewer else Kind.PLANNED
    return Outcome(case, plan, kind, wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", choices=("related", "plain"))
    args = parser.parse_args()
    kinds: Counter[str] = Counter()
    wrong = 0
    for seed in seeds(args.first, args.count, args.only):
        outcome = judged(mixed(seed))
        kinds[f"{'related' if seed % 2 else 'plain'}: {outcome.kind}"] += 1
        wrong += bool(outcome.wrong)
        for text in (*outcome.wrong, *[outcome.kind] * (outcome.kind in (Kind.MISSED, Kind.FEWER))):
            print(f"case {seed}: {outcome.case.told()}: {text}")  # noqa: T201
    for what, number in sorted(kinds.items()):
        print(f"{number} {what}")  # noqa: T201
    print(f"{wrong} planned against a rule or kube-scheduler")  # noqa: T201
    return 1 if wrong or any(what.endswith(Kind.MISSED) for what in kinds) else 0


def seeds(first: int, count: int, only: str | None) -> Iterator[int]:
    """The numbers of the next ``count`` seeds of that kind."""
    step = 1 if only is None else 2
    begin = first + (first % 2 != (only == "related") if only else 0)
    return iter(range(begin, begin + step * count, step))


if __name__ == "__main__":
    sys.exit(main())
