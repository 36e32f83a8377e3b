"""Objects that are kept from the core, in part or in whole, because it has failed on them; and pauses of planning.

Pure: ``Runner`` and the simulator use the same one. They store what ``save`` receives, so that the next start of the
process begins with it. The caller's duties:

1. Pass every object that a watch shows through ``admit``, and call ``gone`` when it is deleted.
2. Call ``blame`` or ``blame_nobody`` for every failure of the core, before the process ends.
3. Show what ``on_trial`` returns, one by one, as soon as the core has recovered, and call ``acquit`` for each.
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
"""Most entries; the oldest are dropped. That many objects do not fail for reasons of their own."""
FAILURES, WITHIN_S = 3, 300.0
"""The number of failures without an object to blame, within that many seconds, that pauses planning for that long."""
REMEMBERED_S = 3600.0
"""Seconds for which failures of an object are remembered after it was shown again."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 1800.0
"""Pauses before an object that ended the process more than once is shown again; each is twice the last."""
_LONGEST_ERROR = 300
LEFT_OUT_NOTICE = "left out until they change, because the core failed on them"
"""The words of ``/readyz`` before the names of objects that are left out."""


class Source(NamedTuple):
    """A version of an object, as the API server has it. ``kind``: the name of the followed resource."""

    kind: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An object of which the core is shown only a part, or nothing.

    ``uid``: the object's UID.
    ``version``: its resourceVersion; empty until a watch has shown it.
    ``digest``: a hash of what was read of that version.
    ``form``: the index in ``bare`` of what is shown; beyond its end nothing is.
    ``suspect``: the core has failed on this object or another one. It is shown in full once the core has recovered.
    ``at_start``: the core failed while it recovered, so every start begins with this form.
    ``ends``: how often the object has recently ended the process.
    ``taken_in``: the object has changed since, and is shown in full.
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
        """The earliest instant at which another version of the object is shown."""
        pause_s = _FIRST_PAUSE_S * 2.0 ** min(self.ends - 2, 20)
        return self.at + (min(pause_s, _LONGEST_PAUSE_S) if self.ends > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Record:
    """The quarantine's state that outlives the process. Instants: seconds since the epoch.

    ``failures``: instants of failures without an object to blame.
    """

    entries: tuple[Entry, ...] = ()
    failures: tuple[float, ...] = ()
    paused_until: float = 0.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object that is left out, for people. ``namespace``: empty for a cluster-scoped one."""

    namespace: str
    object: Controller
    error: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.object.kind} {place}{self.object.name}"


@dataclass(slots=True)
class _Shown:
    """An object of ``entry`` as a watch has shown it to this core. ``changed``: it has changed since the failure."""

    entry: Entry
    source: Source
    event: Event
    changed: bool = False


class Quarantine:
    """Decides what the core is shown of objects that it has failed on.

    ``record``: what the last process left.
    ``save``: stores the state for the next one.
    ``clock``: seconds since the epoch.
    """

    def __init__(self, record: Record, save: Callable[[Record], None], clock: Callable[[], float]) -> None:
        self._save = save
        self._clock = clock
        # The clock may have been set back since; nothing must stay left out until an instant of the old time.
        now = clock()
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
        """The object's event to show to the core: in full, its bare facts, or None."""
        entry, changed = self._entries.get(source.uid), False
        if entry is None or entry.taken_in:
            return event
        if entry.version != source.version:
            digest = _digest(event)
            changed = bool(entry.version) and (entry.digest, entry.kind) != (digest, source.kind)
            if changed and (entry.suspect or self._clock() >= entry.due):
                self._take_in(source.uid)
                return event
            if not changed:  # The content that was read is equal: a heartbeat, for example.
                entry = replace(entry, kind=source.kind, version=source.version, digest=digest)
                self._entries[source.uid] = entry
        self._shown[source.uid] = _Shown(entry, source, event, changed)
        forms = bare(event)
        return forms[entry.form] if entry.form < len(forms) else None

    def gone(self, uid: str) -> None:
        """Forget an object that is gone."""
        if uid in self._entries:
            self._forget(uid)

    def on_trial(self) -> list[tuple[Event, Source]]:
        """The objects to show in full once the core has recovered: suspects, and objects that have changed."""
        now = self._clock()
        return [
            (shown.event, shown.source)
            for shown in self._shown.values()
            if shown.entry.suspect or (shown.changed and now >= shown.entry.due)
        ]

    @property
    def next_trial_s(self) -> float | None:
        """Seconds until the next changed object may be shown in full; None without one."""
        due = [shown.entry.due for shown in self._shown.values() if shown.changed]
        return max(0.0, min(due) - self._clock()) if due else None

    def acquit(self, uid: str) -> None:
        """Keep showing an object in full, on which the core has not failed."""
        entry = self._shown[uid].entry
        if entry.at_start:
            del self._shown[uid]
        elif entry.suspect:
            self._forget(uid)
        else:
            self._take_in(uid)

    def forget_unseen(self) -> None:
        """Forget objects that no list has shown. Call it once the core has recovered."""
        if self._entries:
            there = {uid: entry for uid, entry in self._entries.items() if uid in self._shown or entry.taken_in}
            self._entries = there
            self._save_record()

    def holds(self, uid: str) -> bool:
        """Whether the core is shown less than the full object."""
        return uid in self._shown

    def as_shown(self, event: Event, source: Source) -> Event | None:
        """The event that the core was shown of the object; changes no state."""
        if (shown := self._shown.get(source.uid)) is None:
            return event
        forms = bare(event)
        return forms[shown.entry.form] if shown.entry.form < len(forms) else None

    def left_out(self) -> list[LeftOut]:
        """The existing objects that the core is not shown in full."""
        objects = []
        for shown in self._shown.values():
            if (whose := named(shown.event)) is not None:
                namespace, controller = whose
                controller = controller._replace(uid=controller.uid or shown.source.uid)
                objects.append(LeftOut(namespace, controller, shown.entry.error))
        return objects

    # Failures.

    def blame(self, shown: Collection[tuple[Event, Source]], error: BaseException, state: State) -> str:
        """Record the object on which the core failed, or the suspects. Returns their names.

        If the core was concluding for a workload, the workload's objects are suspects. Of ``shown``, only objects of
        that workload are blamed then, if there are any.
        """
        of_workload = _objects_of(state)
        concerned = [
            event_source for event_source in shown if event_source[1].uid in (state.process.subject, *of_workload)
        ]
        culprits, others = concerned or list(shown), [] if concerned else of_workload
        ambiguous = len(culprits) + len(others) > 1
        for event, source in culprits:
            self._suspect(source.uid, error, event=event, source=source, suspect=ambiguous)
        for uid in others:
            self._suspect(uid, error, suspect=True)
        self._save_record()
        return ", ".join(_title(event) for event, _ in culprits[:5])

    def blame_workload(self, state: State, error: BaseException) -> str:
        """Blame the objects of the workload that the core was at when it failed to recover. Returns the workload's
        name.

        Without a workload, or with too many objects, no object is blamed, and the name is empty.
        """
        uids = _objects_of(state)
        if not uids:
            self.blame_nobody()
            return ""
        for uid in uids:
            self._suspect(uid, error, suspect=True, at_start=True)
        self._save_record()
        return str(state.process.subject)

    def blame_nobody(self) -> None:
        """Count a failure in a cycle, at a deadline or in a call; too many pause the planning."""
        now = self._clock()
        self._failures = (*(at for at in self._failures if now - WITHIN_S < at <= now), now)[-FAILURES:]
        # The first failure after a pause shows that the cause persists.
        if len(self._failures) >= FAILURES or self.paused_until > now - WITHIN_S:
            self.paused_until = now + WITHIN_S
        self._save_record()

    @property
    def pause_notice(self) -> str:
        """A notice that planning pauses, and for how long; empty if it does not."""
        if (pause_s := self.pause_s) <= 0:
            return ""
        return (
            f"nothing new is planned for {pause_s:.0f} s: the core has failed {FAILURES} times within "
            f"{WITHIN_S:.0f} s; what is planned or bound goes on"
        )

    @property
    def left_out_notice(self) -> str:
        """A notice about the objects that are left out; empty without any."""
        left_out = self.left_out()
        return f"{LEFT_OUT_NOTICE}: {listed(map(str, left_out), 10)}" if left_out else ""

    @property
    def pause_s(self) -> float:
        """How many more seconds planning pauses."""
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
        """Show less of the object from the next start on. A suspect is shown bare already, so its failure adds
        nothing."""
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
        """Show the object in full from now on, and remember its failures for a while."""
        self._entries[uid] = replace(self._entries[uid], taken_in=True)
        self._shown.pop(uid, None)
        self._save_record()

    def _forget(self, uid: str) -> None:
        self._entries.pop(uid, None)
        self._shown.pop(uid, None)
        self._save_record()

    def _save_record(self) -> None:
        now = self._clock()
        past = [uid for uid, entry in self._entries.items() if entry.taken_in and entry.at < now - REMEMBERED_S]
        for uid in past:
            del self._entries[uid]
        self._save(Record(tuple(self._entries.values()), self._failures, self.paused_until))


NOTHING_LEFT_OUT = Quarantine(Record(), lambda _: None, lambda: 0.0)
"""The quarantine of a core that has not failed."""


def _objects_of(state: State) -> list[str]:
    """The UIDs of all objects of the workload that the core is at; empty if there are too many."""
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
