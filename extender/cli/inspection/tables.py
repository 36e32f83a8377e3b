"""What is shown on a terminal: tables of plain text, in which nothing that a pod's author wrote has any effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_MEMBERS, _STORY, _DOMAINS = 32, 16, 24
_WIDE = 160
"""Columns where there is no terminal whose width could be asked."""
_COLOURS = {
    "Running": "green",
    "Ended": "green",
    "Placed": "cyan",
    "Holding": "cyan",
    "Releasing": "cyan",
    "New": "cyan",
}

Shown = dict[str, Any]


def console() -> Console:
    """Standard output; not cut to 80 columns when it is a file or a pipe."""
    out = Console()
    return out if out.is_terminal else Console(width=_WIDE)


def show_explanation(told: Shown, out: Console) -> None:
    """One gang, from its state down to its story."""
    gang = told["gang"]
    head = plain(f"{gang['namespace']}/{gang['name']}  ", "bold")
    head.append_text(_state(gang["state"])).append(f" for {span(gang['for_s'])}")
    out.print(head)
    out.print(plain(gang["message"]))
    least = "unknown" if gang["min_member"] is None else gang["min_member"]
    out.print(f"members: {gang['members']}, of which {gang['bound']} bound, {gang['held']} held; at least: {least}")
    if told["asks"]:
        out.print(plain(f"asks for: {'; '.join(told['asks'])}"))
    if told["places"]:
        out.print(
            plain("is in: " + ", ".join(f"{one['name']} ({one['members']})" for one in told["places"][:_DOMAINS]))
        )
    if told["remedies"] and (gang["state"] not in ("Running", "Ended") or gang["waiting"]):
        out.print()
        out.print(Text("What to do", "bold"))
        for one in told["remedies"]:
            out.print(plain(f"  - {one}"))
    _show_domains_of(told, out)
    _show_members(gang, out)
    _show_story(gang, out)


def show_gangs(gangs: Sequence[Shown], out: Console) -> None:
    """All gangs, one to a line."""
    if not gangs:
        return out.print("no gangs found")
    rows = (
        (one["namespace"], one["name"], _state(one["state"]), f"{one['bound']}", f"{one['held']}", f"{one['members']}",
         "?" if one["min_member"] is None else f"{one['min_member']}", span(one["for_s"]), one["message"])
        for one in gangs
    )  # fmt: skip
    _print(out, ("NAMESPACE", "GANG", "STATE", "#BOUND", "#HELD", "#MEMBERS", "#MIN", "#FOR", "MESSAGE"), rows)
    return None


def show_domains(domains: Sequence[Shown], out: Console) -> None:
    """All domains, one to a line."""
    if not domains:
        return out.print("no nodes found")
    rows = (
        (one["level"], one["name"] or "(no label)", one["inside"] or "", f"{one['nodes']}", f"{one['open']}",
         f"{one['whole']}", f"{one['gpus']}", f"{one['free_gpus']}", _some(one["gangs"], 4))
        for one in domains
    )  # fmt: skip
    heads = ("LEVEL", "DOMAIN", "INSIDE", "#NODES", "#OPEN", "#WHOLE", "#GPUS", "#FREE", "GANGS")
    _print(out, heads, rows)
    return None


def plain(text: object, style: str = "") -> Text:
    """Text without markup; control characters are shown, not obeyed."""
    said = str(text)
    return Text("".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in said), style)


def span(seconds: float) -> str:
    """Like ``3m 12s``: the two largest units."""
    whole = max(0, int(seconds))
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((at for at, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"


def _show_domains_of(told: Shown, out: Console) -> None:
    if not told["domains"]:
        return
    out.print()
    how = "each has to hold it alone" if told["required"] else "shown for orientation: it may be divided"
    out.print(plain(f"Domains of {told['level']}, the one with most room first ({how})", "bold"))
    rows = [
        (one["name"], f"{one['nodes']}", f"{one['free']}", f"{one['want']}", one["reason"])
        for one in told["domains"][:_DOMAINS]
    ]
    _print(out, ("DOMAIN", "#NODES", "#ROOM FOR", "#WANTED", "WHY"), rows)
    _and_more(told["domains_in_all"] - len(rows), out)


def _show_members(gang: Shown, out: Console) -> None:
    if not gang["pods"]:
        return
    out.print()
    out.print(Text("Members", "bold"))
    rows = [(one["name"], one["state"], one["node"] or "") for one in gang["pods"][:_MEMBERS]]
    _print(out, ("POD", "STATE", "NODE"), rows)
    _and_more(len(gang["pods"]) - len(rows), out)


def _show_story(gang: Shown, out: Console) -> None:
    if not gang["story"]:
        return
    out.print()
    out.print(Text("History", "bold"))
    _print(out, ("#AGO", "WHAT"), [(span(ago), text) for ago, text in gang["story"][-_STORY:]])


def _print(out: Console, heads: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Columns whose heading begins with # are numbers, to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head.lstrip("#"), justify="right" if head.startswith("#") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in row))
    out.print(table)


def _and_more(count: int, out: Console) -> None:
    if count > 0:
        out.print(f"... and {count} more: -o json has all of them")


def _state(state: str) -> Text:
    return plain(state, _COLOURS.get(state, "yellow"))


def _some(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f", {len(names) - most} more" if len(names) > most else "")
