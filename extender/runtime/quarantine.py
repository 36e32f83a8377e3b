"""Objects that the core is not shown as they are, because it has failed on them, and pauses of its planning.

Pure: ``Runner`` and the simulator use the same one, and keep what ``save`` is given, so that the next life of the
process begins with it. The caller's duties:

1. Pass every object that a watch shows through ``admit``, and tell ``gone`` when it is there no more.
2. Tell ``blame`` or ``blame_nobody`` about every failure of the core, before the process ends.
3. Show what ``on_trial`` returns, one by one, as soon as the core has recovered, and tell ``acquit`` of each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from extender.core.bare import bare, named
from extender.core.events import Event
from extender.core.ledger.state import State
from policies.model import Controller
from policies.words import listed

MOST_ENTRIES = 1024
"""The oldest entries beyond are dropped. So many objects do not fail for a reason of their own."""
FAILURES, WITHIN_S = 3, 300.0
"""After so many failures in so many seconds for which no object is to blame nothing new is planned, for as long."""
REMEMBERED_S = 3600.0
"""The failures of an object that was taken in again are remembered for so many seconds."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 1800.0
"""An object that has ended the process more than once is taken in no sooner: each time twice as long."""
_LONGEST_ERROR = 300
LEFT_OUT = "Muster has failed on this version of the pod, and leaves it out until it changes"
"""The answer to kube-scheduler about such a pod."""
LEFT_OUT_NOTICE = "left out until they change, because the core failed on them"
"""The words of ``/readyz`` before their names."""


class Source(NamedTuple):
    """One version of one object, as the API server has it. ``kind``: what the resource is called that is followed."""

    kind: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An object that the core is shown less of, or nothing.

    ``uid`` is the object's, ``version`` its resourceVersion, empty until it is shown. ``digest``: of what was read of
    that version. ``form``: the place in ``bare`` of what is shown; beyond its end nothing is. ``suspect``: the core
    has failed on this object or on another one, and is shown it as it is once it has recovered. ``at_start``: it has
    failed as it recovered, so every start of it shows the object in this way. ``ends``: how often the object has ended
    the process of late. ``taken_in``: it has changed since, and is shown as it is.
    """

    uid: str
    kind: str = ""
    version: str = ""
    digest: str = ""
    title: str = ""
    error: str = ""
    at: float = 0.0
    form: int = 0
    suspect: bool = False
    at_start: bool = False
    ends: int = 1
    taken_in: bool = False

    @property
    def due(self) -> float:
        """When another version of it is taken in at the earliest."""
        pause_s = _FIRST_PAUSE_S * 2.0 ** min(self.ends - 2, 20)
        return self.at + (min(pause_s, _LONGEST_PAUSE_S) if self.ends > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Record:
    """What outlives the process. Instants are in seconds since the epoch. ``failures``: those that blame nobody."""

    entries: tuple[Entry, ...] = ()
    failures: tuple[float, ...] = ()
    paused_until: float = 0.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object that the core is not shown as it is, for people. ``namespace`` is empty where it has none."""

    namespace: str
    object: Controller
    error: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.object.kind} {place}{self.object.name}"


@dataclass(slots=True)
class _Shown:
    """An object of ``entry`` as a watch has shown it in this life of the core. ``changed``: since it has failed."""

    entry: Entry
    source: Source
    event: Event
    changed: bool = False


class Quarantine:
    """``record``: what the last life left. ``save`` keeps what the next one is to know. ``clock``: since the epoch."""

    def __init__(self, record: Record, save: Callable[[Record], None], clock: Callable[[], float]) -> None:
        self._save = save
        self._clock = clock
        now = clock()  # It may have been put back since, and nothing is left out until an instant of then.
        entries = record.entries[-MOST_ENTRIES:]
        self._entries = {entry.uid: replace(entry, at=min(entry.at, now)) for entry in entries}
        self._failures = record.failures
        self.paused_until = record.paused_until if record.paused_until <= now + WITHIN_S else 0.0
        self._shown: dict[str, _Shown] = {}

    def start_over(self) -> None:
        """Begin with a new core, which has been shown nothing."""
        self._shown.clear()

    # Objects.

    def admit(self, event: Event, source: Source) -> Event | None:
        """Return what the core is to be shown of the object: all of it, its bare facts, or nothing."""
        entry, changed = self._entries.get(source.uid), False
        if entry is None or entry.taken_in:
            return event
        if entry.version != source.version:
            digest = _digest(event)
            changed = bool(entry.version) and (entry.digest, entry.kind) != (digest, source.kind)
            if changed and (entry.suspect or self._clock() >= entry.due):
                self._take_in(source.uid)
                return event
            if not changed:  # What was read is the same as before: a heartbeat, say.
                entry = replace(entry, kind=source.kind, version=source.version, digest=digest)
                self._entries[source.uid] = entry
        self._shown[source.uid] = _Shown(entry, source, event, changed)
        forms = bare(event)
        return forms[entry.form] if entry.form < len(forms) else None

    def gone(self, uid: str) -> None:
        """Forget an object that is there no more."""
        if uid in self._entries:
            self._forget(uid)

    def on_trial(self) -> list[tuple[Event, Source]]:
        """Return what the core is to be shown as it is, once it has recovered: suspects, and what has changed."""
        now = self._clock()
        return [
            (one.event, one.source)
            for one in self._shown.values()
            if one.entry.suspect or (one.changed and now >= one.entry.due)
        ]

    @property
    def next_trial_s(self) -> float | None:
        """In how many seconds the next object that has changed may be shown as it is."""
        due = [one.entry.due for one in self._shown.values() if one.changed]
        return max(0.0, min(due) - self._clock()) if due else None

    def acquit(self, uid: str) -> None:
        """Take in what the core was shown as it is, and has not failed on."""
        entry = self._shown[uid].entry
        if entry.at_start:
            del self._shown[uid]
        elif entry.suspect:
            self._forget(uid)
        else:
            self._take_in(uid)

    def forget_unseen(self) -> None:
        """Forget the objects that no list has shown: call it once the core has recovered."""
        if self._entries:
            there = {uid: entry for uid, entry in self._entries.items() if uid in self._shown or entry.taken_in}
            self._entries = there
            self._keep()

    def holds(self, uid: str) -> bool:
        """Say whether the core knows less of the object than there is."""
        return uid in self._shown

    def as_shown(self, event: Event, source: Source) -> Event | None:
        """Return what the core was shown of the object, without any consequence."""
        if (shown := self._shown.get(source.uid)) is None:
            return event
        forms = bare(event)
        return forms[shown.entry.form] if shown.entry.form < len(forms) else None

    def left_out(self) -> list[LeftOut]:
        """Return the objects that are there and that the core is not shown as they are."""
        found = []
        for one in self._shown.values():
            if (whose := named(one.event)) is not None:
                namespace, controller = whose
                controller = controller._replace(uid=controller.uid or one.source.uid)
                found.append(LeftOut(namespace, controller, one.entry.error))
        return found

    # Failures.

    def blame(self, shown: Collection[tuple[Event, Source]], error: BaseException, state: State) -> str:
        """Note on which object the core has failed, or which are suspects. Returns their names.

        If the core was at the conclusions for a workload, the objects of that are suspects, besides those ``shown``
        that are none of them.
        """
        of_workload = _objects_of(state)
        concerned = [one for one in shown if one[1].uid in (state.process.subject, *of_workload)]
        culprits, others = concerned or list(shown), [] if concerned else of_workload
        ambiguous = len(culprits) + len(others) > 1
        for event, source in culprits:
            self._suspect(source.uid, error, event=event, source=source, suspect=ambiguous)
        for uid in others:
            self._suspect(uid, error, suspect=True)
        self._keep()
        return ", ".join(_title(event) for event, _ in culprits[:5])

    def blame_workload(self, state: State, error: BaseException) -> str:
        """Note the objects of the workload that the core has failed on before it had recovered. Returns its name.

        Without one, or where it has too many objects, nobody is to blame, and the name is empty.
        """
        uids = _objects_of(state)
        if not uids:
            self.blame_nobody()
            return ""
        for uid in uids:
            self._suspect(uid, error, suspect=True, at_start=True)
        self._keep()
        return str(state.process.subject)

    def blame_nobody(self) -> None:
        """Count a failure in a cycle, at a deadline or in a call; after too many plan nothing new for a while."""
        now = self._clock()
        self._failures = (*(at for at in self._failures if now - WITHIN_S < at <= now), now)[-FAILURES:]
        # The first failure after a pause shows that nothing has become better.
        if len(self._failures) >= FAILURES or self.paused_until > now - WITHIN_S:
            self.paused_until = now + WITHIN_S
        self._keep()

    @property
    def pause_notice(self) -> str:
        """Return that nothing new is planned, and for how long; empty while it is."""
        if (pause_s := self.pause_s) <= 0:
            return ""
        return (
            f"nothing new is planned for {pause_s:.0f} s: the core has failed {FAILURES} times within "
            f"{WITHIN_S:.0f} s; what is planned or bound goes on"
        )

    @property
    def left_out_notice(self) -> str:
        """Return which objects are left out; empty for none."""
        left_out = self.left_out()
        return f"{LEFT_OUT_NOTICE}: {listed(map(str, left_out), 10)}" if left_out else ""

    @property
    def pause_s(self) -> float:
        """For how many seconds from now nothing new is planned."""
        return max(0.0, self.paused_until - self._clock())

    def _suspect(
        self,
        uid: str,
        error: BaseException,
        *,
        suspect: bool,
        at_start: bool = False,
        event: Event | None = None,
        source: Source | None = None,
    ) -> None:
        """Show less of it from the next life on. What was a suspect is bare already: that was no reason to fail."""
        known, shown = self._entries.pop(uid, None), self._shown.get(uid)
        tried = known is not None and event is not None and shown is not None and event is shown.event
        form = 0 if known is None or known.taken_in else known.form if tried else known.form + 1
        entry = Entry(uid, ends=0) if known is None else replace(known, taken_in=False)
        entry = replace(entry, ends=entry.ends + (not entry.suspect))
        if source is not None and event is not None:
            original = shown.event if shown is not None else event
            entry = replace(entry, kind=source.kind, version=source.version, digest=_digest(original))
            entry = replace(entry, title=_title(original))
        text = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR].encode("utf-8", "replace").decode()
        self._entries[uid] = replace(entry, error=text, at=self._clock(), form=form, suspect=suspect, at_start=at_start)
        while len(self._entries) > MOST_ENTRIES:
            del self._entries[next(iter(self._entries))]

    def _take_in(self, uid: str) -> None:
        """Have it shown as it is, and remember for a while that it has failed."""
        self._entries[uid] = replace(self._entries[uid], taken_in=True)
        self._shown.pop(uid, None)
        self._keep()

    def _forget(self, uid: str) -> None:
        self._entries.pop(uid, None)
        self._shown.pop(uid, None)
        self._keep()

    def _keep(self) -> None:
        now = self._clock()
        past = [uid for uid, one in self._entries.items() if one.taken_in and one.at < now - REMEMBERED_S]
        for uid in past:
            del self._entries[uid]
        self._save(Record(tuple(self._entries.values()), self._failures, self.paused_until))


NOTHING_LEFT_OUT = Quarantine(Record(), lambda _: None, lambda: 0.0)
"""The quarantine of a core that has not failed."""


def _objects_of(state: State) -> list[str]:
    """Return the UIDs of all objects of the workload that the core is at; none where there are too many."""
    workload = state.workloads.get(state.process.subject) if isinstance(state.process.subject, tuple) else None
    if workload is None:
        return []
    uids = [member.uid for member in workload.members]
    uids += [] if workload.job is None else [workload.job.seen.uid]
    uids += [] if workload.group is None else [workload.group.uid]
    return uids if len(uids) <= MOST_ENTRIES // 2 else []


def _digest(event: Event) -> str:
    return sha256(repr(event).encode("utf-8", "replace")).hexdigest()[:32]


def _title(event: Event) -> str:
    whose = named(event)
    return type(event).__name__ if whose is None else str(LeftOut(*whose, error=""))
