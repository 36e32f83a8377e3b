"""The options of the commands that run a server, and what they say where its libraries are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from extender.cli.terminal import stop

Config = Annotated[Path | None, typer.Option(help="Settings file (YAML).")]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Credentials; default: as kubectl finds them, else those of the pod.")
]
Port = Annotated[int | None, typer.Option(help="Port to listen on, instead of the settings' listen_port.")]


def stop_without(command: str, missing: ModuleNotFoundError) -> NoReturn:
    """End the command: a library is missing that only servers need."""
    stop(
        f"muster {command} needs {missing.name} and more, which the client alone does without: "
        "install muster-scheduler[server], as docs/install.md shows"
    )
