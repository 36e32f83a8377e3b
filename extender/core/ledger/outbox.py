"""The outbox: effects that the driver carries out when the event ends, and which bind requests they answer."""

from __future__ import annotations

from extender.core.effects import AnswerBind, Effect, PostBinding
from extender.core.ledger.store import Store
from extender.core.workload.members import Member
from extender.core.workload.release import BindCalls, Binding
from extender.core.workload.workload import Workload
from policies.model import Pod


class Outbox:
    """Effects in the order in which they are to be carried out."""

    def __init__(self, store: Store, binds: BindCalls) -> None:
        self._store = store
        self._binds = binds
        self._effects: list[Effect] = []

    def append(self, effect: Effect) -> None:
        """Have the effect carried out after those that are there."""
        self._effects.append(effect)

    def drain(self) -> list[Effect]:
        """Return all effects, and keep none."""
        effects, self._effects = self._effects, []
        return effects

    def post(self, pod: Pod, binding: Binding, expires: float, marks: dict[str, str], *, again: bool = False) -> None:
        """Ask for a Binding with these annotations. ``again``: as in PostBinding."""
        self._binds.write(pod.uid, binding)
        where = pod.uid, pod.namespace, pod.name, binding.node
        self.append(PostBinding(*where, tuple(binding.calls), expires, marks, binding.workload, again))

    def answer(self, call: int, error: str) -> None:
        """End a bind request; an empty error means that the pod is bound."""
        self._binds.let_go(call)
        self.append(AnswerBind(call, error))

    def answer_hold(self, workload: Workload, member: Member, error: str) -> None:
        """End the bind request of a member, if one waits."""
        if (hold := workload.members.let_go(member)) is not None:
            self.answer(hold.call, error)
            self._store.mark_dirty(workload)
