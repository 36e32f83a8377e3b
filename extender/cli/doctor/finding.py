"""What the doctor says: one finding, with what is wrong, where, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: gangs are broken, or do not start. WARNING: slower or less safe. NOTE: nothing has to be fixed.

    SKIPPED: this could not be checked.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    SKIPPED = "skipped"


NOT_CHECKED = "NotChecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """``code`` is stable, CamelCase; ``subject`` names an object or a field; ``fix`` is what to do."""

    code: str
    severity: Severity
    subject: str
    what: str
    fix: str


def error(code: str, subject: str, what: str, fix: str) -> Finding:
    return Finding(code, Severity.ERROR, subject, what, fix)


def warning(code: str, subject: str, what: str, fix: str) -> Finding:
    return Finding(code, Severity.WARNING, subject, what, fix)


def note(code: str, subject: str, what: str, fix: str = "") -> Finding:
    return Finding(code, Severity.NOTE, subject, what, fix)


def skipped(subject: str, what: str, fix: str) -> Finding:
    """Something exists, or may exist, and could not be read."""
    return Finding(NOT_CHECKED, Severity.SKIPPED, subject, what, fix)
