"""An extender that listens, and commands that ask it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from typer.testing import CliRunner, Result

from extender.cli.main import main
from extender.core.engine import Engine
from extender.core.events import NodeSeen, PodSeen, Synced, Tick
from policies.model import GroupRef, Topology
from tests.builders import cluster, gang
from tests.listening import listening
from tests.running import app_of


def asked(*args: str, **env: str) -> Result:
    return CliRunner().invoke(main, args, env={"COLUMNS": "160", "KUBECONFIG": os.devnull, **env})


@contextmanager
def extender(*, standing_by: bool = False) -> Iterator[str]:
    """The URL of an extender with a gang that runs, one that waits for a clique, and one with an invalid name."""
    core = Engine()
    running = [replace(pod, node=f"a-{at}") for at, pod in enumerate(gang("train", 2))]
    waiting = gang("wait", 2, topology=Topology(required="clique"))
    (odd,) = gang("odd", 1)
    odd = replace(
        odd, group=GroupRef("'x\\x1b[31m'", odd.group.dialect, problem="its name is none") if odd.group else None
    )
    for node in cluster("a: 3x8", "b: 1x8"):
        core.handle(NodeSeen(node), 1.0)
    for pod in (*running, *waiting, odd):
        core.handle(PodSeen(pod), 1.0)
    core.handle(Synced(), 1.0)
    core.handle(Tick(), 2.0)
    with listening(app_of(core, standing_by=standing_by)) as url:
        yield url
