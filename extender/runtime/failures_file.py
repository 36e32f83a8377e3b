"""The file in which a replica keeps what its core has failed on, from one life of the process to the next.

Nothing that is wrong with the file ends the process: what cannot be read or written is said, and forgotten.
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
    """``path`` is None where nothing is kept. Several replicas need a file each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last_problem = ""

    def read(self) -> Record:
        """Return what the last life of the process has written, or nothing."""
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
            log.warning("%s cannot be read, and is begun anew: %s", self._path, error)
            return Record()

    def write(self, record: Record) -> None:
        """Keep this, whatever happens to the process while it is written."""
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
    """Raises ValueError for what no Muster has written."""
    if len(record.entries) > MOST_ENTRIES:
        raise ValueError(f"it has more than {MOST_ENTRIES} objects")
    if not all(entry.uid and 0 <= entry.form <= _MOST_FORMS for entry in record.entries):
        raise ValueError("it has an object without a UID, or with a form that there is not")
    return record
