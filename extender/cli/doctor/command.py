"""`muster doctor`: look at the cluster, ask Muster how it is, and say what to fix."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from extender.cli.doctor import configuration, devices, installation, keys, kinds, workload
from extender.cli.doctor.facts import Facts
from extender.cli.doctor.finding import NOT_CHECKED, Finding, Severity, error, skipped
from extender.cli.inspection.commands import show
from extender.cli.inspection.options import As, Context, Kubeconfig, Output, Url
from extender.cli.inspection.reach import RefusedError, UnreachableError, Way, reach, way_of
from extender.cli.inspection.tables import is_idle
from extender.cli.terminal import plain, stop
from policies.words import many

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan", Severity.SKIPPED: "magenta"}
_ORDER = list(Severity)
_SHOWN = 20
"""How many findings of one code are shown: a thousand pods with one fault are one fault."""


def doctor(
    kube_scheduler_config: Annotated[
        Path | None,
        typer.Option(help="kube-scheduler's configuration; default: the ConfigMap of Muster's Deployment."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Muster's settings; default: the ConfigMap of its Deployment.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    muster_namespace: Annotated[str, typer.Option(help="Where Muster's Deployment is.")] = "kube-system",
    url: Url = None,
    output: As = Output.TABLE,
) -> None:
    """Check installation and configuration, and say what to fix.

    Nothing is changed. Exit code 0: nothing is to be fixed, 1: something is, 2: something could not be read.
    """
    from extender.cli.doctor.gather import DoctorError, gather, read_files
    from extender.kube.client import CredentialsError, Kube

    async def look(facts: Facts) -> None:
        kube = await Kube.connect(kubeconfig, context)
        try:
            await gather(kube, muster_namespace, facts, settings_given=config is not None)
        finally:
            await kube.close()

    try:
        facts = read_files(config, kube_scheduler_config)
    except DoctorError as problem:
        stop(str(problem))
    try:
        asyncio.run(look(facts))
    except (CredentialsError, DoctorError) as problem:
        if kube_scheduler_config is None:
            stop(str(problem))
        # A file can be judged by itself, before there is a cluster.
        facts.skipped.append(skipped("the cluster", str(problem), "pass its credentials with --kubeconfig"))
    else:
        way = way_of(url, kubeconfig, context, None, quiet=True)
        _ask(replace(way, namespace=muster_namespace), facts, named=config is not None)
    report = examine(facts)
    # Through JSON, because YAML knows no enumerations.
    content = json.loads(
        json.dumps({"findings": [asdict(finding) for finding in report.findings], "more": report.more})
    )
    show(content, output, lambda out: show_report(report, out))
    raise typer.Exit(report.exit_code)


def _ask(way: Way, facts: Facts, *, named: bool) -> None:
    """Ask Muster whether it is ready and in sync.

    Also for the schedulerNames that it serves, if neither a file (``named``) nor a Deployment names them.
    """
    facts.guessed = not named and facts.deployment is None
    try:
        with reach(way) as muster:
            facts.muster, facts.left_out = muster.ready() or "", muster.left_out()
            with suppress(RefusedError):  # one of before the self-check has none
                facts.drift = muster.verified(begin=False)
            with suppress(RefusedError):
                facts.utilisation = muster.utilisation()
            if facts.utilisation is not None and facts.utilisation.on:
                facts.idle = [gang for gang in muster.gangs() if is_idle(gang)]
            if facts.guessed:
                facts.serves = muster.serves()
                facts.guessed = not facts.serves
    except UnreachableError as problem:
        if way.url is not None:
            facts.skipped.append(error("NotReachable", "muster", str(problem), "check that it runs, and the address"))
        else:
            facts.skipped.append(skipped("muster", str(problem), "pass its address with --url"))


def show_report(report: Report, out: Console) -> None:
    """Write each finding in lines of its own, then how many there are."""
    for finding in report.findings:
        head = plain(f"{finding.severity.upper():8}", _COLOURS[finding.severity])
        out.print(head.append_text(plain(f" {finding.code}  {finding.subject}", "bold")))
        out.print(plain(f"         {finding.what}"))
        if finding.fix:
            out.print(plain(f"         fix: {finding.fix}"))
    for code, count in report.more.items():
        out.print(plain(f"... and {count} more of {code}"))
    counts = {severity: report.count(severity) for severity in Severity if report.count(severity)}
    numbers = (
        f"{count} skipped" if severity is Severity.SKIPPED else many(count, severity)
        for severity, count in counts.items()
    )
    out.print(", ".join(numbers) or "no findings")


CHECKS = (configuration.check, installation.check, keys.check, kinds.check, workload.check, devices.check)


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, the gravest first. ``more``: how many findings of each code were left out."""

    findings: list[Finding]
    more: dict[str, int]

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0: nothing is to be fixed. 1: something is. 2: nothing was found, and something could not be read.

        What is not there to be read, as the Deployment of a Muster that runs outside of the cluster, counts as 0.
        """
        if self.count(Severity.ERROR) or self.count(Severity.WARNING):
            return 1
        return 2 if any(finding.code == NOT_CHECKED for finding in self.findings) else 0


def examine(facts: Facts) -> Report:
    """Make every check that the facts allow."""
    findings = [*facts.skipped, *(finding for check in CHECKS for finding in check(facts))]
    by_code: dict[str, list[Finding]] = {}
    for finding in dict.fromkeys(findings):
        by_code.setdefault(finding.code, []).append(finding)
    shown = [finding for same in by_code.values() for finding in same[:_SHOWN]]
    shown.sort(key=lambda finding: _ORDER.index(finding.severity))
    return Report(shown, {code: len(same) - _SHOWN for code, same in by_code.items() if len(same) > _SHOWN})
