"""A gang as the API shows it (``extender.api.models``), made of the core's state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from extender.api.models import ExpectedStart, GangView, MemberView
from extender.core.explain.reasons import reason_of, turn_text
from extender.core.ledger.state import State
from extender.core.workload.members import Member, MemberState
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Workload
from policies.model import Controller, Pod
from policies.model.mentions import full
from policies.words import natural


def marked(text: str, _namespace: str) -> str:
    """Leave the mentions in a text as they are; the reader of the view renders them (``policies.model.mentions``)."""
    return text


def view(state: State, gang: Workload, now: float, render: Callable[[str, str], str] = full) -> GangView:
    """The gang as of ``now``. ``render``: how its texts are written, given its namespace."""
    reasons, reason = gang.reason_state, reason_of(gang.reason_state.cause)
    return GangView(
        namespace=gang.key.namespace,
        name=gang.key.name,
        state=reason.code,
        message=render(reason.message, gang.key.namespace),
        for_s=round(now - reasons.since, 3) if reasons.since else 0.0,
        min_member=gang.min_member,
        members=len(gang.members.live),
        bound=len(gang.members.bound),
        held=len(gang.members.holds),
        waiting=gang.reached(Stage.THERE) - gang.reached(Stage.PROMISED),
        waiting_on_nodes={cap.node: round(until - now, 1) for cap, until in gang.retries.remembered() if until > now},
        pods=[_member(member) for member in sorted(gang.members, key=lambda member: _by_rank(member.pod))],
        story=[(round(now - at, 3), render(turn_text(turn), gang.key.namespace)) for at, turn in reasons.story],
        status=gang.status.value,
        status_for_s=round(now - gang.status.since, 3),
        statuses=[(round(now - at, 3), status) for at, status in gang.status.steps],
        objects=_objects(gang),
        expected=_expected(state, gang, render),
    )


def _expected(state: State, gang: Workload, render: Callable[[str, str], str]) -> ExpectedStart | None:
    """The expected start, to the second, since nothing is known more exactly."""
    if (expectation := state.expectations.of.get(gang.key)) is None:
        return None
    start, earliest, latest, as_of = (
        datetime.fromtimestamp(round(instant - state.process.wall_offset), UTC)
        for instant in (expectation.start, expectation.earliest, expectation.latest, expectation.as_of)
    )
    after = "" if expectation.after is None else render(expectation.after.mention, gang.key.namespace)
    return ExpectedStart(
        start=start, earliest=earliest, latest=latest, as_of=as_of, after=after, rests_on=expectation.rests_on
    )


def _objects(gang: Workload) -> list[str]:
    """The job and the PodGroup first, then the owner of each member."""
    makers: dict[Controller, None] = {}
    if gang.job is not None:
        makers[gang.job.seen.owner] = None
    if gang.group is not None and gang.group.job is not None:
        makers[gang.group.job] = None
    groups = [] if gang.group is None else [f"podgroup/{gang.group.key.name}"]
    owners = dict.fromkeys(pod.group.owner for pod in gang.live if pod.group is not None and pod.group.owner)
    makers |= dict.fromkeys(pod.controller for pod in gang.live if pod.controller is not None)
    named = [f"{maker.kind.lower()}/{maker.name}" for maker in makers]
    return list(dict.fromkeys([*named, *groups, *(owner.replace("-", "/", 1) for owner in owners)]))


_STATES = {
    MemberState.BINDING: "Binding",
    MemberState.HELD: "Held",
    MemberState.ASSUMED: "Placed",
    MemberState.UNKNOWN: "Placed",
}


def _by_rank(pod: Pod) -> tuple[object, ...]:
    """A key that orders pods by index, and pods without one by their names, as people count."""
    series, index, *_ = pod.rank
    return series, index, natural(pod.name) if pod.index is None else (), pod.name, pod.uid


def _member(member: Member) -> MemberView:
    pod = member.pod
    if pod.terminal:
        state = pod.phase
    elif pod.node:
        state = "Bound"
    elif member.hold is not None:
        state = "Held"
    else:
        state = _STATES.get(member.state, "Gated" if pod.gates else "Waiting")
    return MemberView(name=pod.name, uid=pod.uid, node=pod.node or member.node or None, state=state)
