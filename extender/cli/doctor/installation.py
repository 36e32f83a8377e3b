"""Traps in the installation: versions, the objects that ship with Muster, rights, the Lease, and Muster itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from extender.cli.doctor import leftovers
from extender.cli.doctor.facts import Facts, Tree, pod_spec
from extender.cli.doctor.finding import Finding, error, note, warning
from extender.cli.doctor.rights import DEVICE_RELEASE, EXTENDER
from extender.cli.inspection.tables import use
from extender.core.gate.advisory import Mode
from extender.core.limits import Preempts
from extender.kube.dialects import POD_GROUP
from extender.kube.kinds.registry import KINDS
from policies.model import GANG_GATE
from policies.words import listed, many

TESTED = ((1, 37), (1, 36))
"""The minor versions of Kubernetes on which Muster is tested, the reference first."""
_MUTATES = (1, 36)
"""The first version of Kubernetes with mutating admission policies, which the admission components need."""
POLICY = "muster-gang-gate"
_GUARDED = "jobs job-status podgroups workloads pods pod-status bindings eviction-labels evictions events"
GUARDS = tuple(f"muster-extender-{what}" for what in _GUARDED.split())
"""The policies of manifests/base that limit the writes of Muster's account."""
_EVICTIONS, _GIVES_WAY = "muster-extender-evictions", "that-may-not-give-way"
"""The policy that limits Muster's evictions, and the condition that the component preemption adds to it."""
_MANY_RIGHTS = 20
"""If more rights than this are missing, they are not listed one by one."""
_SKEW = timedelta(seconds=5)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def check(facts: Facts) -> Iterator[Finding]:
    """The findings about Muster's own parts."""
    yield from _versions(facts)
    if not facts.groups_exist:
        yield note("NoPodGroups", "podgroups.scheduling.x-k8s.io", "not installed: gangs are named by annotations only")
    yield from _gate(facts)
    yield from _kueue(facts)
    yield from _deployment(facts)
    yield from _lease(facts)
    yield from _rights(facts)
    yield from _guards(facts)
    for name, policy in (facts.guards or {}).items():
        if name.startswith("muster-"):
            yield from _named(name, policy, facts)
    yield from _preemption(facts)
    if facts.muster:
        fix = "see its log, which names what it cannot read"
        yield error("NotInSync", "muster", f"it is not ready: {facts.muster}", fix)
    if facts.left_out:
        fix = "report it with its log; each is taken in again when it changes, or when the pod of Muster is replaced"
        yield warning("LeftOut", "muster", facts.left_out, fix)
    yield from _drift(facts)
    yield from _use_of_gpus(facts)
    if facts.settings.mode is Mode.ADVISE:
        yield note("Advising", "mode", "advisory mode: gangs are not started together, only counted")


def _drift(facts: Facts) -> Iterator[Finding]:
    """Report what Muster's self-check has found."""
    if (drift := facts.drift) is None:
        return
    if drift.differences or drift.restarts:
        restarted = f"restarted {many(drift.restarts, 'time')}" if drift.restarts else "not restarted"
        what = f"its self-check has found drift; its core was {restarted}"
        for first in drift.differences[:1]:
            what += f": {first.object}: {first.running}; after a restart: {first.rebuilt}"
        yield warning("Drift", "muster", what, "report it with the output of muster verify and Muster's log")
    elif drift.problem and not facts.muster:
        yield note("NotVerified", "muster", f"its last self-check has no result: {drift.problem}")


def _use_of_gpus(facts: Facts) -> Iterator[Finding]:
    """Report why the use of GPUs is not known, and which gangs leave theirs idle."""
    if facts.utilisation is not None and facts.utilisation.problem:
        fix = "see docs/utilisation.md"
        yield warning("NoUtilisation", "prometheus_url", facts.utilisation.problem, fix)
    for gang in facts.idle:
        if gang.utilisation is not None:
            fix = "ask its owner whether it is still needed"
            yield note("IdleGang", f"{gang.namespace}/{gang.name}", use(gang.utilisation), fix)


def _versions(facts: Facts) -> Iterator[Finding]:
    tested = " or ".join(f"{major}.{minor}" for major, minor in TESTED)
    server = None if facts.version is None else _minor(facts.version)
    if facts.version is not None and server not in TESTED:
        what = f"the API server is not {tested}, on which Muster is tested"
        yield warning("ServerVersion", facts.version, what, "try it in advisory mode first (mode: advise)")
    for container in pod_spec(facts.deployment).get("containers") or []:
        image = str(container.get("image", ""))
        if container.get("name") != "kube-scheduler":
            continue
        minor = _minor(image.partition("@")[0].rpartition(":")[2])
        fix = "use registry.k8s.io/kube-scheduler of the API server's minor version"
        if minor not in TESTED:
            what = f"this kube-scheduler is not {tested}: the calls to extenders change between releases"
            yield warning("SchedulerVersion", image, what, fix)
        elif server is not None and minor > server:
            yield warning("SchedulerVersion", image, f"this kube-scheduler is newer than {facts.version}", fix)


def _gate(facts: Facts) -> Iterator[Finding]:
    if facts.policies is None or facts.policy_bindings is None:
        return
    install = "kubectl apply -k manifests/components/admission-gate"
    if facts.version is not None and (_minor(facts.version) or _MUTATES) < _MUTATES:
        install = "this API server knows no MutatingAdmissionPolicy v1: let a policy engine do it (docs/kyverno.md)"
    ours = {name: policy for name, policy in facts.policies.items() if GANG_GATE in str(policy.get("spec"))}
    if facts.settings.mode is Mode.ENFORCE and not any(map(_gates_gangs, ours.values())):
        slower = "pods are not gated at admission: gangs start as safely, and several times slower"
        yield warning("NoGate", POLICY, slower, install)
    bound = [str((binding.get("spec") or {}).get("policyName")) for binding in facts.policy_bindings.values()]
    for name, policy in ours.items():
        if name not in bound:
            unbound = "the policy has no MutatingAdmissionPolicyBinding: it does nothing"
            yield warning("GateNotBound", name, unbound, "apply its component again")
        yield from _named(name, policy, facts)


def _gates_gangs(policy: Tree) -> bool:
    """Whether the policy gates the pods of gangs.

    The policy for jobs has no rule for pods, and the one for the pods of jobs does not know gangs by name.
    """
    spec = policy.get("spec") or {}
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or []
    return POD_GROUP in str(spec) and any("pods" in (rule.get("resources") or []) for rule in rules)


def _named(name: str, policy: Tree, facts: Facts) -> Iterator[Finding]:
    """Check that a policy for pods of certain schedulers names every schedulerName that Muster serves."""
    spec = policy.get("spec") or {}
    judged = [
        variable for variable in spec.get("variables") or () if "schedulerName in [" in str(variable.get("expression"))
    ]
    for condition in [*(spec.get("matchConditions") or ()), *judged]:
        text = str(condition.get("expression"))
        for scheduler in facts.ours if "schedulerName" in text else ():
            if f"'{scheduler}'" not in text and f'"{scheduler}"' not in text:
                what = f"it does not name the profile {scheduler}"
                fix = f"add '{scheduler}' to the expression of {condition.get('name')}"
                yield warning("GateElsewhere", name, what, fix)


def _kueue(facts: Facts) -> Iterator[Finding]:
    """Find jobs that Kueue's controller manages, too: it starts them without a plan, and stops jobs of Muster."""
    if facts.kueue_runs:
        what = "it renews its Lease: the queues are its own, and Muster admits nothing by quota while it does"
        yield note("KueueManagesQueues", "Kueue's controller", what, "to have Muster manage them, stop that controller")
    yield from leftovers.check(facts.leftovers)
    if facts.kueue is None or facts.leftovers.webhooks:
        return
    kinds = [f"{kind.group}/{kind.name.lower()}" for kind in KINDS]
    frameworks = facts.kueue.frameworks
    both = kinds if frameworks is None else [kind for kind in kinds if kind in frameworks]
    if both:
        theirs = (
            f"manages {', '.join(both)}" if frameworks else "may manage the kinds that Muster admits (not readable)"
        )
        fix = (
            f"take these kinds out of integrations.frameworks in {facts.kueue.config}, or leave them to Kueue: do "
            'without job-admission, and give each such job the label muster.dev/gang: "false"'
        )
        details = facts.kueue.config, f"Kueue {theirs}: both start and suspend the jobs that name a queue", fix
        if facts.admits_jobs:
            yield error("KueueManagesJobs", *details)
        else:
            yield warning("KueueManagesJobs", *details)


def _deployment(facts: Facts) -> Iterator[Finding]:
    if facts.deployment is None:
        return
    spec, status = facts.deployment.get("spec") or {}, facts.deployment.get("status") or {}
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    if ready < wanted:
        fix = "kubectl -n kube-system describe pods -l app.kubernetes.io/name=muster"
        yield error("NotReady", "deployment/muster", f"{ready} of {wanted} replicas are ready", fix)
    if wanted > 1 and not facts.settings.leader_election.enabled:
        what = f"{wanted} replicas, and leader_election of Muster's settings is off: all of them act"
        yield error("TwoLeaders", "deployment/muster", what, "set leader_election: {enabled: true}, or one replica")
    if not any(container.get("name") == "muster" for container in pod_spec(facts.deployment).get("containers") or []):
        what = "its pod has no container called muster beside kube-scheduler"
        yield error("NoExtenderBeside", "deployment/muster", what, "kubectl apply -k manifests/base")


def _lease(facts: Facts) -> Iterator[Finding]:
    """Check by the Lease whether some kube-scheduler leads, and by its instants whether its clock is right."""
    fix = "see the logs of the container kube-scheduler"
    if facts.lease == {}:
        yield error("NobodyLeads", "lease", "no kube-scheduler has ever taken Muster's Lease: its pods wait", fix)
    spec: Tree = (facts.lease or {}).get("spec") or {}
    renewed = spec.get("renewTime")
    if renewed is None or facts.now is None:
        return
    age = facts.now - datetime.fromisoformat(renewed)
    if age > timedelta(seconds=spec.get("leaseDurationSeconds") or 15) + _SKEW:
        what = f"no kube-scheduler has renewed Muster's Lease for {age.total_seconds():.0f} s: its pods wait"
        yield error("NobodyLeads", "lease", what, fix)
    elif age < -_SKEW:
        what = f"its clock is {-age.total_seconds():.0f} s ahead of the API server's: a takeover takes longer"
        yield warning("ClockSkew", str(spec.get("holderIdentity")), what, "run a time service (chrony) on the nodes")


def _rights(facts: Facts) -> Iterator[Finding]:
    missing = [account for account, there in facts.service_accounts.items() if not there]
    for account in missing:
        yield error("NoServiceAccount", account, "the ServiceAccount does not exist", "kubectl apply -k manifests/base")
    lacks = [right for right, granted in (facts.rights or {}).items() if not granted and right.account not in missing]
    if not any(member.pod.group_key is not None and member.pod.device_claims for member in facts.members or ()):
        lacks = [right for right in lacks if right.part != DEVICE_RELEASE]
    for account, count in Counter(right.account for right in lacks).items():
        if count > _MANY_RIGHTS:
            what = f"it may not {listed(str(lack) for lack in lacks if lack.account == account)}"
            fix = "kubectl apply -k manifests/base: a ClusterRoleBinding of it, or its ClusterRole, is not as shipped"
            yield error("MissingRight", account, what, fix)
            lacks = [right for right in lacks if right.account != account]
    for right in lacks:
        yield error("MissingRight", right.account, f"it may not {right}", f"kubectl apply -k manifests/{right.part}")


def _guards(facts: Facts) -> Iterator[Finding]:
    missing = [name for name in GUARDS if facts.guards is not None and name not in facts.guards]
    if missing:
        what = (
            f"no ValidatingAdmissionPolicy {listed(missing, len(GUARDS))}: RBAC alone limits what its token may write"
        )
        yield warning("ExtenderUnguarded", EXTENDER, what, "kubectl apply -k manifests/base")


def _preemption(facts: Facts) -> Iterator[Finding]:
    policy = (facts.guards or {}).get(_EVICTIONS)
    if facts.settings.preemption is not Preempts.ON or policy is None:
        return
    conditions = (policy.get("spec") or {}).get("matchConditions") or []
    if not any(condition.get("name") == _GIVES_WAY for condition in conditions):
        what = "it lets Muster evict members of gangs alone: plans that need the room of other pods fail"
        fix = "add manifests/components/preemption to the kustomization of the base, or set preemption: off"
        yield warning("NoEvictionsOfPods", _EVICTIONS, what, fix)


def _minor(version: str) -> tuple[int, int] | None:
    matched = _VERSION.match(version)
    return (int(matched[1]), int(matched[2])) if matched else None
