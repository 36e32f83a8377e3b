"""Traps in kube-scheduler's configuration: its extenders against Muster's settings, and its profiles with their
plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from urllib.parse import urlsplit

from extender.cli.doctor.facts import Facts, Tree
from extender.cli.doctor.finding import Finding, error, note, warning
from extender.config.settings import Settings
from extender.core.gate.advisory import Mode
from extender.core.ledger.creation import DEFAULT_RATE
from extender.core.limits import Limits
from extender.kube.reading.quantity import duration_s


def check_profiles(config: Tree, profiles: list[Tree], facts: Facts) -> Iterator[Finding]:
    """The findings about the profiles of that configuration. Fields with a wrong type are ignored."""
    yield from _sampling(config, profiles)
    for at, profile in enumerate(profiles):
        yield from _plugins(f"profiles[{at}].plugins", _tree(profile.get("plugins")))
        yield from _hidden(f"profiles[{at}].pluginConfig", _trees(profile.get("pluginConfig")))
    served = [str(profile.get("schedulerName") or "default-scheduler") for profile in profiles]
    for name in facts.ours:
        if name not in served:
            what = f"no profile is called {name}, which is in Muster's scheduler_names: its pods are not scheduled"
            yield error("NoProfile", "profiles", what, f"add a profile with schedulerName: {name}")
    for name in served:
        if name not in facts.ours:
            what = f"profile {name} calls Muster, which treats its pods as another scheduler's: their gangs never start"
            yield warning("ProfileNotOurs", "profiles", what, f"add {name} to scheduler_names")


def _tree(content: object) -> Tree:
    return dict(content) if isinstance(content, Mapping) else {}


def _trees(content: object) -> list[Tree]:
    return [dict(element) for element in content if isinstance(element, Mapping)] if isinstance(content, list) else []


def _sampling(config: Tree, profiles: list[Tree]) -> Iterator[Finding]:
    """Check how many nodes are scored. A profile's own share replaces the one for all profiles."""
    where = "percentageOfNodesToScore"
    shares: dict[str, object] = {}
    for at, profile in enumerate(profiles):
        own = profile.get(where)
        shares.setdefault(*((where, config.get(where)) if own is None else (f"profiles[{at}].{where}", own)))
    for name, share in shares.items():
        if share != 100:
            what = f"{'unset' if share is None else share}: above 100 nodes kube-scheduler often skips the planned node"
            yield error("NodesSampled", name, what, "set percentageOfNodesToScore: 100")


def _plugins(where: str, points: Tree) -> Iterator[Finding]:
    """Find plugins that do Muster's work, or that Muster relies on. ``points``: the plugins of each extension point."""
    enabled = {
        name: {plugin.get("name") for plugin in _trees(_tree(point).get("enabled"))} for name, point in points.items()
    }
    if any("Coscheduling" in names for names in enabled.values()):
        what = "its plugin Coscheduling makes members wait for each other before they reach Muster's hold"
        yield error("Coscheduling", where, what, "take it out: Muster reads its PodGroups (docs/migrate.md)")
    elif others := enabled.get("queueSort", set()) - {"PrioritySort"}:
        what = (
            f"{min(map(str, others))} sorts the queue: Muster tells by the order of PrioritySort whose turn is to come"
        )
        yield warning("OtherQueueSort", f"{where}.queueSort", what, "leave queueSort out")


def _hidden(where: str, configs: list[Tree]) -> Iterator[Finding]:
    """Find requirements of plugins about the nodes of all pods, which no pod shows."""
    for args in (_tree(config.get("args")) for config in configs):
        affinity, spread = _tree(args.get("addedAffinity")), _trees(args.get("defaultConstraints"))
        hidden = {
            "addedAffinity": "requiredDuringSchedulingIgnoredDuringExecution" in affinity,
            "defaultConstraints": any(constraint.get("whenUnsatisfiable") == "DoNotSchedule" for constraint in spread),
        }
        for name in [name for name, hides in hidden.items() if hides]:
            what = f"{name} closes nodes for a reason that no pod says: gangs planned there are refused each time"
            yield warning("HiddenDemand", where, what, "taint such nodes, or say it in the pods")


_DEFAULT_TIMEOUT_S = 5.0
_SHORTEST_ASK_S, _LONGEST_ASK_S = 0.1, 5.0
_LEAST_QPS = 100
_LONG_HOLD_S = 600.0
"""The value in the manifests: enough for the pods of the largest gang."""
_FIELDS = {
    "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig",
    "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
}  # fmt: skip
_VERBS = ("filter", "prioritize", "preempt", "bind")


def check(facts: Facts) -> Iterator[Finding]:
    """The findings about kube-scheduler's configuration file."""
    config = facts.scheduler
    if config is None:
        return
    kind = (config.get("apiVersion"), config.get("kind"))
    if kind != ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"):
        text = f"it is {' '.join(str(piece) for piece in kind if piece) or 'no object with apiVersion and kind'}"
        yield error("NotASchedulerConfig", facts.scheduler_source, text, "write a kubescheduler.config.k8s.io/v1 one")
        return
    if (odd := _misshapen(config)) is not None:
        yield error("BadShape", odd, "kube-scheduler cannot read it: it has another shape", "see its documentation")
        return
    entries: list[Tree] = config.get("extenders") or []
    port = facts.settings.listen_port
    ours = [entry for entry in entries if _port(str(entry.get("urlPrefix") or "")) == port]
    if not ours:
        address = f"{'https' if facts.settings.tls_cert_file else 'http'}://{facts.settings.listen_host}:{port}"
        fix = f"set urlPrefix to {address}, or listen_port of Muster's settings to the port that is called"
        yield error("NoExtender", "extenders", f"no entry calls Muster at port {port}", fix)
        ours = entries
    for at, entry in enumerate(entries):
        yield from _unknown_fields(f"extenders[{at}]", entry)
        if entry in ours:
            yield from _entry(f"extenders[{at}]", entry, facts)
        else:
            fix = "run Muster as the only extender of its kube-scheduler: another one's refusals break plans"
            yield warning("ForeignExtender", f"extenders[{at}]", f"{entry.get('urlPrefix')} is asked as well", fix)
    yield from _verbs(ours)
    yield from _timeouts(ours, config, facts)
    profiles: list[Tree] = config.get("profiles") or [{}]
    yield from check_profiles(config, profiles, facts)
    qps = (config.get("clientConnection") or {}).get("qps", 50)
    if isinstance(qps, int | float) and qps < _LEAST_QPS:
        what = f"{qps:g} writes a second: every refused pod costs one in the scheduling cycle, so large gangs stall it"
        yield warning("LowQps", "clientConnection.qps", what, "set clientConnection: {qps: 500, burst: 1000}")
    yield from _election(config.get("leaderElection") or {}, profiles, facts)


def _misshapen(config: Tree) -> str | None:
    """The first field that has to be a list or a mapping and is not."""
    for name in ("extenders", "profiles"):
        content = config.get(name)
        if content is not None and not (
            isinstance(content, list) and all(isinstance(element, Mapping) for element in content)
        ):
            return name
    parts = [(name, config.get(name)) for name in ("clientConnection", "leaderElection")]
    parts += [("tlsConfig", extender.get("tlsConfig")) for extender in config.get("extenders") or []]
    return next((name for name, value in parts if value is not None and not isinstance(value, Mapping)), None)


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _unknown_fields(where: str, entry: Tree) -> Iterator[Finding]:
    for name in entry:
        if name not in _FIELDS:
            what = "kube-scheduler refuses to start with a field that it does not know"
            yield error("UnknownField", f"{where}.{name}", what, "correct its spelling or take it out")


def _entry(where: str, entry: Tree, facts: Facts) -> Iterator[Finding]:
    if entry.get("ignorable") and facts.settings.mode is Mode.ADVISE:
        yield note(
            "Ignorable", f"{where}.ignorable", "as it should be in advisory mode; for mode: enforce set it to false"
        )
    elif entry.get("ignorable"):
        what = "a bind that Muster refuses falls through to kube-scheduler's own binder: gangs start in part"
        yield error("Ignorable", f"{where}.ignorable", what, "set ignorable: false")
    if entry.get("nodeCacheCapable") is not True:
        what = "every call carries whole Node objects, which are megabytes, and in-tree scores are wrong"
        yield error("NodesNotNames", f"{where}.nodeCacheCapable", what, "set nodeCacheCapable: true")
    if entry.get("managedResources"):
        what = "members without these resources (a launcher, say) skip filter and the hold, and start alone"
        yield error("ManagedResources", f"{where}.managedResources", what, "leave managedResources out")
    weight = entry.get("weight")
    if entry.get("prioritizeVerb") and not (isinstance(weight, int) and weight > 0):
        what = "kube-scheduler refuses to start: prioritizeVerb needs a positive weight"
        yield error("NoWeight", f"{where}.weight", what, "set weight: 5")
    yield from _tls(where, entry, facts)


def _tls(where: str, entry: Tree, facts: Facts) -> Iterator[Finding]:
    url = str(entry.get("urlPrefix") or "")
    secure = urlsplit(url).scheme == "https"
    if secure != bool(facts.settings.tls_cert_file):
        served = "HTTPS" if facts.settings.tls_cert_file else "plain HTTP"
        fix = "make urlPrefix and tls_cert_file of Muster's settings agree"
        yield error("SchemeDiffers", f"{where}.urlPrefix", f"{url} is called, and Muster serves {served}", fix)
    tls = entry.get("tlsConfig") or {}
    if secure and not (tls.get("caFile") or tls.get("caData")):
        what, fix = (
            "kube-scheduler accepts any certificate",
            "set tlsConfig.caFile to the authority of Muster's certificate",
        )
        yield warning("TlsNotVerified", f"{where}.tlsConfig", what, fix)
    if secure and facts.settings.tls_client_ca_file and not (tls.get("certFile") or tls.get("certData")):
        what = "kube-scheduler shows no certificate, and Muster asks for one (tls_client_ca_file): every call fails"
        yield error("NoClientCertificate", f"{where}.tlsConfig", what, "set tlsConfig.certFile and keyFile")


def _verbs(ours: list[Tree]) -> Iterator[Finding]:
    harm = {
        "filter": "pods of gangs are put anywhere, one by one",
        "prioritize": "pods in no gang spread over whole cliques",
        "preempt": "ordinary preemption evicts members of gangs one by one",
        "bind": "nothing is held: gangs start in part",
    }
    for verb in _VERBS:
        entries = [entry for entry in ours if entry.get(f"{verb}Verb")]
        severe = warning if verb == "prioritize" else error
        if not entries:
            yield severe(f"No{verb.capitalize()}Verb", "extenders", harm[verb], f"set {verb}Verb: {verb} in one entry")
        elif any(entry[f"{verb}Verb"] != verb for entry in entries):
            written = entries[0][f"{verb}Verb"]
            yield error("WrongVerb", "extenders", f"{verb}Verb is {written}, a page that Muster lacks", f"write {verb}")
    if sum(bool(entry.get("bindVerb")) for entry in ours) > 1:
        yield error("TwoBinders", "extenders", "kube-scheduler refuses to start with two bindVerbs", "keep one")


def _timeouts(ours: list[Tree], config: Tree, facts: Facts) -> Iterator[Finding]:
    for entry in ours:
        asks = any(entry.get(f"{verb}Verb") for verb in _VERBS[:3])
        binds = bool(entry.get("bindVerb"))
        text = str(entry.get("httpTimeout") or f"{_DEFAULT_TIMEOUT_S}s")
        timeout_s = duration_s(text.strip().removeprefix("+"))
        if timeout_s is None or timeout_s <= 0:
            yield error("BadTimeout", "httpTimeout", f"{text} is no positive duration", "write one like 2s or 30s")
        elif asks and binds:
            what = f"one httpTimeout of {timeout_s:g} s is used for held binds and for calls in the scheduling cycle"
            yield error("OneEntry", "extenders", what, "make two entries: bindVerb alone in the second one")
        elif binds:
            yield from _hold(timeout_s, facts.settings, config)
            yield from _creation(timeout_s, facts)
        elif timeout_s > _LONGEST_ASK_S or not entry.get("httpTimeout"):
            what = f"a hung call stops all scheduling for {timeout_s:g} s"
            yield warning("LongFilterTimeout", "httpTimeout", what, "set httpTimeout: 2s in the entry without bindVerb")
        elif timeout_s < _SHORTEST_ASK_S:
            what = f"a call that takes longer than {timeout_s:g} s costs its pod the attempt, and some do under load"
            yield warning(
                "ShortFilterTimeout", "httpTimeout", what, "set httpTimeout: 2s in the entry without bindVerb"
            )


def _hold(timeout_s: float, settings: Settings, config: Tree) -> Iterator[Finding]:
    hold_s = settings.bind_timeout_s
    if timeout_s < hold_s:
        what = (
            f"kube-scheduler gives up a bind after {timeout_s:g} s, and Muster holds it up to {hold_s:g} s: gangs fail"
        )
        yield error("BindTimeoutShort", "httpTimeout", what, f"set httpTimeout: {hold_s:g}s (bind_timeout_s)")
    elif timeout_s > hold_s:
        what = f"kube-scheduler would wait {timeout_s:g} s, and Muster ends the hold after {hold_s:g} s"
        yield warning(
            "BindTimeoutDiffers", "httpTimeout", what, f"set bind_timeout_s: {timeout_s:g} in Muster's settings"
        )
    backoff_s = config.get("podMaxBackoffSeconds", 10)
    held_s = min(timeout_s, settings.hold_timeout_s)
    if isinstance(backoff_s, int) and backoff_s >= held_s:
        what = f"members are retried up to {backoff_s} s apart, and held for {held_s:g} s only: no quorum is reached"
        yield error("BackoffTooLong", "podMaxBackoffSeconds", what, "set podMaxBackoffSeconds well below the hold: 10")


def _creation(timeout_s: float, facts: Facts) -> Iterator[Finding]:
    """Check that the hold is long enough: the first pod of a job is held until the last one exists.

    The pods of jobs that were started before it are created in the meantime.
    """
    before_s, most = Limits().creation_s, facts.settings.max_gang_members
    needed_s = max(_LONG_HOLD_S, ceil(most / DEFAULT_RATE + before_s))
    lasts_for = max(0, int((timeout_s - before_s) * DEFAULT_RATE))
    if facts.admits_jobs and lasts_for < most:
        what = (
            f"kube-scheduler gives a bind up after {timeout_s:g} s, in which kube-controller-manager makes some "
            f"{lasts_for} pods of a job ({DEFAULT_RATE:g} a second): a larger one is started and suspended for ever"
        )
        fix = f"set httpTimeout: {needed_s:g}s in the entry with bindVerb, bind_timeout_s: {needed_s:g} in Muster's"
        yield error("BindTimeoutShortForJobs", "httpTimeout", what, f"{fix} settings")


def _election(election: Tree, profiles: list[Tree], facts: Facts) -> Iterator[Finding]:
    elects = election.get("leaderElect", True)
    place = election.get("resourceNamespace") or "kube-system", election.get("resourceName") or "kube-scheduler"
    ours = facts.settings.leader_election
    if ours.enabled and not elects:
        what = "kube-scheduler holds no election, and Muster acts only beside an elected kube-scheduler"
        fix = "set leaderElect: true, or leader_election.enabled: false of Muster"
        yield error("NobodyActs", "leaderElection.leaderElect", what, fix)
    elif ours.enabled and place != (ours.namespace, ours.name):
        what = f"kube-scheduler uses the Lease {'/'.join(place)}, and Muster watches {ours.namespace}/{ours.name}"
        yield error("LeaseDiffers", "leaderElection", what, "make resourceNamespace and resourceName agree with it")
    names = [profile.get("schedulerName", "default-scheduler") for profile in profiles]
    if elects and place[1] == "kube-scheduler" and "default-scheduler" not in names:
        what = "it is the Lease of the cluster's own kube-scheduler: only one of the two ever runs"
        yield error("LeaseShared", "leaderElection.resourceName", what, "set resourceName: muster")
