"""Files that a command writes: checked before the work begins, and written as a whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

STANDARD_OUTPUT = Path("-")
"""Written to standard output instead of a file of that name."""


class OutputError(ValueError):
    """Nothing can be written there; the message says why."""


class Output:
    """An output file, which exists only after ``write``."""

    def __init__(self, path: Path) -> None:
        """Check that the file can be written. Raises OutputError."""
        self.path = path
        self._end = path.resolve()
        self._part = self._end.parent / f".{self._end.name}.{os.getpid()}.part"
        if path == STANDARD_OUTPUT:
            return
        if not self._end.parent.is_dir():
            raise OutputError(f"there is no directory {path.parent}")
        if self._end.is_dir():
            raise OutputError(f"{path} is a directory; name a file")
        if self._end.exists() and not os.access(self._end, os.W_OK):
            raise OutputError(f"{path} is write-protected")
        if not self._is_special():
            try:
                self._part.touch()
                self._part.unlink()
            except OSError as error:
                raise OutputError(f"{path}: {error.strerror}") from None

    def write(self, content: bytes) -> None:
        """Write all of the content or nothing. Raises OutputError."""
        try:
            if self.path == STANDARD_OUTPUT:
                if sys.stdout is None:  # closed by the shell: muster ... >&-
                    raise OutputError("standard output is closed")
                sys.stdout.buffer.write(content)
                sys.stdout.buffer.flush()
            elif self._is_special():
                self._end.write_bytes(content)
            else:
                self._part.write_bytes(content)
                if self._end.exists():
                    shutil.copymode(self._end, self._part)
                self._part.replace(self._end)
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}") from None
        finally:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)

    def _is_special(self) -> bool:
        """Whether the path is a device or a pipe, which is written to and never replaced by a file."""
        return self._end.exists() and not self._end.is_file()


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Check that no two outputs are one file, and that no output is an input. Raises OutputError.

    ``outputs``, ``inputs``: by the names of the options.
    """
    named = [(name, path) for name, path in outputs.items() if path is not None]
    read = [(name, path) for name, path in inputs.items() if path is not None]
    for at, (name, path) in enumerate(named):
        for other, there in (*named[:at], *read):
            if path.resolve() == there.resolve():
                raise OutputError(f"{other} and {name} are the same file: {path}")
