"""`muster token`: keeps a short-lived token of a ServiceAccount in a directory, for another container of the pod."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer

from extender.cli.servers import Kubeconfig
from extender.cli.terminal import stop_on
from extender.kube.api.connection import Connection
from extender.kube.api.tokens import LONGEST_S, SHORTEST_S, Account, keep_fresh
from extender.observe import logs


def token(
    account: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="The ServiceAccount.")],
    directory: Annotated[Path, typer.Option(help="Where the files token and ca.crt are written.")],
    lifetime: Annotated[
        int, typer.Option(min=SHORTEST_S, max=LONGEST_S, help="For how many seconds a token is good.")
    ] = 1800,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Keep a short-lived token of a ServiceAccount in a directory.

    A new one is written after half the lifetime, until SIGTERM or Ctrl-C. The command's own account needs the right to
    create serviceaccounts/token.
    """
    if not directory.is_dir():
        raise typer.BadParameter(f"there is no directory {directory}")
    logs.set_up("info")
    with stop_on(ValueError, OSError):
        asyncio.run(_run(Account.parse(account), directory, lifetime, kubeconfig))


async def _run(account: Account, directory: Path, lifetime_s: int, kubeconfig: Path | None) -> None:
    """Write tokens until SIGTERM, which does not end the first process of a container by itself."""
    connection = await Connection.open(kubeconfig, connections=1)
    authority = connection.authority  # before anything is written
    refresh = asyncio.create_task(keep_fresh(connection, account, directory, lifetime_s, authority=authority))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, refresh.cancel)
    # A cancelled task is the end that was asked for; what it raised otherwise is raised here.
    await asyncio.wait([refresh])
    await connection.close()
    if not refresh.cancelled():
        refresh.result()
