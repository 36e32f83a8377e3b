"""How the answers of a running Muster are shown on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from extender.api.models import (
    ComputeDomainView,
    DefragView,
    DomainStock,
    Explanation,
    GangView,
    PodMove,
    UtilisationView,
)
from extender.cli.terminal import grid, plain
from policies.words import listed, many

_MEMBERS, _STORY, _DOMAINS = 32, 24, 24
DOMAIN_LEGEND = (
    "INSIDE: the domain of the next level. OPEN: nodes that are ready and not cordoned. "
    "WHOLE: open nodes with all GPUs free."
)
_COLOURS = {"Running": "green", "Ended": "green"} | dict.fromkeys(("Placed", "Holding", "Releasing", "New"), "cyan")


def show_explanation(explanation: Explanation, out: Console) -> None:
    """Print the explanation of a gang, from its state to its story."""
    gang = explanation.gang
    head = plain(f"{gang.namespace}/{gang.name}  ", "bold")
    out.print(head.append_text(_state(gang.state)).append(f" for {span(gang.for_s)}"))
    out.print(plain(gang.message))
    if explanation.expected_start:
        out.print(plain(explanation.expected_start))
    if gang.status:
        out.print(plain(f"status: {gang.status} for {span(gang.status_for_s)}"))
    least = "" if gang.min_member is None else f"; at least: {gang.min_member}"
    counts = f"members: {gang.members}, of which {gang.bound} bound, {gang.held} held{least}"
    out.print(plain(explanation.to_be_made or counts))
    if gang.utilisation is not None:
        out.print(plain(use(gang.utilisation)))
    if explanation.asks:
        out.print(plain(f"asks for: {'; '.join(explanation.asks)}"))
    if explanation.places:
        named = listed((f"{place.name} ({place.members})" for place in explanation.places), _DOMAINS)
        out.print(plain(f"is in: {named}"))
    if explanation.remedies and (gang.state not in ("Running", "Ended") or gang.waiting):
        out.print("\nWhat to do", style="bold")
        for remedy in explanation.remedies:
            out.print(plain(f"  - {remedy}"))
    _show_preemption(explanation, out)
    how = "one has to hold all of it" if explanation.required else "it may be divided among several"
    domains = [
        (domain_room.name, f"{domain_room.nodes}", f"{domain_room.free}", f"{domain_room.want}", domain_room.reason)
        for domain_room in explanation.domains[:_DOMAINS]
    ]
    title = f"Domains of {explanation.level}, the one with most room first ({how})"
    _section(
        out, title, ("DOMAIN", "#NODES", "#ROOM FOR", "#WANTED", "WHY"), domains, explanation.domains_in_all, "WHY"
    )
    members = [(member.name, member.state, member.node or "") for member in gang.pods[:_MEMBERS]]
    _section(out, "Members", ("POD", "STATE", "NODE"), members, len(gang.pods))
    changes = [(ago, f"status {status}") for ago, status in gang.statuses]
    # What happened comes before the status that it led to at the same instant.
    turns = sorted([*gang.story, *changes], key=lambda turn: -turn[0])[-_STORY:]
    story = [(span(ago), text) for ago, text in turns]
    _section(out, "History", ("#AGO", "WHAT"), story, len(story), "WHAT")


def _show_preemption(explanation: Explanation, out: Console) -> None:
    """Write which workloads are evicted for it, or would be, or why none may. An older Muster does not say it."""
    if not explanation.preemption:
        return
    out.print("\nPreemption", style="bold")
    out.print(plain(f"  {explanation.preemption}"))
    victims = [(victim.name, victim.told) for victim in explanation.victims[:_MEMBERS]]
    _section(out, "Victims", ("VICTIM", "REASON"), victims, len(explanation.victims), "REASON")


def show_gangs(gangs: Sequence[GangView], out: Console) -> None:
    """Print all gangs, one to a line. The expected start and the use of GPUs have columns if known."""
    heads = ["NAMESPACE", "GANG", "STATE", "#BOUND", "#HELD", "#MEMBERS", "#MIN", "#FOR", "MESSAGE"]
    rows: list[list[str | Text]] = [
        [gang.namespace, gang.name, _state(gang.state), f"{gang.bound}", f"{gang.held}", f"{gang.members}",
         "?" if gang.min_member is None else f"{gang.min_member}", span(gang.for_s), gang.message]
        for gang in gangs
    ]  # fmt: skip
    if any(gang.expected is not None for gang in gangs):
        heads.insert(-1, "STARTS")
        for row, gang in zip(rows, gangs, strict=True):
            row.insert(-1, "" if gang.expected is None else _instant(gang.expected.start))
    if any(gang.utilisation is not None for gang in gangs):
        heads[-1:-1] = ["#GPU USE", "#IDLE GPUS"]
        for row, view in zip(rows, gangs, strict=True):
            known = view.utilisation
            row[-1:-1] = ["", ""] if known is None else [f"{known.percent:.0f} %", f"{known.idle_gpus or ''}"]
    drop = ("HELD", "BOUND", "MIN", "FOR")
    out.print(grid(heads, rows, drop=drop, below="MESSAGE") if rows else "no gangs found")


def is_idle(gang: GangView) -> bool:
    """Return whether the gang leaves its GPUs idle."""
    return gang.utilisation is not None and gang.utilisation.idle_gpus > 0


def use(known: UtilisationView) -> str:
    """Say how busy GPUs are: ``its 16 GPUs were used 3.1 % in the mean of the last 30m: idle``."""
    profiles = "; ".join(
        f"{name}: {profile_load.percent:g} % of {profile_load.gpus}" for name, profile_load in known.mig.items()
    )
    of_mig = f" ({profiles})" if profiles else ""
    idle = ": idle" if known.idle_gpus else ""
    count = many(known.gpus, "GPU")
    return f"its {count} were used {known.percent:g} % in the mean of the last {span(known.window_s)}{of_mig}{idle}"


def _instant(start: datetime) -> str:
    """Format an instant as reasons do: ``2026-11-21 14:20 UTC``."""
    return f"{start:%Y-%m-%d %H:%M} UTC"


def show_defrag(view: DefragView, out: Console) -> None:
    """The moves in their order, then where the gang starts."""
    gang = f"{view.namespace}/{view.name}"
    if view.why_not:
        out.print(plain(f"{gang}: no moves would help: {view.why_not}"))
        return
    devices = sum(move.devices for move in view.moves)
    hours = sum(move.lost_device_hours for move in view.moves)
    out.print(plain(f"{gang} starts after {many(len(view.moves), 'move')} of {devices} devices; nothing is moved now"))
    out.print(plain(f"{hours:.1f} device-hours of work would be repeated"))
    rows = [
        (f"{number}", move.workload, f"{move.devices}", span(move.lost_s), f"{move.lost_device_hours:.1f}",
         "checkpoint" if move.checkpointed else "start", _moved(move.pods))
        for number, move in enumerate(view.moves, 1)
    ]  # fmt: skip
    heads = ("#", "WORKLOAD", "#DEVICES", "#REPEATS", "#DEVICE-HOURS", "SINCE", "PODS")
    out.print()
    out.print(grid(heads, rows, below="PODS"))
    out.print(plain(f"\nThen {gang} starts: {_moved(view.pods)}"))


def _moved(pods: Sequence[PodMove]) -> str:
    return ", ".join(
        f"{pod.pod}: {pod.before} -> {pod.after}" if pod.before else f"{pod.pod}: {pod.after}" for pod in pods
    )


def show_domains(domains: Sequence[DomainStock], of_nvidia: Sequence[ComputeDomainView], out: Console) -> None:
    """Print all domains, one to a line; then their devices, and the ComputeDomains."""
    rows = [
        (domain.level, domain.name or "(no label)", domain.inside or "", f"{domain.nodes}", f"{domain.open}",
         f"{domain.whole}", f"{domain.gpus}", f"{domain.free_gpus}", listed(domain.gangs, 4))
        for domain in domains
    ]  # fmt: skip
    heads = ("LEVEL", "DOMAIN", "INSIDE", "#NODES", "#OPEN", "#WHOLE", "#GPUS", "#FREE", "GANGS")
    drop = ("INSIDE", "OPEN", "WHOLE", "GPUS")
    out.print(grid(heads, rows, drop=drop, below="GANGS") if rows else "no nodes found")
    if rows:
        out.print()
        out.print(plain(DOMAIN_LEGEND, "dim"))
    _show_devices(domains, out)
    _show_compute_domains(of_nvidia, out)


def _show_devices(domains: Sequence[DomainStock], out: Console) -> None:
    rows = [
        (domain.level, domain.name or "(no label)", stock.name,
         f"{stock.devices}", f"{stock.free}", f"{stock.promised}", f"{stock.used}")
        for domain in domains for stock in domain.devices
    ]  # fmt: skip
    heads = ("LEVEL", "DOMAIN", "DEVICE", "#ALL", "#FREE", "#PROMISED", "#USED")
    _section(out, "Devices (DRA)", heads, rows, len(rows), drop=("LEVEL", "ALL"))


def _show_compute_domains(of_nvidia: Sequence[ComputeDomainView], out: Console) -> None:
    rows = [
        (f"{domain.namespace}/{domain.name}", f"{domain.members}", f"{domain.nodes}", listed(domain.cliques, 4),
         listed(domain.workloads, 4), "; ".join(domain.problems))
        for domain in of_nvidia
    ]  # fmt: skip
    heads = ("COMPUTEDOMAIN", "#MEMBERS", "#NODES", "CLIQUES", "WORKLOADS", "PROBLEMS")
    _section(
        out,
        "ComputeDomains (NODES: those that the driver has prepared)",
        heads,
        rows,
        len(rows),
        "PROBLEMS",
        ("CLIQUES", "NODES"),
    )


def span(seconds: float) -> str:
    """Format a duration by its two largest units, like ``3m 12s``."""
    whole = max(0, int(seconds))
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((at for at, (count, _) in enumerate(parts) if count), 3)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"


def _section(
    out: Console,
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    in_all: int,
    below: str = "",
    drop: Sequence[str] = (),
) -> None:
    """Print a table with a title; nothing if it has no rows."""
    if not rows:
        return
    out.print()
    out.print(plain(title, "bold"))
    out.print(grid(heads, rows, drop=drop, below=below))
    if in_all > len(rows):
        out.print(f"... and {in_all - len(rows)} more: -o json has all of them")


def _state(state: str) -> Text:
    return plain(state, _COLOURS.get(state, "yellow"))
