"""Why a gang has no placement, in numbers that a person can check: for the cluster, and for a required level."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from policies.ask import Role, rows_of
from policies.model import Pod, Requests
from policies.packing import kinds
from policies.snapshot import Counts, Domain, Level, Snapshot, slots
from policies.terrain import rooms
from policies.words import listed


@dataclass(frozen=True, slots=True)
class Miss:
    """The domain that comes nearest to holding a role that requires its level; ``text`` says how near.

    ``kinds``: the resources that count, so that whoever has some of them there is in the way.
    """

    text: str
    domain: Domain
    kinds: tuple[str, ...]


def explain(pod: Pod, snapshot: Snapshot, refused: Collection[str]) -> str:
    """What the cluster has for one such member, in numbers a person can check with kubectl."""
    eligible = snapshot.eligible(pod.selection)
    roomy = eligible & (snapshot.slots(pod.requests) > 0)
    parts = [f"{int(roomy.sum())} of {len(snapshot.names)} nodes have room for {_words(pod.requests)}"]
    if barred := int((~eligible).sum()):
        parts.append(f"{barred} do not match the pod's selector, affinity or tolerations or are not ready")
    if closed := int(roomy[rows_of(refused, snapshot)].sum()):
        parts.append(f"{closed} were refused by kube-scheduler")
    return "; ".join(parts)


def nearest_miss(role: Role, want: int, snapshot: Snapshot) -> Miss | None:
    """For a role that requires a level or whose slices do, and that needs room for ``want``; None for any other."""
    at = _level(role)
    if at is None:
        return None
    level, rules = snapshot.levels[at], role.rules
    found = rooms(role, at, snapshot.levels)
    text = f"required {level.key} for {want} x {_scarce(role.requests)}"
    if rules.slice_size:
        text += f" in slices of {rules.slice_size}"
        if at != rules.slice_level:
            text += f" that share {snapshot.levels[rules.slice_level].key} each"
    if role.home is None:
        code = int(np.lexsort((level.rank, -found))[0]) if len(found) else -1
        domains = level.inhabited()
        text += f": {_domains(domains, level)}"
        if code < 0 or not found[code]:
            if domains:
                text += f", none has room for {f'a slice of {rules.slice_size}' if rules.slice_size else 'one'}"
            text += _unlabelled(role, level, snapshot) + _contradictions(level)
            return Miss(text, Domain("", np.zeros(0, dtype=np.intp)), kinds(role.requests))
        text += f", best has {_free(role, int(found[code]))} ({level.names[code]})"
    else:
        code = role.home[1]
        text += f": its gang is in {level.names[code]}, which has {_free(role, int(found[code]))}"
    domain = level.domain(code)
    sliced = rules.slice_size and rules.required is None
    text += _sliced(role, found, want) if sliced else _short(role, want - int(found[code]), domain, snapshot)
    text += _unlabelled(role, level, snapshot) + _contradictions(level)
    return Miss(text, domain, kinds(role.requests))


def _level(role: Role) -> int | None:
    """The level whose domains the role has to do with."""
    if role.home is not None:
        return role.home[0]
    rules = role.rules
    return rules.required if rules.required is not None else rules.slice_level if rules.slice_size else None


def _free(role: Role, free: int) -> str:
    whole = f" in whole slices of {role.rules.slice_size}" if role.rules.slice_size else ""
    return f"{free} free {_thing(role)}{'s' * (free != 1)}{whole}"


def _thing(role: Role) -> str:
    """What takes one member."""
    return "node" if int(role.room.max(initial=0)) <= 1 else "slot"


def _short(role: Role, short: int, domain: Domain, snapshot: Snapshot) -> str:
    if short <= 0:
        return "; too few beside the gang's other members"
    text = f"; {_many(short, _thing(role))} short"
    if shut := int((~snapshot.eligible(role.pods[0].selection)[domain.rows]).sum()):
        text += f"; {shut} of its {_many(len(domain.rows), 'node')} not ready or closed to the gang"
    return text


def _sliced(role: Role, found: Counts, want: int) -> str:
    size = role.rules.slice_size
    return f"; room for {int(found.sum()) // size} of {_many(-(-want // size), 'slice')} in all"


def _domains(count: int, level: Level) -> str:
    if not count:
        return "no node has this label"
    return f"{_many(count, 'domain')} of {level.name}" if level.name[-1].isdigit() else _many(count, level.name)


def _unlabelled(role: Role, level: Level, snapshot: Snapshot) -> str:
    """Nodes that would do if somebody labelled them."""
    outside, demand = level.outside().rows, snapshot.demand(role.requests)
    if not len(outside) or demand is None:
        return ""
    roomy = slots(snapshot.free[:, outside], demand) > 0
    count = int((roomy & snapshot.eligible(role.pods[0].selection)[outside]).sum())
    return f"; {_many(count, 'node')} with room in none, for want of this label" if count else ""


def _contradictions(level: Level) -> str:
    """Labels that contradict nesting: whoever reads the numbers must know that they are smaller for it."""
    if not level.torn:
        return ""
    named = ", ".join(level.torn[:3]) + ", ..." * (len(level.torn) > 3)
    return f"; {_many(len(level.torn), 'value')} of this label contradict the levels farther out: {named}"


def _scarce(requests: Requests) -> str:
    named = [(name, amount) for name, amount in requests if "/" in name]
    text = listed(
        f"{amount} {'GPU' + 's' * (amount != 1) if name.endswith('/gpu') else name}" for name, amount in named
    )
    return text or _words(requests)


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def _words(requests: Requests) -> str:
    return listed(_amount(name, amount) for name, amount in requests if name != "pods") or "a pod"


def _amount(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g} cpu"
    if name in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30:.4g} GiB {name}"
    return f"{amount} {name}"
