"""The doctor's findings: each says what is wrong, where, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


class Severity(StrEnum):
    """How grave a finding is.

    ERROR: gangs are broken, or do not start. WARNING: slower or less safe. NOTE: nothing has to be fixed. SKIPPED: a
    check that could not be made.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    SKIPPED = "skipped"


NOT_CHECKED = "NotChecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or a note.

    ``code``: stable, in CamelCase.
    ``subject``: an object or a field.
    ``fix``: what to do.
    """

    severity: Severity
    code: str
    subject: str
    what: str
    fix: str = ""


error, warning, note = (partial(Finding, severity) for severity in (Severity.ERROR, Severity.WARNING, Severity.NOTE))
skipped = partial(Finding, Severity.SKIPPED, NOT_CHECKED)
"""Builds a finding about something that exists, or may exist, and could not be read."""
