"""The file in which a replica keeps what its core has failed on, for the next start of the process.

No fault of the file ends the process. Unreadable content is logged and dropped, and so is a failed write.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from extender.runtime.quarantine import MOST_ENTRIES, Record

log = logging.getLogger("muster")

_MOST_BYTES = 4 << 20
_MOST_FORMS = 8
_DECODER = msgspec.json.Decoder(Record)


class FailuresFile:
    """The file of failures. ``path``: None to keep nothing. Each replica needs its own file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last_problem = ""

    def read(self) -> Record:
        """The record of the last process; empty without a readable one."""
        if self._path is None:
            return Record()
        try:
            with self._path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES} bytes")
            return _checked(_DECODER.decode(content))
        except FileNotFoundError:
            return Record()
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read, and is started again empty: %s", self._path, error)
            return Record()

    def write(self, record: Record) -> None:
        """Store the record so that the file is whole even if the process ends meanwhile."""
        if self._path is None:
            return self._say("the setting failures_file is empty: the next start does not know what the core failed on")
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.write_bytes(msgspec.json.encode(record))
            new.replace(self._path)
        except (OSError, ValueError) as error:
            self._say(f"{self._path} cannot be written: {error}; the next start does not know what the core failed on")

    def _say(self, problem: str) -> None:
        if problem != self._last_problem:
            log.error("%s", problem)
        self._last_problem = problem


def _checked(record: Record) -> Record:
    """Check the record. Raises ValueError for content that no Muster has written."""
    if len(record.entries) > MOST_ENTRIES:
        raise ValueError(f"it has more than {MOST_ENTRIES} objects")
    if not all(entry.uid and 0 <= entry.form <= _MOST_FORMS for entry in record.entries):
        raise ValueError("it has an object without a UID, or with a form that there is not")
    return record
