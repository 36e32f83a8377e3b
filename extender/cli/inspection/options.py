"""The options of commands that ask a cluster or a running Muster: how to get there, and how the answer is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from extender.cli.inspection import completion
from extender.cli.inspection.reach import URL_VARIABLE, Way, way_of
from extender.cli.terminal import stop


class Output(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ListOutput(StrEnum):
    """How a list is written: ``wide`` has every column, ``name`` only what another command takes as a name."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


As = Annotated[Output, typer.Option("--output", "-o", help="table, json or yaml.")]
ListAs = Annotated[ListOutput, typer.Option("--output", "-o", help="table, wide, name, json or yaml.")]
Url = Annotated[
    str | None,
    typer.Option(help=f"URL of Muster; default: ${URL_VARIABLE}, else this machine, else a port-forward."),
]
Kubeconfig = Annotated[Path | None, typer.Option(help="Credentials; default: as kubectl finds them.")]
Context = Annotated[
    str | None,
    typer.Option(help="Context of the kubeconfig; default: its current one.", autocompletion=completion.contexts),
]
MusterNamespace = Annotated[
    str | None, typer.Option(help="Namespace of Muster's Deployment.  [default: kube-system]", show_default=False)
]
CaFile = Annotated[Path | None, typer.Option(help="With an https --url: the CA certificate that signed Muster's.")]
CertFile = Annotated[Path | None, typer.Option(help="With an https --url: the client certificate.")]
KeyFile = Annotated[Path | None, typer.Option(help="The key of the client certificate.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it has changed, until Ctrl-C.")]


def sharing(make: Callable[..., object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of commands: it replaces the first parameter by the options of ``make``.

    The command gets the result of ``make``. typer itself has no way to share options.
    """
    shared = inspect.signature(make, eval_str=True).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def run(**given: Any) -> None:
            made = make(**{name: given.pop(name) for name in shared})
            command(made, **given)

        vars(run)["__signature__"] = inspect.Signature([*own, *shared.values()])
        return run

    return decorate


def _way(
    url: Url = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    muster_namespace: MusterNamespace = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
) -> Way:
    cluster = {"--kubeconfig": kubeconfig, "--context": context, "--muster-namespace": muster_namespace}
    named = [name for name, value in cluster.items() if value is not None]
    if url is not None and named:
        stop(f"--url says where Muster is, and {named[0]} in which cluster to look for it: leave one of them out")
    return way_of(url, kubeconfig, context, muster_namespace, ca_file, cert_file, key_file)


reaching = sharing(_way)
"""Shares the options of commands that ask a running Muster."""
