"""What /gangs shows of a gang: the public, read-only picture of the core's state."""

from __future__ import annotations

from pydantic import BaseModel

from extender.core.gang import Gang
from extender.core.roster import Stage


class MemberView(BaseModel):
    """One pod of a gang. ``state``: Waiting, Gated, Placed, Held, Binding, Bound, or the pod's own end phase."""

    name: str
    uid: str
    node: str | None
    state: str


class GangView(BaseModel):
    """A gang and why it is where it is, ``for_s`` seconds. ``story``: (seconds ago, what happened), oldest first.

    ``waiting``: members that have no node and no plan for one.
    """

    namespace: str
    name: str
    state: str
    message: str
    for_s: float
    min_member: int | None
    members: int
    bound: int
    held: int
    waiting: int
    waiting_on_nodes: dict[str, float]
    pods: list[MemberView]
    story: list[tuple[float, str]]


def view(gang: Gang, now: float) -> GangView:
    """The gang as of ``now``; ``waiting_on_nodes``: nodes kube-scheduler refused -> seconds until they are retried."""
    return GangView(
        namespace=gang.key.namespace,
        name=gang.key.name,
        state=gang.reason.code,
        message=gang.reason.message,
        for_s=round(now - gang.reason_since, 3) if gang.reason_since else 0.0,
        min_member=gang.min_member,
        members=len(gang.live),
        bound=len(gang.bound),
        held=len(gang.holds),
        waiting=gang.reached(Stage.THERE) - gang.reached(Stage.PROMISED),
        waiting_on_nodes={node: round(until - now, 1) for node, until in gang.refused.items() if until > now},
        pods=[_member(gang, uid) for uid in gang.members],
        story=[(round(now - at, 3), text) for at, text in gang.story],
    )


def _member(gang: Gang, uid: str) -> MemberView:
    pod = gang.members[uid]
    if pod.terminal:
        state = pod.phase
    elif pod.node:
        state = "Bound"
    elif uid in gang.posting:
        state = "Binding"
    elif uid in gang.holds:
        state = "Held"
    elif uid in gang.placement:
        state = "Placed"
    else:
        state = "Gated" if pod.gates else "Waiting"
    return MemberView(name=pod.name, uid=uid, node=pod.node or gang.placement.get(uid), state=state)
