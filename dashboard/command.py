"""`muster dashboard`: its options. What it runs needs the server's libraries, which the client alone does without."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from extender.cli.terminal import stop, stop_on


def dashboard(
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Credentials; default: as kubectl finds them, else those of the pod.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, instead of the settings' listen_port.")] = None,
) -> None:
    """Run the dashboard until SIGTERM or Ctrl-C."""
    try:
        from dashboard.serve import run
    except ModuleNotFoundError as error:
        stop(
            f"muster dashboard needs {error.name} and more, which the client alone does without: "
            "install muster-scheduler[server], as docs/install.md shows"
        )
    from dashboard.settings import load
    from extender.config.settings import SettingsError
    from extender.observe import logs

    with stop_on(SettingsError, OSError, ValueError):
        settings = load(config, kubeconfig=kubeconfig, listen_port=port)
        logs.set_up(settings.log_level, settings.log_format)
        run(settings)
