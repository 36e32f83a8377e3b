"""Why there was no answer, in the words of people: libraries put it in those of programs."""

from __future__ import annotations

import os
import ssl


def why_silent(error: BaseException) -> str:
    """Return what the operating system says, without numbers and addresses; else what the library says."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
            return (os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or str(cause)).lower()
        if "Timeout" in type(cause).__name__:
            return "it took too long"
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
