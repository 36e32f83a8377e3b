"""Names that were released and have another one now: docs/upgrade.md has the rule, and docs/names.md the names.

An option of a command needs no entry to be read, only its second name in ``typer.Option``; a key of objects has to be
read under both names where it is read. Their entries let the test of names pass.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, NamedTuple

_log = logging.getLogger("muster.config")

SETTINGS = "settings"


class Alias(NamedTuple):
    """``name``: what it is called now. ``until``: the release in which the old name may go."""

    name: str
    until: str


ALIASES: dict[str, dict[str, Alias]] = {SETTINGS: {}}
"""Kind of docs/names.md -> the old name -> its alias."""


def rename_settings(values: MutableMapping[str, Any], prefix: str = "") -> list[str]:
    """Put settings of a file, or variables with that prefix, under the names that they have now, with a warning.

    Returns a sentence for each that is there under both names.
    """
    twice = []
    for old, alias in ALIASES[SETTINGS].items():
        was, now = (f"{prefix}{name.upper()}" if prefix else name for name in (old, alias.name))
        if was in values and now in values:
            twice.append(f"{was}: is now called {now}, which is there, too; take {was} out")
        elif was in values:
            values[now] = values.pop(was)
            _log.warning("%s is now called %s; %s no longer reads the old name", was, now, alias.until)
    return twice
