"""The command line: `muster serve` runs the extender, `muster check` is its health probe, `muster demo` shows it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer

from extender import logs
from extender.config import Settings, SettingsError, load
from extender.doctor.command import doctor
from extender.inspection.commands import domains, explain, gangs

main = typer.Typer(name="muster", no_args_is_help=True, add_completion=False, help=__doc__)


@main.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Credentials; default: those of the pod.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, instead of the settings' listen_port.")] = None,
) -> None:
    """Run the extender until it is told to stop (SIGTERM or Ctrl-C)."""
    # The Kubernetes client takes over a second to import, which the probes must not pay.
    from extender import app

    settings = _settings(config, kubeconfig=kubeconfig, listen_port=port)
    logs.set_up(settings.log_level, settings.log_format)
    try:
        code = app.run(settings)
    except app.StartError as error:
        _stop(str(error))
    raise typer.Exit(code)


@main.command()
def check(
    ready: Annotated[
        bool, typer.Option("--ready/--live", help="Has it read the cluster, or does it just live?")
    ] = True,
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the extender.")] = None,
) -> None:
    """Ask the extender on this machine how it is; exit code 0 when it is well. Made for exec probes."""
    settings = _settings(config, listen_port=port)
    url = f"{settings.own_url}/{'readyz' if ready else 'healthz'}"
    try:
        answer = httpx.get(url, timeout=5, trust_env=False, verify=_trust(settings))
    except httpx.HTTPError as error:
        _stop(f"no answer from {url}: {error}")
    typer.echo(answer.text.strip())
    raise typer.Exit(0 if answer.is_success else 1)


@main.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def demo(context: typer.Context) -> None:
    """Show the two-job deadlock and its end on a real control plane (needs a source checkout)."""
    try:
        from devcluster.demo import __main__ as devcluster_demo
    except ImportError:
        _stop("the demo needs a source checkout: git clone the project and run `make demo` there")
    devcluster_demo.main(context.args)


@main.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def bench(context: typer.Context) -> None:
    """Load-test a running extender; in a source checkout also measure throughput and cost on a real control plane."""
    if (Path(__file__).parent.parent / "benchmarks" / "cli.py").exists():
        from benchmarks.cli import main as commands
    else:
        from extender.loadtest import main as commands
    commands(context.args, prog_name="muster bench")


@main.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def simulate(context: typer.Context) -> None:
    """Replay jobs, or a snapshot of a cluster, through the code that decides in production."""
    from extender.simulation import main as command

    command(context.args, prog_name="muster simulate")


@main.command()
def snapshot(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    kubeconfig: Annotated[Path | None, typer.Option(help="Credentials; default: as kubectl finds them.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    anonymise: Annotated[bool, typer.Option(help="Replace every name, UID and label value by a pseudonym.")] = False,
) -> None:
    """Write nodes, pods and PodGroups of a cluster to a file, for `muster simulate --snapshot`.

    Only what a decision reads is written: no environment, commands, images or secrets.
    """
    from extender import whatif
    from extender.kube.snapshot import SnapshotError
    from extender.output import STANDARD_OUTPUT, OutputError

    settings = _settings(config)
    try:
        told = whatif.capture(output, kubeconfig, settings, anonymous=anonymise)
    except (SnapshotError, OutputError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    typer.echo(told, err=output == STANDARD_OUTPUT)


def _trust(settings: Settings) -> ssl.SSLContext | bool:
    """How to ask the extender of these settings; over plain HTTP there is nothing to verify."""
    if settings.tls is None:
        return True
    from extender.tls import TlsError, client_context

    try:
        return client_context(settings.tls)
    except TlsError as error:
        _stop(f"the extender cannot be asked over HTTPS: {error}")


# What looks at a running Muster or its cluster from outside.
for command in (explain, gangs, domains, doctor):
    main.command()(command)


def plugin() -> None:
    """The same as ``kubectl muster``: kubectl runs any kubectl-muster on the PATH."""
    main(prog_name="kubectl muster")


def _settings(config: Path | None, **flags: object) -> Settings:
    try:
        return load(config, **flags)
    except SettingsError as error:
        _stop(f"the settings cannot be used:\n{error}")


def _stop(message: str) -> NoReturn:
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)
