"""`muster dashboard`: its options. What it runs needs the server's libraries, which the client alone does without."""

from __future__ import annotations

from extender.cli.servers import Config, Kubeconfig, Port, stop_without
from extender.cli.terminal import stop_on


def dashboard(config: Config = None, kubeconfig: Kubeconfig = None, port: Port = None) -> None:
    """Run the dashboard until SIGTERM or Ctrl-C."""
    try:
        from dashboard.serve import run
    except ModuleNotFoundError as error:
        stop_without("dashboard", error)
    from dashboard.settings import load
    from extender.config.settings import SettingsError
    from extender.observe import logs

    with stop_on(SettingsError, OSError, ValueError):
        settings = load(config, kubeconfig=kubeconfig, listen_port=port)
        logs.set_up(settings.log_level, settings.log_format)
        run(settings)
