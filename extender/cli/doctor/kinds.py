"""Traps in the kinds of the settings: they are not there, or nothing limits what Muster's token may write on them."""

from __future__ import annotations

from collections.abc import Iterator

from extender.cli.doctor.facts import Facts, Tree
from extender.cli.doctor.finding import Finding, warning
from extender.cli.doctor.rights import EXTENDER
from extender.config.job_kinds import JobKind


def check(facts: Facts) -> Iterator[Finding]:
    """What the API server says of the kinds in ``job_kinds``."""
    for kind in facts.settings.job_kinds:
        if facts.served is not None:
            yield from _there(kind, facts.served.get((kind.version, kind.plural)))
        if facts.guards is not None and not any(_guards(one, kind) for one in facts.guards.values()):
            what = "no ValidatingAdmissionPolicy says what Muster may write: its token can run any image in such jobs"
            yield warning(
                "KindUnguarded", _subject(kind), what, "adapt manifests/examples/own-kind/extender-policy.yaml"
            )


def _there(kind: JobKind, name: str | None) -> Iterator[Finding]:
    """Of one that is not served nothing is heard, and no log tells it. ``name``: what the API server calls it."""
    if name is None:
        fix = "install its CRD, or correct version and plural in job_kinds"
        what = "the API server serves no such kind: no job of it is planned"
        yield warning("KindNotServed", _subject(kind), what, fix)
    elif name not in ("", kind.kind):
        what = f"its objects are of the kind {name}, and not {kind.kind}: no Event reaches them"
        yield warning("KindNotServed", _subject(kind), what, f"set kind: {name} in job_kinds")


def _guards(policy: Tree, kind: JobKind) -> bool:
    """It judges updates of that kind, and names the account of the extender."""
    spec = policy.get("spec") or {}
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or []
    return f":{EXTENDER}'" in str(spec.get("matchConditions")) + str(spec.get("validations")) and any(
        {kind.group, "*"} & {*rule.get("apiGroups", ())}
        and {kind.plural, "*"} & {*rule.get("resources", ())}
        and {"UPDATE", "*"} & {*rule.get("operations", ())}
        for rule in rules
    )


def _subject(kind: JobKind) -> str:
    return f"{kind.plural} of {kind.version}"
