"""The command line: `muster serve` runs the extender, the other commands look at it, try it out and measure it."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from extender.cli.servers import Config, Kubeconfig, Port, stop_without
from extender.cli.terminal import stop, stop_on

_DEFERRED = {
    "explain": ("extender.cli.inspection.commands:explain", "Show why a gang waits or where it runs, and what to do."),
    "gangs": ("extender.cli.inspection.commands:gangs", "List all gangs with their members and the reason of each."),
    "domains": (
        "extender.cli.inspection.commands:domains",
        "List all topology domains with their nodes, devices and gangs.",
    ),
    "queues": ("extender.cli.inspection.commands:queues", "Show the queues, their quota and who waits in them."),
    "defrag": (
        "extender.cli.inspection.commands:defrag",
        "Show which workloads would have to move for a waiting gang.",
    ),
    "verify": (
        "extender.cli.inspection.verify:verify",
        "Compare what Muster knows with what a restart would know.",
    ),
    "hold": ("extender.cli.act.command:hold_command", "Keep a job from being started."),
    "resume": ("extender.cli.act.command:resume_command", "Let a job go that is held."),
    "requeue": ("extender.cli.act.command:requeue_command", "Put a job back in the line."),
    "evict": ("extender.cli.act.command:evict_command", "Stop a workload and take its room back."),
    "ui": ("extender.cli.ui:ui", "Show the dashboard in a browser, with your own rights."),
    "dashboard": ("dashboard.command:dashboard", "Run the dashboard, which the extender keeps up to date."),
    "doctor": ("extender.cli.doctor.command:doctor", "Check installation and configuration, and say what to fix."),
    "convert": ("extender.cli.convert.command:convert", "Rewrite files with objects of Kueue's v1beta1 to v1beta2."),
    "release": ("extender.cli.release.command:release", "Give back what waits, before Muster is uninstalled."),
    "token": ("extender.cli.token:token", "Keep a short-lived token of a ServiceAccount in a directory."),
    "snapshot": ("extender.cli.snapshot:snapshot", "Write a cluster to a file, as far as a decision reads it."),
    "simulate": ("extender.cli.simulate:main", "Replay jobs, or a snapshot of a cluster, in a simulation."),
    "bench": ("benchmarks.cli:main", "Load-test a running extender, or run the other benchmarks."),
}
"""The place and the one-line help of each command that is imported when it is used."""


class Deferred(TyperCommand):
    """A command whose module is imported when the command is used, and not for `muster --help`."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        """``place``: ``module:name`` of the command's function, or of its Typer."""
        super().__init__(name, help=summary)
        self._place = place

    def load(self) -> Any:
        """The command with its options."""
        module, _, name = self._place.partition(":")
        if module == "benchmarks.cli" and not (Path(__file__).parents[2] / "benchmarks" / "cli.py").exists():
            module = "extender.cli.loadtest"  # an installed package has no other benchmark
        app = getattr(import_module(module), name)
        if not isinstance(app, typer.Typer):
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(self.name)(app)
            app = single
        return typer.main.get_command(app)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """The group of commands: those of this module, and the deferred ones."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, (place, summary) in _DEFERRED.items():
            self.add_command(Deferred(name, place, summary))

    def invoke(self, ctx: Any) -> Any:
        """Report an invalid value of an option in plain words, without the library's own words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _plainly(error.message)
            raise

    def main(self, *args: Any, **given: Any) -> Any:
        """Run a command. If the disk is full, end with a sentence and exit code 1."""
        try:
            return super().main(*args, **given)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is yet to be written would fail again at the end
            sys.exit("the output could not be written: no space is left where it goes")


def _plainly(message: str) -> str:
    message = message.removeprefix("Value error, ").rstrip(".")
    if message.startswith("Input should be "):
        return f"it has to be {message.removeprefix('Input should be ')}"
    value, middle, choices = message.partition(" is not one of ")
    return f"{value}{middle}{choices.replace(chr(39), '')}"


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
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    port: Port = None,
) -> None:
    """Run the extender until SIGTERM or Ctrl-C."""
    from extender.runtime import garbage

    garbage.collect_hardly_ever()  # before the imports: they make up half of a start
    try:
        from extender import app
    except ModuleNotFoundError as error:
        stop_without("serve", error)
    from extender.config.settings import SettingsError, load
    from extender.observe import logs

    with stop_on(SettingsError, app.StartError):
        settings = load(config, kubeconfig=kubeconfig, listen_port=port)
        logs.set_up(settings.log_level, settings.log_format)
        raise typer.Exit(app.run(settings))


@main.command()
def check(
    ready: Annotated[
        bool, typer.Option("--ready/--live", help="Check whether it has read the cluster, or only whether it answers.")
    ] = True,
    config: Config = None,
    port: Annotated[int | None, typer.Option(help="Port of the extender.")] = None,
) -> None:
    """Ask the extender on this machine how it is.

    Exit code 0: it is well. 1: it says that it is not. 2: it could not be asked.
    The probes of the manifests ask the same with `python -m extender.probe`, which starts faster.
    """
    from extender.config.settings import SettingsError, load
    from extender.probe import ProbeError, ask, listener_from

    with stop_on(SettingsError, ProbeError):
        load(config, listen_port=port)  # unlike the probe, it says what is wrong with the settings
        listener = listener_from(None if config is None else str(config), os.environ)
        well, text = ask(listener if port is None else listener._replace(port=port), ready=ready)
    typer.echo(text)
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
