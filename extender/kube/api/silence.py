"""Why there was no answer, in words for people; libraries describe it in words of programs."""

from __future__ import annotations

import os
import ssl


def why_silent(error: BaseException) -> str:
    """The operating system's text, without numbers and addresses; else the library's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
            return (os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or str(cause)).lower()
        if "Timeout" in type(cause).__name__:
            return "it took too long"
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
