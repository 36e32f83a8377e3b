"""Existing nodes that are closed to a waiting gang: what opens them, each answer tried by planning the gang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, replace

import numpy as np

from extender.core.ledger.state import State
from extender.observe.explain.inquiry import NODE_NAMES, Inquiry
from extender.observe.explain.remedy import Help, Remedy, all_of
from policies.model import Node, Pod, Requirement, Selection, Taint, Terms, Toleration
from policies.placement.closed import Barrier, taint_text, terms_text
from policies.placement.columns import Holds, Label, Mask, NodeTaints, OneOf
from policies.placement.matching import reaches, tolerates
from policies.placement.place import Placed
from policies.placement.snapshot import Rows, Snapshot
from policies.steps import Steps, finish
from policies.words import counted, listed, many

_STATES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints of unusable nodes: such a node should be repaired, and its taint not be tolerated."""
_TAINTS = 3
_VALUES = 3

Change = Callable[[Selection], Selection]


def opening(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    """Changes that open enough nodes; if none does alone, changes that help."""
    advice = yield from _mended(state, question)
    advice += yield from _tolerated(question)
    advice += yield from _labelled(state, question)
    if not any(remedy.help is Help.OPEN for remedy in advice):
        advice += yield from _together(state, question)
    return advice


@dataclass(frozen=True, slots=True)
class Sound:
    """The taints that a node has while it is in service."""

    def of(self, node: Node) -> tuple[Taint, ...]:
        return tuple(taint for taint in node.taints if not taint.key.startswith(_STATES))


def _mended(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    """The repair of nodes with room that are cordoned, not ready, or tainted as unusable."""
    shut = _by_name(question, _shut(question))
    if not len(shut):
        return []
    # The plan may prefer nodes that are in service.
    for nodes_shut in (shut[: needed(question)], shut):
        plan = yield from question.plan(question.members, _opened(question.snapshot, nodes_shut))
        names = () if plan is None else {*plan.nodes.values()}
        used = [row for row in nodes_shut.tolist() if question.snapshot.names[row] in names]
        if used:
            return [Remedy(Help.OPEN, f"{_back(used)} (enough): {_named(state, question, used)}")]
    return [Remedy(Help.PART, f"{_back(shut)} (a help, but not enough): {_named(state, question, shut.tolist())}")]


def needed(question: Inquiry) -> int:
    """How many more nodes it needs, at least."""
    return max(1, question.want - question.fitting(question.anywhere.rows)) if question.one_to_a_node() else 1


def _back(rows: Sized) -> str:
    return f"put {many(len(rows), 'node')} with room back in service"


def _named(state: State, question: Inquiry, rows: Sequence[int]) -> str:
    nodes = _nodes(state, (question.snapshot.names[row] for row in rows))
    return all_of([f"{node.name} ({_standing(node)})" for node in nodes])


def _nodes(state: State, names: Iterable[str]) -> list[Node]:
    """The nodes of these names, each once. A node may be gone since its room was looked at."""
    return [node for name in dict.fromkeys(names) if (node := state.claims.nodes.get(name)) is not None]


def _by_name(question: Inquiry, mask: Mask) -> Rows:
    rows = np.flatnonzero(mask)
    return rows[np.argsort(question.snapshot.rank[rows])]


def _shut(question: Inquiry, change: Change = lambda selection: selection) -> Mask:
    """Nodes with room that it could use, with that change of its selection, if they were in service."""
    view, selection = question.snapshot, change(question.role.pods[0].selection)
    standing = view.others.fact(NodeTaints())
    out = standing.where(Holds(_is_out_of_service), len(view.names))
    room: Mask = out & ~question.eligible & (view.slots(question.role.requests) > 0)
    return room & _if_sound(view, selection)


def _is_out_of_service(taints: tuple[Taint, ...] | None) -> bool:
    return taints is None or any(taint.key.startswith(_STATES) for taint in taints)


def _if_sound(view: Snapshot, selection: Selection) -> Mask:
    """The nodes that admit such a pod while they are in service."""

    def admitted(taints: tuple[Taint, ...] | None) -> bool:
        hard = (taint for taint in taints or () if taint.effect != "PreferNoSchedule")
        return all(tolerates(selection.tolerations, taint) for taint in hard)

    count = len(view.names)
    mask = view.others.fact(Sound()).where(Holds(admitted), count) & finish(view.others.selected(selection))
    for terms in selection.held:
        mask = mask & finish(reaches(terms, view.others.fact, count))
    return mask


def _opened(view: Snapshot, rows: Rows) -> Snapshot:
    """The view with these nodes in service."""
    opened = np.zeros(len(view.names), dtype=np.bool_)
    opened[rows] = True

    def eligible(selection: Selection) -> Mask:
        mask: Mask = view.eligible(selection) | (opened & _if_sound(view, selection))
        return mask

    return replace(view, eligible=eligible)


def _standing(node: Node) -> str:
    """Why the node is out of service."""
    if not node.ready or node.unschedulable:
        return "cordoned" if node.ready else "not ready"
    return ", ".join(taint.key for taint in node.taints if taint.key.startswith(_STATES))


def _taints(question: Inquiry) -> list[Taint]:
    """The taints that close most nodes to it, except taints of unusable nodes."""
    causes = sorted(
        (cause for cause in question.causes if cause.cause.barrier is Barrier.TAINT), key=lambda closed: -closed.count
    )
    return [cause.cause.taint for cause in causes if not cause.cause.taint.key.startswith(_STATES)][:_TAINTS]


def _tolerating(taints: Sequence[Taint]) -> Change:
    more = tuple(Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in taints)
    return lambda selection: replace(selection, tolerations=(*selection.tolerations, *more))


def _tolerated(question: Inquiry) -> Steps[list[Remedy]]:
    """A toleration; of all taints if none alone suffices."""
    taints = _taints(question)
    for tolerated in [*([taint] for taint in taints), *([taints] if len(taints) > 1 else [])]:
        if (plan := (yield from _changed(question, _tolerating(tolerated)))) is not None:
            named, nodes = listed(map(taint_text, tolerated)), many(len(set(plan.nodes.values())), "node")
            where = f" or to ResourceFlavor {question.flavors[0]}" if _by_flavor(question) else ""
            change = f"add a toleration of {named} to its pods{where}, or take the taint off"
            return [Remedy(Help.OPEN, f"{change}: it would fit now, on {nodes}")]
    advice: list[Remedy] = []
    for taint in taints[:1]:
        count = next(cause.count for cause in question.causes if cause.cause.taint == taint)
        has = counted(count, "node", "has", "have")
        text = f"add a toleration of {taint_text(taint)} to its pods (a help): {has} this taint"
        advice.append(Remedy(Help.PART, text))
    return advice


def _by_flavor(question: Inquiry) -> bool:
    """Whether its pods get the tolerations of its flavor."""
    return bool(question.flavors) and question.gang.job is not None


def _labelled(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    """Labels for nodes without such a key, or a demand that its author may drop."""
    selection = question.role.pods[0].selection
    if question.held or question.named:
        return []
    advice: list[Remedy] = []
    terms = _wanted_labels(question)
    for together in [*([term] for term in terms), *([terms] if len(terms) > 1 else [])]:
        wanted = dict.fromkeys(label for term in together for label in term)
        if (plan := (yield from _changed(question, _not_contrary(tuple(wanted))))) is None:
            continue
        bare = [node.name for node in _nodes(state, plan.nodes.values()) if _lacks(node, tuple(wanted))]
        bare.sort(key=lambda name: question.snapshot.rank[question.snapshot.rows[name]])
        if not bare:
            continue
        # The plan may prefer nodes that have the labels.
        few = bare[: needed(question)]
        if len(few) < len(bare):
            few_do = yield from _changed(question, _not_contrary(tuple(wanted), few))
            bare = bare if few_do is None else few
        advice.append(Remedy(Help.OPEN, f"label {all_of(bare)} with {_pairs(tuple(wanted))}: it would fit there now"))
        break
    for key, value in selection.node_selector:
        if not _closes(question, (key, value)):
            continue
        if (plan := (yield from _changed(question, _deselected(key)))) is not None:
            values = sorted({node.labels[key] for node in state.claims.nodes.values() if key in node.labels} - {value})
            there = f" (nodes have {key}={listed(values, _VALUES)})" if values else ""
            take = f"take {key}={value} out of the node selector of its pods, or correct it{there}"
            nodes = many(len(set(plan.nodes.values())), "node")
            advice.append(Remedy(Help.EASE, f"{take}: it would fit now, on {nodes}"))
    if selection.affinity is not None and (plan := (yield from _changed(question, _unaffine))) is not None:
        nodes = many(len(set(plan.nodes.values())), "node")
        softer = f"make the node affinity {terms_text(selection.affinity)} preferred instead of required"
        advice.append(Remedy(Help.EASE, f"{softer}: it would fit now, on {nodes}"))
    return advice


def _together(state: State, question: Inquiry) -> Steps[list[Remedy]]:
    """A combination of nodes back in service, labels and tolerations, if more than one of these is needed."""
    taints, labels = _taints(question), _missing_labels(question)
    tolerate, relabel = _tolerating(taints), _not_contrary(labels)

    def change(selection: Selection) -> Selection:
        return relabel(tolerate(selection))

    shut = np.flatnonzero(_shut(question, change))
    plan = yield from question.plan(_with(question, change), _opened(question.snapshot, shut))
    if plan is None:
        return []
    out = {question.snapshot.names[row] for row in shut.tolist()}
    names = sorted({*plan.nodes.values()}, key=lambda name: question.snapshot.rank[question.snapshot.rows[name]])
    nodes = _nodes(state, names)
    parts = []
    if closed := [node.name for node in nodes if node.name in out]:
        parts.append(f"put {all_of(closed)} back in service")
    if bare := [node.name for node in nodes if _lacks(node, labels)]:
        parts.append(f"label {all_of(bare)} with {_pairs(labels)}")
    if used := [taint for taint in taints if any(taint in node.taints for node in nodes)]:
        parts.append(f"add a toleration of {listed(map(taint_text, used))} to its pods")
    return [Remedy(Help.OPEN, f"{', '.join(parts[:-1])} and {parts[-1]}: it would fit now")] if len(parts) > 1 else []


def _missing_labels(question: Inquiry) -> tuple[tuple[str, str], ...]:
    """The labels that it asks for and that some node lacks."""
    if question.held or question.named:
        return ()
    return tuple(dict.fromkeys(label for labels in _wanted_labels(question) for label in labels))


def _wanted_labels(question: Inquiry) -> list[tuple[tuple[str, str], ...]]:
    """The labels of its selector and of each flavor that some node lacks."""
    selection = question.role.pods[0].selection
    labels: list[tuple[tuple[str, str], ...]] = [((key, value),) for key, value in selection.node_selector]
    labels += [of_flavor for terms in selection.flavors if (of_flavor := _labels_of(terms))]
    return [wanted for wanted in labels if any(_closes(question, label) for label in wanted)]


def _pairs(labels: Sequence[tuple[str, str]]) -> str:
    return ",".join("=".join(label) for label in labels)


def _labels_of(terms: Terms) -> tuple[tuple[str, str], ...]:
    """The labels that a flavor's terms ask for; empty if they ask for anything else."""
    if len(terms) != 1 or not all(
        requirement.operator == "In" and len(requirement.values) == 1 for requirement in terms[0]
    ):
        return ()
    return tuple((requirement.key, requirement.values[0]) for requirement in terms[0])


def _closes(question: Inquiry, label: tuple[str, str]) -> bool:
    """Whether a node lacks that label. The node's name does not count as one."""
    key, value = label
    column = question.snapshot.others.fact(Label(key))
    return key not in NODE_NAMES and not column.where(OneOf((value,)), len(question.snapshot.names)).all()


def _lacks(node: Node, labels: Sequence[tuple[str, str]]) -> bool:
    return any(node.labels.get(key) != value for key, value in labels)


def _not_contrary(labels: Sequence[tuple[str, str]], among: Sequence[str] = ()) -> Change:
    """A change that accepts nodes with the labels, or without their keys; other values may serve other pods.

    ``among``: only these nodes, if any are named.
    """
    named = (Requirement("metadata.name", "In", tuple(among), is_field=True),) if among else ()

    def change(selection: Selection) -> Selection:
        wanted = dict(labels)
        selector = tuple(pair for pair in selection.node_selector if pair not in labels)
        flavors = tuple(terms for terms in selection.flavors if not set(_labels_of(terms)) & set(labels))
        free: tuple[Terms, ...] = tuple(
            ((Requirement(key, "In", (value,)),), (Requirement(key, "DoesNotExist", ()), *named))
            for key, value in wanted.items()
        )
        return replace(selection, node_selector=selector, flavors=(*flavors, *free))

    return change


def _deselected(key: str) -> Change:
    return lambda selection: replace(
        selection, node_selector=tuple(pair for pair in selection.node_selector if pair[0] != key)
    )


def _unaffine(selection: Selection) -> Selection:
    return replace(selection, affinity=None)


def _with(question: Inquiry, change: Change) -> list[Pod]:
    made: dict[Selection, Selection] = {}
    return [replace(pod, selection=made.setdefault(pod.selection, change(pod.selection))) for pod in question.members]


def _changed(question: Inquiry, change: Change) -> Steps[Placed | None]:
    """Plan its members with other demands on nodes."""
    return (yield from question.plan(_with(question, change)))
