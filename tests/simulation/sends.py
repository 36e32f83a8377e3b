"""The writes of the driver: each once at a time, while it is wanted, and the newest last."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from extender.core.answers import BindingPosted, JobWritten, Nominated, Outcome, Ungated
from extender.core.effects import CleanJob, Effect, Milestone, Nominate, PostBinding, Reached, StartJob, SuspendJob
from extender.core.events import Event
from extender.runtime.requests import ApiCall, Response
from policies.model import Pod
from tests.simulation.claims import Claims
from tests.simulation.shown import RELEASE, Shown

_SILENT_S = 7.0
"""An attempt at a write takes at most 5 s and the pause after it 1 s: a working API server answers within that time."""
_LONGEST_SILENCE_S = 115.0


class Sends:
    """The writes in one life of the extender. ``at_once``: how many of its requests may be under way."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._under_way: list[ApiCall] = []
        self._newest: dict[str, str | None] = {}
        """Pod UID -> the node of the nomination that the core asked for last."""
        self._sent: dict[str, str | None] = {}
        """The node of the nomination that was sent last, by pod UID."""
        self._failed: dict[str, None] = {}
        """Pods whose last nomination could not be written, as reported to the core."""
        self._bindings: dict[str, None] = {}
        """Pods of which Bindings were sent."""
        self._heard_at = 0.0
        """The time of the API server's last answer of any kind."""

    def hear(self, event: Event) -> None:
        if isinstance(event, Nominated) and event.detail and event.node == self._newest.get(event.uid, ""):
            self._failed[event.uid] = None

    def ask(self, effect: Effect) -> None:
        if isinstance(effect, Nominate):
            self._newest[effect.uid] = effect.node
            self._failed.pop(effect.uid, None)

    def begin(self, call: ApiCall, waited_for: Container[int], now: float) -> str | None:
        """The fault of sending this now. ``waited_for``: bind calls that still wait for their answer."""
        if len(self._under_way) >= self._at_once:
            return f"{call} is sent when {len(self._under_way)} requests are under way already"
        if isinstance(call, PostBinding | Nominate) and any(self._is_like(call, other) for other in self._under_way):
            return f"{call} is sent while an earlier one of the pod is under way"
        if isinstance(call, StartJob | SuspendJob | CleanJob) and any(
            _is_of_job(call, other) for other in self._under_way
        ):
            return f"{call} is sent while an earlier write to the job is under way"
        self._under_way.append(call)
        if isinstance(call, PostBinding):
            self._bindings[call.uid] = None
        match call:
            case PostBinding() if now > call.deadline:
                return f"{call} is sent after its deadline"
            case PostBinding() if not any(call in waited_for for call in call.calls):
                return f"{call} is sent, and nobody waits for it"
            case Nominate(uid, node=node):
                self._sent[uid] = node
            case _:
                pass
        return None

    def pardon(self, until: float) -> None:
        """Expect no answers until then: the extender stands still."""
        self._heard_at = max(self._heard_at, until)

    def judge_end(self, event: Event, now: float) -> str | None:
        """Check that no write that a plan needs is abandoned while the API server answers nothing."""
        match event:
            case Nominated(detail=str(detail)) | Ungated(detail=str(detail)):
                failed = bool(detail)
            case JobWritten(outcome=outcome):
                failed = outcome is not Outcome.DONE
            case _:
                return None
        silent_s = now - self._heard_at
        if not failed or not _SILENT_S < silent_s < _LONGEST_SILENCE_S:
            return None
        return f"{event} comes when the API server has answered nobody for {silent_s:.1f} s"

    def judge_rest(self, pods: Mapping[str, Pod]) -> Iterator[str]:
        """Check the nominations when nothing is on its way any more. ``pods``: the existing pods."""
        for uid, node in self._newest.items():
            waits = uid in pods and not pods[uid].node and uid not in self._failed
            if waits and self._sent.get(uid, "") != node:
                yield f"{uid} was to be nominated for {node}, and the last that was sent is {self._sent.get(uid)}"

    def judge_forgotten(self, uids: Iterable[str]) -> str | None:
        """Check that the core, which alone can, has cleared the nominations of these pods without a promise."""
        for uid in uids:
            if node := self._newest.get(uid):
                return f"{uid} is told to be forgotten, and keeps its nomination for {node}"
        return None

    def end(self, call: ApiCall, response: Response, now: float) -> None:
        self._under_way.remove(call)
        if response.status:
            self._heard_at = max(self._heard_at, now)  # answers that land while it stands still extend no patience

    def judge_outcome(self, event: BindingPosted, binding: PostBinding, pod: Pod | None) -> str | None:
        """Check the reported outcome of a Binding. ``pod``: as it is, whatever the watch has shown.

        While a Binding waits to be sent, one of an earlier life may be written: it does not count.
        """
        if pod is None:
            return None
        written = pod.node == binding.node
        if event.outcome is Outcome.DONE and not written:
            return f"{binding} is reported as written, and the pod is on {pod.node}"
        release = None if pod.stamp is None else pod.stamp.release
        ours = event.uid in self._bindings and release == binding.annotations.get(RELEASE)
        if event.outcome is Outcome.REFUSED and written and ours:
            return f"{binding} is reported as refused ({event.detail}), and was written"
        return None

    @staticmethod
    def _is_like(call: PostBinding | Nominate, other: ApiCall) -> bool:
        return type(other) is type(call) and other.uid == call.uid


def to_be_forgotten(effects: Iterable[Effect], claims: Claims, shown: Shown) -> list[str]:
    """The pods whose promises these effects revoke, before ``claims`` knows of it.

    kube-scheduler clears the nominations of held pods, with the bind that fails. A pod that may have been bound is
    steered nowhere else.
    """
    gangs = dict.fromkeys(
        effect.key for effect in effects if isinstance(effect, Reached) and effect.milestone is Milestone.FORGOTTEN
    )
    held = claims.calls.values()
    sure = {uid: claim for uid, claim in claims.promised.items() if claims.doubts.get(uid) is None}
    promised = [uid for uid, claim in sure.items() if claim.gang in gangs and uid not in held]
    return [uid for uid in promised if (pod := shown.pods.get(uid)) is not None and pod.live and not pod.node]


def _is_of_job(call: StartJob | SuspendJob | CleanJob, other: ApiCall) -> bool:
    return isinstance(other, StartJob | SuspendJob | CleanJob) and other.job.uid == call.job.uid
