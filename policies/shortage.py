"""Why a gang has no placement, in numbers that a person can check: for the cluster, and for a required level."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from policies.ask import Role, rows_of
from policies.model import Pod, Requests
from policies.snapshot import Domain, Snapshot


@dataclass(frozen=True, slots=True)
class Miss:
    """The domain that comes nearest to holding a role that requires its level; ``text`` says how near."""

    text: str
    domain: Domain


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


def nearest_miss(role: Role, snapshot: Snapshot) -> Miss | None:
    """For a role that requires a level or whose slices do; None for any other."""
    rules = role.rules
    at = rules.required if rules.required is not None else rules.slice_level if rules.slice_size else None
    if at is None:
        return None
    level, asked = snapshot.levels[at], f"{role.count} x {_scarce(role.requests)}"
    if rules.required is None:
        asked += f" in slices of {rules.slice_size}"
    domains = int((level.tally(np.ones(len(level.codes), dtype=np.int64))[0] > 0).sum())
    text = f"required {level.key} for {asked}: {_many(domains, level.name)}"
    found = level.tally(role.room)[0]
    if not found.any():
        return Miss(f"{text}, none has room for one", Domain("", np.zeros(0, dtype=np.intp)))
    code = int(np.lexsort((level.rank, -found))[0])
    thing = "node" if int(role.room.max()) == 1 else "slot"
    text += f", best has {int(found[code])} free {thing}{'s' * (int(found[code]) != 1)} ({level.names[code]})"
    want = role.count if rules.required is not None else rules.slice_size
    if (short := want - int(found[code])) > 0:
        text += f"; {_many(short, thing)} short"
    return Miss(text, level.domain(code))


def _scarce(requests: Requests) -> str:
    named = [(name, amount) for name, amount in requests if "/" in name]
    text = ", ".join(
        f"{amount} {'GPU' + 's' * (amount != 1) if name.endswith('/gpu') else name}" for name, amount in named
    )
    return text or _words(requests)


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def _words(requests: Requests) -> str:
    named = [f"{amount / 1000:g} cpu" if name == "cpu" else f"{amount} {name}" for name, amount in requests]
    return ", ".join(text for text, (name, _) in zip(named, requests, strict=True) if name != "pods") or "a pod"
