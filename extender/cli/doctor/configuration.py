"""Traps in kube-scheduler's configuration: what it says about its extenders, against what Muster's settings say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from extender.cli.doctor.facts import Facts, Tree
from extender.cli.doctor.finding import Finding, error, warning
from extender.config.settings import Settings

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|h|m|s)")
_DEFAULT_TIMEOUT_S = 5.0
_LONGEST_ASK_S = 5.0
_LEAST_QPS = 100
_FIELDS = {
    "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig",
    "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
}  # fmt: skip
_VERBS = ("filter", "prioritize", "preempt", "bind")


def duration_s(text: object) -> float | None:
    """Go's way to write durations: ``30s``, ``1m30s``, ``500ms``. None for anything else."""
    said = str(text).strip()
    parts = _DURATION.findall(said)
    if not parts or "".join(number + unit for number, unit in parts) != said.lstrip("+"):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def check(facts: Facts) -> Iterator[Finding]:
    """The findings about the file itself."""
    config = facts.scheduler
    if config is None:
        return
    kind = (config.get("apiVersion"), config.get("kind"))
    if kind != ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"):
        said = f"it is {kind[0] or '?'} {kind[1] or '?'}"
        yield error("NotASchedulerConfig", facts.scheduler_source, said, "write a kubescheduler.config.k8s.io/v1 one")
        return
    if (odd := _misshapen(config)) is not None:
        yield error("BadShape", odd, "kube-scheduler cannot read it: it has another shape", "see its documentation")
        return
    entries: list[Tree] = config.get("extenders") or []
    port = facts.settings.listen_port
    ours = [one for one in entries if _port(str(one.get("urlPrefix") or "")) == port]
    if not ours:
        address = f"{'https' if facts.settings.tls_cert_file else 'http'}://{facts.settings.listen_host}:{port}"
        yield error(
            "NoExtender", "extenders", f"no entry calls Muster at port {port}",
            f"set urlPrefix to {address}, or listen_port of Muster's settings to the port that is called",
        )  # fmt: skip
        ours = entries
    for at, entry in enumerate(entries):
        yield from _unknown_fields(f"extenders[{at}]", entry)
        if entry in ours:
            yield from _entry(f"extenders[{at}]", entry, facts)
        else:
            yield warning(
                "ForeignExtender", f"extenders[{at}]", f"{entry.get('urlPrefix')} is asked as well",
                "run Muster as the only extender of its kube-scheduler: another one's refusals break plans",
            )  # fmt: skip
    yield from _verbs(ours)
    yield from _timeouts(ours, config, facts)
    profiles: list[Tree] = config.get("profiles") or [{}]
    yield from _sampling(config, profiles)
    yield from _profiles(profiles, facts)
    qps = (config.get("clientConnection") or {}).get("qps", 50)
    if isinstance(qps, int | float) and qps < _LEAST_QPS:
        yield warning(
            "LowQps", "clientConnection.qps", f"{qps:g} writes a second: every pod that is refused costs one inside "
            "the scheduling cycle, and a large gang stalls everybody", "set clientConnection: {qps: 500, burst: 1000}",
        )  # fmt: skip
    yield from _election(config.get("leaderElection") or {}, profiles, facts)


def _misshapen(config: Tree) -> str | None:
    """The first field that is no list or mapping although it has to be one."""
    for name in ("extenders", "profiles"):
        said = config.get(name)
        if said is not None and not (isinstance(said, list) and all(isinstance(one, Mapping) for one in said)):
            return name
    parts = [(name, config.get(name)) for name in ("clientConnection", "leaderElection")]
    parts += [("tlsConfig", one.get("tlsConfig")) for one in config.get("extenders") or []]
    return next((name for name, said in parts if said is not None and not isinstance(said, Mapping)), None)


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _unknown_fields(where: str, entry: Tree) -> Iterator[Finding]:
    for name in entry:
        if name not in _FIELDS:
            yield error(
                "UnknownField", f"{where}.{name}", "kube-scheduler refuses to start with a field that it does not know",
                "correct its spelling or take it out",
            )  # fmt: skip


def _entry(where: str, entry: Tree, facts: Facts) -> Iterator[Finding]:
    if entry.get("ignorable"):
        yield error(
            "Ignorable", f"{where}.ignorable", "a bind that Muster refuses falls through to kube-scheduler's own "
            "binder, which starts part of a gang", "set ignorable: false",
        )  # fmt: skip
    if entry.get("nodeCacheCapable") is not True:
        yield error(
            "NodesNotNames", f"{where}.nodeCacheCapable", "whole Node objects are sent with every call, megabytes "
            "each, and in-tree scores are wrong", "set nodeCacheCapable: true",
        )  # fmt: skip
    if entry.get("managedResources"):
        yield error(
            "ManagedResources", f"{where}.managedResources", "members without these resources (a launcher, say) skip "
            "filter and the hold, and start alone", "leave managedResources out",
        )  # fmt: skip
    weight = entry.get("weight")
    if entry.get("prioritizeVerb") and not (isinstance(weight, int) and weight > 0):
        yield error(
            "NoWeight", f"{where}.weight", "kube-scheduler refuses to start: prioritizeVerb needs a positive weight",
            "set weight: 1",
        )  # fmt: skip
    url = str(entry.get("urlPrefix") or "")
    secure = urlsplit(url).scheme == "https"
    if secure != bool(facts.settings.tls_cert_file):
        served = "HTTPS" if facts.settings.tls_cert_file else "plain HTTP"
        yield error(
            "SchemeDiffers", f"{where}.urlPrefix", f"{url} is called, and Muster serves {served}",
            "make urlPrefix and tls_cert_file of Muster's settings agree",
        )  # fmt: skip
    tls = entry.get("tlsConfig") or {}
    if secure and not (tls.get("caFile") or tls.get("caData")):
        yield warning(
            "TlsNotVerified", f"{where}.tlsConfig", "without an authority kube-scheduler accepts any certificate",
            "set tlsConfig.caFile to the authority of Muster's certificate",
        )  # fmt: skip


def _verbs(ours: list[Tree]) -> Iterator[Finding]:
    harm = {
        "filter": "pods of gangs are put anywhere, one by one",
        "prioritize": "pods in no gang spread over whole cliques",
        "preempt": "ordinary preemption evicts members of gangs one by one",
        "bind": "nothing is held: gangs start in part",
    }
    for verb in _VERBS:
        entries = [one for one in ours if one.get(f"{verb}Verb")]
        severe = warning if verb == "prioritize" else error
        if not entries:
            yield severe(f"No{verb.capitalize()}Verb", "extenders", harm[verb], f"set {verb}Verb: {verb} in one entry")
        elif any(one[f"{verb}Verb"] != verb for one in entries):
            said = entries[0][f"{verb}Verb"]
            yield error("WrongVerb", "extenders", f"{verb}Verb is {said}, a page that Muster lacks", f"write {verb}")
    if sum(bool(one.get("bindVerb")) for one in ours) > 1:
        yield error("TwoBinders", "extenders", "kube-scheduler refuses to start with two bindVerbs", "keep one")


def _timeouts(ours: list[Tree], config: Tree, facts: Facts) -> Iterator[Finding]:
    for entry in ours:
        asks = any(entry.get(f"{verb}Verb") for verb in _VERBS[:3])
        binds = bool(entry.get("bindVerb"))
        timeout_s = duration_s(entry["httpTimeout"]) if entry.get("httpTimeout") else _DEFAULT_TIMEOUT_S
        if timeout_s is None or timeout_s <= 0:
            said = entry.get("httpTimeout")
            yield error("BadTimeout", "httpTimeout", f"{said} is no positive duration", "write one like 2s or 30s")
        elif asks and binds:
            yield error(
                "OneEntry", "extenders", f"one httpTimeout of {timeout_s:g} s covers both the hold of a bind and the "
                "calls inside the serial scheduling cycle", "make two entries: bindVerb alone in the second one",
            )  # fmt: skip
        elif binds:
            yield from _hold(timeout_s, facts.settings, config)
        elif timeout_s > _LONGEST_ASK_S or not entry.get("httpTimeout"):
            yield warning(
                "LongFilterTimeout", "httpTimeout", f"a hung call stops all scheduling for {timeout_s:g} s",
                "set httpTimeout: 2s in the entry without bindVerb",
            )  # fmt: skip


def _hold(timeout_s: float, settings: Settings, config: Tree) -> Iterator[Finding]:
    hold_s = settings.bind_timeout_s
    if timeout_s < hold_s:
        yield error(
            "BindTimeoutShort", "httpTimeout", f"kube-scheduler waits {timeout_s:g} s for a bind that Muster holds up "
            f"to {hold_s:g} s: it gives up first, and gangs fail", f"set httpTimeout: {hold_s:g}s (bind_timeout_s)",
        )  # fmt: skip
    elif timeout_s > hold_s:
        yield warning(
            "BindTimeoutDiffers", "httpTimeout", f"kube-scheduler would wait {timeout_s:g} s, and Muster lets go "
            f"after {hold_s:g} s", f"set bind_timeout_s: {timeout_s:g} in Muster's settings",
        )  # fmt: skip
    backoff_s = config.get("podMaxBackoffSeconds", 10)
    held_s = min(timeout_s, settings.hold_timeout_s)
    if isinstance(backoff_s, int) and backoff_s >= held_s:
        yield error(
            "BackoffTooLong", "podMaxBackoffSeconds", f"members come back up to {backoff_s} s apart, and are held for "
            f"{held_s:g} s only: they never meet", "set podMaxBackoffSeconds well below the hold: 10",
        )  # fmt: skip


def _sampling(config: Tree, profiles: list[Tree]) -> Iterator[Finding]:
    """A profile's own share wins over the one for all."""
    where = "percentageOfNodesToScore"
    shares: dict[str, object] = {}
    for at, profile in enumerate(profiles):
        own = profile.get(where)
        shares.setdefault(*((where, config.get(where)) if own is None else (f"profiles[{at}].{where}", own)))
    for name, share in shares.items():
        if share != 100:
            yield error(
                "NodesSampled", name, f"{'unset' if share is None else share}: above 100 nodes Muster is shown a part "
                "of the cluster, often without the node that it planned", "set percentageOfNodesToScore: 100",
            )  # fmt: skip


def _profiles(profiles: list[Tree], facts: Facts) -> Iterator[Finding]:
    served = [str(one.get("schedulerName") or "default-scheduler") for one in profiles]
    for name in facts.ours:
        if name not in served:
            yield error(
                "NoProfile", "profiles", f"no profile is called {name}, which is in Muster's scheduler_names: nobody "
                "schedules its pods", f"add a profile with schedulerName: {name}",
            )  # fmt: skip
    for name in served:
        if name not in facts.ours:
            yield warning(
                "ProfileNotOurs", "profiles", f"profile {name} calls Muster too, which takes its pods for those of "
                "another scheduler: gangs among them never start", f"add {name} to scheduler_names",
            )  # fmt: skip


def _election(election: Tree, profiles: list[Tree], facts: Facts) -> Iterator[Finding]:
    elects = election.get("leaderElect", True)
    place = election.get("resourceNamespace") or "kube-system", election.get("resourceName") or "kube-scheduler"
    ours = facts.settings.leader_election
    if ours.enabled and not elects:
        yield error(
            "NobodyActs", "leaderElection.leaderElect", "kube-scheduler elects nobody, and Muster acts only where its "
            "kube-scheduler was elected", "set leaderElect: true, or leader_election.enabled: false of Muster",
        )  # fmt: skip
    elif ours.enabled and place != (ours.namespace, ours.name):
        yield error(
            "LeaseDiffers", "leaderElection", f"kube-scheduler holds the Lease {'/'.join(place)}, and Muster looks at "
            f"{ours.namespace}/{ours.name}: it never acts", "make resourceNamespace and resourceName agree with it",
        )  # fmt: skip
    names = [one.get("schedulerName", "default-scheduler") for one in profiles]
    if elects and place[1] == "kube-scheduler" and "default-scheduler" not in names:
        yield error(
            "LeaseShared", "leaderElection.resourceName", "it is the Lease of the cluster's own kube-scheduler: "
            "only one of the two ever runs", "set resourceName: muster",
        )  # fmt: skip
