"""The options of commands that ask a cluster or a running Muster: how to get there, and how the answer is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from extender.cli.inspection.reach import Way
from extender.cli.terminal import stop


class Output(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


As = Annotated[Output, typer.Option("--output", "-o", help="table, json or yaml.")]
Url = Annotated[
    str | None, typer.Option(envvar="MUSTER_URL", help="URL of Muster; default: this machine, else a port-forward.")
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Credentials; default: as kubectl finds them.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; default: its current one.")]
CaFile = Annotated[Path | None, typer.Option(help="With an https --url: the CA certificate that signed Muster's.")]
CertFile = Annotated[Path | None, typer.Option(help="With an https --url: the client certificate.")]
KeyFile = Annotated[Path | None, typer.Option(help="The key of the client certificate.")]


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """The command with options in place of its first parameter, the Way that they make: typer has no other sharing.

    A Muster of another version may answer without a field that the command shows."""
    shared = inspect.signature(_way, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @wraps(command)
    def run(**given: Any) -> None:
        way = _way(**{name: given.pop(name) for name in shared})
        try:
            command(way, **given)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            stop(
                f"the answer of Muster cannot be shown: {error!r}; it may be of another version than this command "
                "(muster --version): try -o json"
            )

    vars(run)["__signature__"] = inspect.Signature([*own, *shared.values()])
    return run


def _way(
    url: Url = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    muster_namespace: Annotated[str, typer.Option(help="Namespace of Muster's Deployment.")] = "kube-system",
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
) -> Way:
    return Way(url, kubeconfig, context, muster_namespace, ca_file=ca_file, cert_file=cert_file, key_file=key_file)
