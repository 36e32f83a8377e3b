"""Released names that have been replaced. docs/upgrade.md has the rule, and docs/released the names.

An old option of a command only needs its second name in ``typer.Option``. An old key of objects has to be read where
the key is read. Their entries here let the test of names pass.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, NamedTuple

_log = logging.getLogger("muster.config")

SETTINGS = "settings"


class Alias(NamedTuple):
    """The replacement of a name. ``name``: the present name. ``until``: the release in which the old name may go."""

    name: str
    until: str


ALIASES: dict[str, dict[str, Alias]] = {SETTINGS: {}}
"""The kind in docs/released -> old name -> its alias."""


def rename_settings(values: MutableMapping[str, Any], prefix: str = "") -> list[str]:
    """Rename old settings of a file, or variables with that prefix, to their present names, with a warning.

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
