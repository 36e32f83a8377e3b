"""`muster verify`: have the running Muster compare what it knows with what it would know after a restart."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from extender.api.models import VerifyView
from extender.cli.inspection.commands import show
from extender.cli.inspection.options import As, Output, reaching
from extender.cli.inspection.reach import Muster, RefusedError, UnreachableError, Way, reach
from extender.cli.terminal import plain, stop_on
from policies.words import counted, many

EVERY_S = 0.5
"""How often Muster is asked for its progress."""
pause = time.sleep


@reaching
def verify(
    way: Way,
    last: Annotated[bool, typer.Option("--last", help="Show what was found last, and check nothing now.")] = False,
    output: As = Output.TABLE,
) -> None:
    """Compare what Muster knows with what it would know after a restart.

    Muster builds its state again from the objects that it has read, beside its work. It compares claims, free room,
    devices, quota, members, and which workloads wait and why. A difference counts if a second check 30 s later finds
    the same.

    Nothing is changed by this command. With the setting verify_every_s, Muster restarts its core after a difference.
    Exit code 0: everything agrees. 1: something differs. 2: nothing was checked.
    """
    with stop_on(UnreachableError, RefusedError), reach(way) as muster:
        view = muster.verified(begin=False) if last else _checked(muster)
    show(view, output, lambda out: show_verified(view, out))
    raise typer.Exit(2 if view.problem or view.ago_s is None else 1 if view.differences else 0)


def _checked(muster: Muster) -> VerifyView:
    """Begin a round, or join the one that is under way, and return what it finds.

    A process that has begun meanwhile knows nothing of the round, and a process may have no self-check at all.
    """
    view = muster.verified(begin=True)
    rounds, doing, terminal = view.rounds, "", Console(stderr=True)
    with terminal.status("checking") as line:
        while view.under_way and view.rounds == rounds:
            before, doing = doing, "a second check confirms what differs" if view.confirming else "checking"
            line.update(f"{doing}: {view.progress:.0%}")
            if doing != before and not terminal.is_terminal:
                typer.echo(f"{doing} ...", err=True)
            pause(EVERY_S)
            view = muster.verified(begin=False)
    return view


def show_verified(view: VerifyView, out: Console) -> None:
    """Write what agrees, in numbers, and each difference."""
    if view.problem:
        return out.print(plain(f"not checked: {view.problem}"))
    if view.ago_s is None:
        return out.print("nothing was checked yet")
    for difference in view.differences:
        out.print(plain(f"{difference.kind.upper()}  {difference.object}", "red"))
        out.print(plain(f"    now:             {difference.running}"))
        out.print(plain(f"    after a restart: {difference.rebuilt}"))
    compared = ", ".join(f"{count} {kind}" for kind, count in sorted(view.compared.items())) or "nothing"
    out.print(plain(f"compared: {compared}; {counted(len(view.differences), 'difference', 'stays', 'stay')}"))
    if view.unconfirmed:
        out.print(plain(f"{many(view.unconfirmed, 'difference')} in one check only: it has changed in between"))
    for why, count in view.left_out.items():
        out.print(plain(f"left out: {many(count, 'workload')}: {why}"))
    out.print(plain(f"checked {view.ago_s:.0f} s ago, in {view.seconds:.1f} s; {_repairs(view)}"))
    return None


def _repairs(view: VerifyView) -> str:
    every = f"every {view.every_s:.0f} s by itself" if view.every_s else "only when asked (verify_every_s is 0)"
    return f"{every}; {counted(view.restarts, 'restart', 'has', 'have')} followed from it"
