"""The command line: `muster serve` runs the extender, the other commands look at it, try it out and measure it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from extender.cli.stop import stop

if TYPE_CHECKING:
    from extender.config.settings import Settings


class Deferred(TyperCommand):
    """A command whose module is imported when the command is used, and not for `muster --help`."""

    def __init__(self, name: str, summary: str, find: Callable[[], Any]) -> None:
        """``find`` imports the function of the command, or its Typer."""
        super().__init__(name, help=summary)
        self._find = find

    def load(self) -> Any:
        """The command with its options."""
        found = self._find()
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(self.name)(found)
            found = single
        return typer.main.get_command(found)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """Those of this module, and the deferred ones."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, (summary, find) in _DEFERRED.items():
            self.add_command(Deferred(name, summary, find))


def _within(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(import_module(module), name)


def _bench() -> Any:
    if (Path(__file__).parents[2] / "benchmarks" / "cli.py").exists():
        from benchmarks.cli import main as commands
    else:
        from extender.cli.loadtest import main as commands
    return commands


_DEFERRED: dict[str, tuple[str, Callable[[], Any]]] = {
    "explain": (
        "Show why a gang waits or where it runs, and what to do.",
        _within("extender.cli.inspection.commands", "explain"),
    ),
    "gangs": (
        "List all gangs with their members and the reason of each.",
        _within("extender.cli.inspection.commands", "gangs"),
    ),
    "domains": (
        "List all topology domains with their nodes, GPUs and gangs.",
        _within("extender.cli.inspection.commands", "domains"),
    ),
    "doctor": (
        "Check installation and configuration, and say what to fix.",
        _within("extender.cli.doctor.command", "doctor"),
    ),
    "token": (
        "Keep a short-lived token of a ServiceAccount in a directory.",
        _within("extender.cli.token", "token"),
    ),
    "simulate": (
        "Replay jobs, or a snapshot of a cluster, in a simulation.",
        _within("extender.cli.simulate", "main"),
    ),
    "bench": (
        "Load-test a running extender, or run the other benchmarks.",
        _bench,
    ),
}
"""The one-line help and the place of each."""

main = typer.Typer(
    name="muster", cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"muster {version('muster-scheduler')}")
        raise typer.Exit


@main.callback()
def muster(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Gang scheduling for kube-scheduler: run the extender, look at it, try it out, and measure it."""


@main.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Credentials; default: those of the pod.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, instead of the settings' listen_port.")] = None,
) -> None:
    """Run the extender until it is told to stop (SIGTERM or Ctrl-C)."""
    from extender import app
    from extender.observe import logs

    settings = _settings(config, kubeconfig=kubeconfig, listen_port=port)
    logs.set_up(settings.log_level, settings.log_format)
    try:
        code = app.run(settings)
    except app.StartError as error:
        stop(str(error))
    raise typer.Exit(code)


@main.command()
def check(
    ready: Annotated[
        bool, typer.Option("--ready/--live", help="Check whether it has read the cluster, or only whether it answers.")
    ] = True,
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the extender.")] = None,
) -> None:
    """Ask the extender on this machine how it is.

    Exit code 0: it is well. 1: it says that it is not. 2: it could not be asked.
    The probes of the manifests ask the same with `python -m extender.probe`, which starts faster.
    """
    from extender.probe import Listener, ProbeError, ask

    settings = _settings(config, listen_port=port)
    files = (settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)
    listener = Listener(
        settings.listen_host, settings.listen_port, *(None if file is None else str(file) for file in files)
    )
    try:
        well, said = ask(listener, ready=ready)
    except ProbeError as error:
        stop(str(error))
    typer.echo(said)
    raise typer.Exit(0 if well else 1)


@main.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def demo(context: typer.Context) -> None:
    """Show a deadlock of two jobs, without and with Muster.

    Needs a source checkout: it runs a real control plane.
    """
    try:
        from devcluster.demo import __main__ as devcluster_demo
    except ImportError:
        stop("the demo needs a source checkout: git clone the project and run `make demo` there")
    devcluster_demo.main(context.args)


@main.command()
def snapshot(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    kubeconfig: Annotated[Path | None, typer.Option(help="Credentials; default: as kubectl finds them.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings file (YAML).")] = None,
    anonymise: Annotated[bool, typer.Option(help="Replace every name, UID and label value by a pseudonym.")] = False,
) -> None:
    """Write nodes, pods and PodGroups of a cluster to a file.

    The file is for `muster simulate --snapshot`. Only what a decision reads is written: no environment, commands,
    images or secrets.
    """
    from extender.cli.output import STANDARD_OUTPUT, OutputError
    from extender.cli.snapshot import capture
    from extender.kube.snapshot import SnapshotError

    settings = _settings(config)
    try:
        told = capture(output, kubeconfig, settings, anonymous=anonymise)
    except (SnapshotError, OutputError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    typer.echo(told, err=output == STANDARD_OUTPUT)


def plugin() -> None:
    """The same as ``kubectl muster``: kubectl runs any kubectl-muster on the PATH."""
    main(prog_name="kubectl muster")


def _settings(config: Path | None, **flags: object) -> Settings:
    from extender.config.settings import SettingsError, load

    try:
        return load(config, **flags)
    except SettingsError as error:
        stop(f"the settings cannot be used:\n{error}")
