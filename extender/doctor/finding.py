"""What the doctor says: one finding, with what is wrong, where, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: gangs are broken, or do not start. WARNING: slower or less safe. NOTE: known, and nothing to mend.

    UNSEEN: this could not be looked at.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable, CamelCase; ``subject`` names an object or a field; ``mend`` is what to do."""

    code: str
    severity: Severity
    subject: str
    what: str
    mend: str


def error(code: str, subject: str, what: str, mend: str) -> Finding:
    return Finding(code, Severity.ERROR, subject, what, mend)


def warning(code: str, subject: str, what: str, mend: str) -> Finding:
    return Finding(code, Severity.WARNING, subject, what, mend)


def note(code: str, subject: str, what: str, mend: str = "") -> Finding:
    return Finding(code, Severity.NOTE, subject, what, mend)


def unseen(subject: str, what: str, mend: str) -> Finding:
    return Finding("NotLookedAt", Severity.UNSEEN, subject, what, mend)
