"""All checks together: from the facts to a report with an exit code."""

from __future__ import annotations

from dataclasses import dataclass

from extender.cli.doctor import configuration, installation, keys, kinds, workload
from extender.cli.doctor.facts import Facts
from extender.cli.doctor.finding import NOT_CHECKED, Finding, Severity

CHECKS = (configuration.check, installation.check, keys.check, kinds.check, workload.check)
_ORDER = list(Severity)
_SHOWN = 20
"""Findings of one code that are told one by one: a thousand pods with one fault are one fault."""


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, the gravest first. ``more``: how many of a code were left out."""

    findings: list[Finding]
    more: dict[str, int]

    def count(self, severity: Severity) -> int:
        return sum(one.severity is severity for one in self.findings)

    @property
    def exit_code(self) -> int:
        """0: nothing is to be fixed. 1: something is. 2: nothing was found, and something could not be read.

        What is not there to be read, as the Deployment of a Muster that runs outside of the cluster, counts as 0.
        """
        if self.count(Severity.ERROR) or self.count(Severity.WARNING):
            return 1
        return 2 if any(one.code == NOT_CHECKED for one in self.findings) else 0


def examine(facts: Facts) -> Report:
    """Make every check that the facts allow."""
    found = [*facts.skipped, *(one for check in CHECKS for one in check(facts))]
    kept: dict[str, list[Finding]] = {}
    for one in dict.fromkeys(found):
        kept.setdefault(one.code, []).append(one)
    shown = [one for same in kept.values() for one in same[:_SHOWN]]
    shown.sort(key=lambda one: _ORDER.index(one.severity))
    return Report(shown, {code: len(same) - _SHOWN for code, same in kept.items() if len(same) > _SHOWN})
