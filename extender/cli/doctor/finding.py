"""What the doctor says: one finding, with what is wrong, where, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial


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

    severity: Severity
    code: str
    subject: str
    what: str
    fix: str = ""


error, warning, note = (partial(Finding, one) for one in (Severity.ERROR, Severity.WARNING, Severity.NOTE))
skipped = partial(Finding, Severity.SKIPPED, NOT_CHECKED)
"""Something exists, or may exist, and could not be read."""
