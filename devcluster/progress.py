"""How long steps are shown while they run: one line that is rewritten on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

Progress = Callable[[str], None]

# In a log a line every few seconds is noise; a line now and then shows that the build is alive.
PLAIN_LINE_EVERY_S = 15.0


def silent(_message: str) -> None:
    """Show nothing: the default in tests and libraries."""


class Terminal:
    """Call it with the current step; call `done` once so that the next output starts on a line of its own."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._rewrite = self._stream.isatty()
        self._step = ""
        self._printed_at = 0.0

    def __call__(self, message: str) -> None:
        if self._rewrite:
            self._stream.write(f"\r\x1b[2K{message}")
        elif self._is_news(message):
            self._stream.write(f"{message}\n")
        self._stream.flush()

    def done(self) -> None:
        if self._rewrite:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()

    def _is_news(self, message: str) -> bool:
        """Whether the step (the words before the elapsed seconds) is new, or it has been a while."""
        step, now = message.split(",")[0], time.monotonic()
        if step == self._step and now - self._printed_at < PLAIN_LINE_EVERY_S:
            return False
        self._step, self._printed_at = step, now
        return True
