"""How a command ends that could not do what was asked for."""

from __future__ import annotations

from typing import NoReturn

import typer


def stop(message: str) -> NoReturn:
    """End with a sentence and exit code 2."""
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)
