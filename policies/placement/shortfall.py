"""Why a gang has no placement, in numbers that a person can check: for the cluster, and for a required level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from policies.model import Pod, Selection, Toleration
from policies.placement.capacity import rooms
from policies.placement.closed import closed, describe
from policies.placement.columns import Mask
from policies.placement.relations import Relation
from policies.placement.request import Cap, Role, rows_of, shape_of
from policies.placement.rules import NONE_ASKED
from policies.placement.snapshot import Amounts, Domain, Level, Snapshot, kinds, slots
from policies.placement.spreading import Evenly
from policies.steps import Steps
from policies.words import amount, amounts, counted, devices, listed, many, plain_name

_EVERY_TAINT = (Toleration("", "Exists", "", ""),)
_TOGETHER = "; not enough for these and the gang's other members together"


@dataclass(frozen=True, slots=True)
class NearestDomain:
    """The domain that comes nearest to holding a role that requires its level.

    ``text``: how near it comes.
    ``kinds``: the resources that count. Workloads that use them in the domain are in the way.
    """

    text: str
    domain: Domain
    kinds: tuple[str, ...]


def explain(role: Role, want: int, snapshot: Snapshot, caps: Sequence[Cap]) -> Steps[str]:
    """The room of the cluster for such members, in numbers that a person can check with kubectl.

    The text also says whether ``want`` of them could ever fit.
    """
    pod = role.pods[0]
    eligible = snapshot.eligible(pod.selection)
    # Demands beyond room reduce the room of the role.
    as_is = role.rules is NONE_ASKED and role.relations is None and not caps
    roomy = (role.room if as_is else snapshot.room(pod.requests, pod.selection)) > 0
    count = np.count_nonzero(roomy)
    if count:
        what, small = _limits(pod, snapshot, eligible), ""
    else:
        small = _too_small(pod, snapshot, eligible)
        what = shortage(pod, snapshot, snapshot.free, eligible, with_most=not small)
    never = small or (yield from _even_empty(role, want, snapshot))
    parts = [f"{count} of {len(snapshot.names)} nodes have room for {what}", *([never] if never else [])]
    parts += _overcommitted(pod, snapshot, eligible)
    if not eligible.all():
        parts += describe((yield from closed(pod.selection, snapshot)), snapshot)
    if ours := [cap for cap in caps if cap.shape == shape_of(pod)]:
        if refused := int(roomy[rows_of([cap.node for cap in ours if not cap.most], snapshot)].sum()):
            parts.append(f"{counted(refused, 'node', 'was', 'were')} refused by kube-scheduler")
        if capped := rows_of([cap.node for cap in ours if cap.most], snapshot).size:
            parts.append(f"kube-scheduler lets fewer members in on {many(capped, 'node')}")
    return "; ".join(parts)


def suiting(selection: Selection, snapshot: Snapshot) -> Steps[Mask]:
    """The nodes that match the pod's selection, whatever their taints, and all nodes that are not ready."""
    chosen, ready = replace(selection, tolerations=_EVERY_TAINT), Selection(tolerations=_EVERY_TAINT)
    yield from snapshot.evaluated(chosen)
    yield from snapshot.evaluated(ready)
    matching: Mask = snapshot.eligible(chosen) | ~snapshot.eligible(ready)
    return matching


def _even_empty(role: Role, want: int, snapshot: Snapshot) -> Steps[str]:
    """A remark that no end of other workloads would suffice; empty if it might, or if no node would take a member."""
    demand, rules = snapshot.demand(role.requests), role.rules
    if demand is None or role.home is not None:
        return ""
    empty = slots(snapshot.allocatable, demand) * (yield from suiting(role.pods[0].selection, snapshot))
    if (at := rules.confining) is None:
        most, where = int(empty.sum()), "the nodes that match fit"
    else:
        want = min(want, rules.slice_size) if rules.required is None and rules.slice_size else want
        level = snapshot.levels[at]
        most, where = int(level.tally(empty)[0].max(initial=0)), f"the largest {level.name} fits"
    return f"even empty, {where} {most} of {want}" if 0 < most < want else ""


def _limits(pod: Pod, snapshot: Snapshot, eligible: Mask) -> str:
    """The resources that decide on some node how many such pods fit, those of most nodes first."""
    per_node = [snapshot.free[line] // much for line, much in snapshot.demand(pod.requests) or []]
    fewest = reduce(np.minimum, per_node) if per_node else []
    deciding = [int(np.count_nonzero((here == fewest) & eligible)) for here in per_node]
    counts = dict(zip((name for name, much in pod.requests if much > 0), deciding, strict=True))
    ordered = sorted(
        ((name, much) for name, much in pod.requests if counts.get(name)),
        key=lambda name_amount: -counts[name_amount[0]],
    )
    return listed(amount(name, much, up=True) for name, much in ordered) or amounts(pod.requests)


def shortage(pod: Pod, snapshot: Snapshot, there: Amounts, eligible: Mask, *, with_most: bool = False) -> str:
    """The resources that none of the ``eligible`` nodes has for the pod if ``there`` is free.

    If several resources are each short on some nodes, the text says on how many.
    ``with_most``: with the most that a node has free, if that is anything.
    """
    requests = [(name, much) for name, much in pod.requests if much > 0]
    if snapshot.demand(pod.requests) is None:
        return listed(amount(name, much, up=True) for name, much in requests if name not in snapshot.resources)
    here = {name: there[snapshot.resources[name]][eligible] for name, _ in requests}
    short = {name: int((here[name] < much).sum()) for name, much in requests}
    total = int(np.count_nonzero(eligible))
    if not total or not any(short.values()):
        return amounts(pod.requests)
    if everywhere := [(name, much) for name, much in requests if short[name] == total]:
        return listed(
            amount(name, much, up=True) + _at_most(name, int(here[name].max()) * with_most) for name, much in everywhere
        )
    scarce = sorted(
        ((name, much) for name, much in requests if short[name]), key=lambda name_amount: -short[name_amount[0]]
    )
    lacking = listed(f"{counted(short[name], 'node', 'lacks', 'lack')} {name}" for name, _ in scarce)
    return f"{listed(amount(name, much, up=True) for name, much in scarce)} together ({lacking})"


def _at_most(name: str, free: int) -> str:
    """The most that a node has free, in brackets. Empty if it is nothing: an overcommitted node has less than that."""
    return f" (at most {_bare(name, free)} free on a node)" if free > 0 else ""


def _bare(name: str, much: int) -> str:
    """An amount without the name of the resource."""
    return str(much) if name == "pods" else amount(name, much).removesuffix(f" {name}")


def in_the_way(role: Role, snapshot: Snapshot) -> str:
    """The pods that keep the role off nodes, in words, by number of nodes with room for a member; empty if nothing."""
    if role.relations is None:
        return ""
    pod, relation = role.pods[0], role.relations.of[role.index]
    roomy = snapshot.room(pod.requests, pod.selection) > 0
    counted_texts = [(int((obstacle.rows & roomy).sum()), obstacle.text) for obstacle in relation.hindrances]
    if (near := relation.near) is not None and (near.some or not near.itself):
        counted_texts.append((int((~near.within(near.counts) & roomy).sum()), "no pod near that its affinity asks for"))
    for even in relation.evenly:
        skewed = roomy & (even.codes >= 0) & ~even.within(even.counts)
        counted_texts.append((int(skewed.sum()), f"spread would exceed {_skew(even)}"))
    counts = sorted(
        ((count, text) for count, text in counted_texts if count),
        key=lambda count_text: (-count_text[0], count_text[1]),
    )
    texts = [f"{many(count, 'node') if not at else count}: {text}" for at, (count, text) in enumerate(counts)]
    left = roomy & ~relation.closed
    if left.any() and (among := listed(dict.fromkeys(_among(role, relation, left)))):
        texts.append(f"{many(int(left.sum()), 'node')} left for {many(role.count, 'member')} with {among}")
    return f"; {listed(texts, 8)}" if texts else ""


def _among(role: Role, relation: Relation, left: Mask) -> Iterator[str]:
    """Yield the demands of the members on each other, with the number of domains of those nodes where that decides."""
    for exclusion in relation.exclusions:
        here = exclusion.codes[left]
        domains = len(np.unique(here[here >= 0]))
        yield exclusion.text + f" ({many(domains, 'domain')})" * (domains < len(here))
    for even in relation.evenly:
        roomy = int(np.isin(even.domains, even.codes[left]).sum())
        least = even.spread.min_domains
        few = f", and minDomains is {least}" * (len(even.domains) < least)
        yield f"{_skew(even)} ({roomy} of {many(len(even.domains), 'domain')} with room{few})"
    if (near := relation.near) is not None and near.itself:
        for term, codes in zip(role.pods[0].constraints.affinity, near.codes, strict=True):
            most = int(np.bincount(codes + 1, np.where(left, role.room, 0))[1:].max(initial=0))
            yield f"affinity to each other by {term.key} (room for {most} in one domain)"


def _skew(even: Evenly) -> str:
    return f"maxSkew {even.spread.max_skew} by {even.spread.key}"


def _overcommitted(pod: Pod, snapshot: Snapshot, eligible: Mask) -> Iterator[str]:
    """Yield where more is in use than a node has, by resource of the pod: devices can vanish under pods."""
    for name, much in pod.requests:
        if not much or (line := snapshot.resources.get(name)) is None or snapshot.free[line].min(initial=0) >= 0:
            continue
        rows = np.flatnonzero(eligible & (snapshot.free[line] < 0))
        if not len(rows):
            continue
        first = rows[np.argmin(snapshot.rank[rows])]
        has = int(snapshot.allocatable[line, first])
        used = has - int(snapshot.free[line, first])
        more = f", and too much on {many(len(rows) - 1, 'other node')}" * (len(rows) > 1)
        yield f"{name}: {_bare(name, used)} of {_bare(name, has)} in use on {snapshot.names[first]}{more}"


def _too_small(pod: Pod, snapshot: Snapshot, eligible: Mask) -> str:
    """Why the pod would not fit on any of its nodes even if they were empty; empty if it would."""
    if not eligible.any():
        return ""
    demand = snapshot.demand(pod.requests)
    if demand is None:
        lacking = [name for name, much in pod.requests if much > 0 and name not in snapshot.resources]
        absent = [plain_name(name) for name in lacking]
        return f"no node offers {listed(absent)}"
    whole = snapshot.allocatable[:, eligible]
    if (slots(whole, demand) > 0).any():
        return ""
    most = {name: int(whole[snapshot.resources[name]].max()) for name, much in pod.requests if much > 0}
    short = [amount(name, most[name]) for name, much in pod.requests if much > most.get(name, much)]
    return (
        f"even empty, no node is large enough: at most {listed(short)}"
        if short
        else "even empty, no node has all of it"
    )


def nearest_domain(role: Role, want: int, roles: Sequence[Role], snapshot: Snapshot) -> NearestDomain | None:
    """The domain that comes nearest to room for ``want`` of a role; None if neither role nor slices require a level.

    ``roles``: all roles of the gang.
    """
    at, size = role.rules.confining if role.home is None else role.home[0], role.rules.slice_size
    if at is None:
        return None
    # The members of a slice start together or not at all.
    want = min(role.count, -(-want // size) * size) if size else want
    level, free_by_domain = snapshot.levels[at], rooms(role, at, snapshot.levels)
    roomiest = int(np.lexsort((level.rank, -free_by_domain))[0]) if free_by_domain.any() else None
    code = roomiest if role.home is None else role.home[1]
    if code is None:
        wanted = f", none has room for {f'a slice of {size}' if size else 'one'}" if level.inhabited() else ""
        domain, near = Domain("", np.zeros(0, dtype=np.intp)), _domains(level) + wanted
    else:
        domain, free = level.domain(code), many(int(free_by_domain[code]), f"free {_thing(role, level)}")
        free += f" in whole slices of {size}" if size else ""
        if role.home is None:
            near = f"{_domains(level)}, best has {free} ({domain.name})"
        else:
            near = f"its gang is in {domain.name}, which has {free}"
        if role.rules.required is not None or not size:
            short = want - int(free_by_domain[code])
            near += (
                _short(role, short, domain, level, snapshot)
                if short > 0
                else _TOGETHER + _all_of_it(roles, domain, snapshot)
            )
        elif (whole_slices := int(free_by_domain.sum()) // size) < (slices := -(-want // size)):
            near += f"; room for {whole_slices} of {many(slices, 'slice')} in all"
        else:
            near += _TOGETHER
    required = _requirement(role, want, at, snapshot)
    text = f"{required}: {near}{_unlabelled(role, level, snapshot)}{_contradictions(level)}"
    return NearestDomain(text, domain, kinds(role.requests))


def _requirement(role: Role, want: int, at: int, snapshot: Snapshot) -> str:
    rules = role.rules
    text = f"required {snapshot.levels[at].key} for {want} x {devices(role.requests)}"
    if rules.slice_size:
        text += f" in slices of {rules.slice_size}"
        text += "".join(f" made of {slice_.size}" for slice_ in reversed(rules.slices[:-1]))
        if at != rules.slice_level:
            text += f" that share {snapshot.levels[rules.slice_level].key} each"
    return text


def _thing(role: Role, level: Level) -> str:
    """The unit that takes one member: node or slot."""
    return "node" if int(role.room.max(initial=0)) <= 1 and not level.implied else "slot"


def _short(role: Role, short: int, domain: Domain, level: Level, snapshot: Snapshot) -> str:
    text = f"; {many(short, _thing(role, level))} short"
    if shut := int((~snapshot.eligible(role.pods[0].selection)[domain.rows]).sum()):
        text += f"; {shut} of its {many(len(domain.rows), 'node')} not ready or closed to the gang"
    return text


def _all_of_it(roles: Sequence[Role], domain: Domain, snapshot: Snapshot) -> str:
    """The amounts that the domain lacks for all members that require one; empty if the sums suffice."""
    requests_sum = Counter[str]()
    for role in roles:
        if role.rules.required is not None:
            requests_sum.update({name: much * role.count for name, much in role.requests if name in snapshot.resources})
    free = {
        name: int(np.maximum(snapshot.free[snapshot.resources[name], domain.rows], 0).sum()) for name in requests_sum
    }
    short = [
        f"{amount(name, much)} and find {_bare(name, free[name])} free"
        for name, much in requests_sum.items()
        if much > free[name]
    ]
    return f", which ask for {listed(short)}" if short else ""


def _domains(level: Level) -> str:
    count = level.inhabited()
    if not count:
        return "no node has this label"
    return f"{many(count, 'domain')} of {level.name}" if level.name[-1].isdigit() else many(count, level.name)


def _unlabelled(role: Role, level: Level, snapshot: Snapshot) -> str:
    """A remark about nodes that would serve if they were labelled."""
    outside, demand = level.outside().rows, snapshot.demand(role.requests)
    if not len(outside) or demand is None:
        return ""
    roomy = slots(snapshot.free[:, outside], demand) > 0
    count = int((roomy & snapshot.eligible(role.pods[0].selection)[outside]).sum())
    return f"; {counted(count, 'node', 'has', 'have')} room but not this label" if count else ""


def _contradictions(level: Level) -> str:
    """A remark about labels that contradict nesting, since they make the numbers smaller."""
    if not level.torn:
        return ""
    contradict = "contradicts" if len(level.torn) == 1 else "contradict"
    named = ", ".join(level.torn[:3]) + ", ..." * (len(level.torn) > 3)
    return f"; {many(len(level.torn), 'value')} of this label {contradict} the wider levels: {named}"
