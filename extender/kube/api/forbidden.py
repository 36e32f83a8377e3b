"""The API server's refusals for lack of a right, in short: the account, and the right that it lacks."""

from __future__ import annotations

import re
from typing import NamedTuple

_CANNOT = re.compile(
    r'User "(?P<account>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"/]+)(?P<subresource>/[^"]+)?" '
    r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)")?'
)


class Denied(NamedTuple):
    """A right that an account lacks. ``right``: as in ``patch jobs.batch in namespace team``."""

    account: str
    right: str

    def __str__(self) -> str:
        return f"account {self.account} lacks the right to {self.right}"


def denied(message: str) -> Denied | None:
    """Read the refusal of an API server or of kubectl; None if no missing right is its cause."""
    match = _CANNOT.search(message)
    if match is None:
        return None
    resource = match["resource"] + (f".{match['group']}" if match["group"] else "") + (match["subresource"] or "")
    where = f" in namespace {match['namespace']}" if match["namespace"] else ""
    return Denied(match["account"], f"{match['verb']} {resource}{where}")


def refusal(message: str) -> str:
    """The message, shortened to account and right where a right is missing."""
    return str(denied(message) or message)
