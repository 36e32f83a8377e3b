"""Traps in kinds: a kind of the settings does not exist, or nothing limits Muster's writes on it, or versions
differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.cli.doctor.facts import Facts, Tree
from extender.cli.doctor.finding import Finding, note, warning
from extender.cli.doctor.rights import EXTENDER
from extender.config.job_kinds import JobKind
from extender.kube.discovery import Served
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.owners import OWNER_KINDS, OwnerKind
from extender.kube.kinds.registry import KINDS
from extender.kube.queues.resources import QUEUE_GROUP, QUEUE_KINDS, VERSIONS
from policies.words import listed


def check(facts: Facts) -> Iterator[Finding]:
    """The findings about the kinds in ``job_kinds``, and about the kinds that Muster knows by itself."""
    yield from _other_versions(facts.served or {})
    if not facts.kueue_runs:
        yield from _older_queues(facts.served or {})
    for kind in facts.settings.job_kinds:
        if facts.served is not None:
            yield from _there(kind, facts.served.get((kind.version, kind.plural)))
        if facts.guards is not None and not any(_guards(guard, kind) for guard in facts.guards.values()):
            what = "no ValidatingAdmissionPolicy says what Muster may write: its token can run any image in such jobs"
            yield warning(
                "KindUnguarded", _subject(kind), what, "adapt manifests/examples/own-kind/extender-policy.yaml"
            )


def _other_versions(served: Mapping[Served, str]) -> Iterator[Finding]:
    """Find kinds in other versions: Muster reads one version of each kind, and nothing reports objects of another
    one."""
    known: tuple[Kind | OwnerKind, ...] = (*KINDS, *OWNER_KINDS)
    for kind in known:
        there = _versions(served, kind.group, kind.plural)
        if there and kind.version not in there:
            what = f"only {listed(there)} is served, and Muster reads {kind.version}: no {kind.name} is planned"
            fix = "install a release of its project that serves that version, if Muster is to start them"
            yield note("OtherVersion", f"{kind.plural}.{kind.group}", what, fix)


def _older_queues(served: Mapping[Served, str]) -> Iterator[Finding]:
    """Find older queue objects: if only some queue objects are read, the quota differs from what people wrote."""
    ours = [f"{QUEUE_GROUP}/{version}" for version in VERSIONS]
    for plural in QUEUE_KINDS:
        there = _versions(served, QUEUE_GROUP, plural)
        if there and not set(ours) & set(there):
            what = f"only {listed(there)} is served, and Muster reads {listed(ours)}: these objects do not count"
            fix = "apply manifests/components/queues, or the CRDs of a newer Kueue, and write these objects again"
            yield warning("OtherVersion", f"{plural}.{QUEUE_GROUP}", what, fix)


def _versions(served: Mapping[Served, str], group: str, plural: str) -> list[str]:
    return [
        version for version, served_plural in served if served_plural == plural and version.partition("/")[0] == group
    ]


def _there(kind: JobKind, name: str | None) -> Iterator[Finding]:
    """Check that a kind is served; otherwise neither Muster nor its log says so. ``name``: its kind at the API
    server."""
    if name is None:
        fix = "install its CRD, or correct version and plural in job_kinds"
        what = "the API server serves no such kind: no job of it is planned"
        yield warning("KindNotServed", _subject(kind), what, fix)
    elif name not in ("", kind.kind):
        what = f"its objects are of the kind {name}, and not {kind.kind}: no Event reaches them"
        yield warning("KindNotServed", _subject(kind), what, f"set kind: {name} in job_kinds")


def _guards(policy: Tree, kind: JobKind) -> bool:
    """Whether the policy checks updates of that kind, and names the account of the extender."""
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
