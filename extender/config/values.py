"""What settings may say where their type alone does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""Of an object in Kubernetes."""


def _bare_host(name: str) -> str:
    if not name or "/" in name or ":" in name:
        raise ValueError(f"{name!r} is not a name alone: leave out scheme and port. Addresses need not be named")
    return name


def _possible(node_loss: str) -> str:
    if node_loss == "replace":
        raise ValueError(
            "replace is not implemented: the templates of a Job or JobSet are frozen while it runs, so its lost "
            "pods cannot be led to other nodes, and for Kubeflow's kinds Muster does not do it yet. Use restart"
        )
    return node_loss


Text = Annotated[str, Field(min_length=1)]
HostName = Annotated[str, AfterValidator(_bare_host)]
NodeLoss = Annotated[str, Field(pattern="^(restart|replace)$"), AfterValidator(_possible)]
File = Annotated[Path | None, BeforeValidator(lambda said: None if said == "" else said)]
"""A variable that is set to nothing names no file."""
