"""A snapshot without the names of its owner: each name, UID and label value gets one pseudonym everywhere.

Pseudonyms sort like the names that they replace, so decisions by order of names stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from extender.core.gate.stamps import GANG_NAME, GANG_QUEUE, GANG_UID, RELEASE
from extender.kube.devices.reading import TARGET, USE
from extender.kube.dialects import NAMES, koordinator, yunikorn
from extender.kube.dialects.owner import LWS_NAME, TEMPLATE_HASH
from extender.kube.dialects.words import TASK_SPEC
from extender.kube.keys import FLAVORS, INDEX_LABEL, PLAN, PODSET, PRIORITY_CLASS, QUEUES, WORKLOAD
from extender.kube.kinds.plan import flavors_from, flavors_text, node_wait_from, node_wait_text, plan_from, plan_text
from extender.kube.reading.numbering import KAI_SUBGROUP, RAY_GROUP, RAY_HEAD, REPLICA_TYPE, ROLE, VOLCANO_JOB
from extender.kube.reading.queue_name import OF_VOLCANO
from extender.kube.reading.reserved import RESERVATIONS, reservation_from, reservation_text
from extender.kube.reading.topology import KUEUE_LAYERS, LWS_EXCLUSIVE, TOPOLOGY, layers_renamed
from extender.kube.reading.volumes import BETA_CLASS
from extender.kube.snapshots.reduction import READ
from extender.kube.snapshots.snapshot import ClusterFile
from policies.model import GroupKey, Reservation, Victim
from policies.model.constraints import ANY_ADDRESS
from policies.model.levels import PRESETS
from policies.model.storage import NO_PROVISIONER, SELECTED_NODE

_WELL_KNOWN = re.compile(
    r"(.*\.)?(kubernetes|k8s|nvidia|amd|intel|amazonaws|google|azure|coreweave|muster)\.(io|com|dev|cloud)"
)
_HARMLESS = re.compile(r"-?[0-9]{0,6}|true|false", re.ASCII)
_SERIAL = re.compile(r".+\.attributes\..*(?i:uuid|serial|guid|mac|address).*\.string")
"""Attributes of devices that identify single machines."""
_ROLES = re.compile(rf"master|worker|chief|ps|evaluator|launcher|{RAY_HEAD}|[0-9]{{1,6}}")
"""Role names of training jobs and of Ray, on some of which the rank depends. A number: a podset of an AppWrapper."""
_OF_JOB = re.compile(r"(.+)-[a-z0-9]+-\1-pgt-0-[a-z0-9]+")
_QUEUES = re.compile("default|root")
"""Queue names with a meaning in Volcano."""
_KINDS = {
    "nodes.metadata.name": "node", "claims.metadata.name": "claim",
    "budgets.metadata.name": "budget",
    "volumes.metadata.name": "volume", "claimRef.name": "claim", "claimRef.namespace": "namespace",
    "pods.metadata.name": "pod", "metadata.uid": "uid", "metadata.namespace": "namespace",
    "ownerReferences.uid": "uid", "ownerReferences.name": "owner", "owners.metadata.name": "owner",
    "jobs.metadata.name": "owner",
    "spec.nodeName": "node",
    "status.nominatedNodeName": "node", "persistentVolumeClaim.claimName": "claim", "schedulingGates.name": "key",
    "taints.key": "key", "taints.value": "value", "tolerations.key": "key", "tolerations.value": "value",
    "ports.hostIP": "address",
    "networkTopology.highestTierName": "key", "subGroups.name": "role", "subGroups.parent": "role",
    "topologyConstraint.requiredTopologyLevel": "key", "topologyConstraint.preferredTopologyLevel": "key",
    "matchExpressions.key": "key", "matchExpressions.values": "value", "matchFields.values": "node",
    "queues.metadata.name": "queue", "spec.cohort": "cohort", "spec.cohortName": "cohort", "spec.parentName": "cohort",
    "spec.clusterQueue": "queue", "spec.queue": "queue", "spec.parent": "queue",
    "flavors.name": "flavor", "resources.name": "key",
    "resourceGroups.coveredResources": "key", "spec.topologyName": "topology", "levels.nodeLabel": "key",
    "nodeTaints.key": "key", "nodeTaints.value": "value", "spec.admissionChecks": "check",
    "namespaces.metadata.name": "namespace",
    "storage.classes.metadata.name": "class", "classes.provisioner": "provisioner",
    "storage.csiDrivers.metadata.name": "provisioner", "storage.capacities.metadata.name": "capacity",
    "capacities.storageClassName": "class", "spec.storageClassName": "class",
    "spec.volumeAttributesClassName": "class",
    "matchLabelExpressions.key": "key", "matchLabelExpressions.values": "value",
    "devices.classes.metadata.name": "class", "devices.taintRules.metadata.name": "rule",
    "devices.slices.metadata.name": "slice", "devices.claimTemplates.metadata.name": "template",
    "devices.claims.metadata.name": "claim", "devices.computeDomains.metadata.name": "domain",
    "resourceClaimTemplate.name": "template", "parameters.domainID": "uid",
    "exactly.deviceClassName": "class", "firstAvailable.deviceClassName": "class",
    "spec.extendedResourceName": "key", "requests.name": "request", "firstAvailable.name": "request",
    "resourceClaims.name": "use", "resourceClaims.resourceClaimName": "claim",
    "resourceClaims.resourceClaimTemplateName": "template",
    "pool.name": "pool", "devices.name": "device", "devices.nodeName": "node", "results.pool": "pool",
    "results.device": "device", "deviceSelector.pool": "pool", "deviceSelector.device": "device",
    "taint.key": "key", "taint.value": "value", "reservedFor.uid": "uid",
}  # fmt: skip
"""Maps the end of a text's path to the kind of thing that the text names."""
_GROUPS = "podGroups", "volcanoPodGroups", "kaiPodGroups", "koordinatorPodGroups"
_KINDS |= {f"{groups}.metadata.name": "group" for groups in _GROUPS}
_KINDS |= {
    f"{where}.{field}": kind
    for where in ("requiredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm", "topologySpreadConstraints")
    for field, kind in [
        ("topologyKey", "key"), ("matchLabelKeys", "key"), ("mismatchLabelKeys", "key"), ("namespaces", "namespace"),
    ]
}  # fmt: skip
_AMOUNTS = (
    *(".requests", ".limits", ".overhead", ".allocatable", ".consumedResources"),
    *(".capability", ".deserved", ".guarantee.resource"),
)
_LABELS = ("nodes.metadata.labels", ".nodeSelector", ".matchLabels", ".nodeLabels")
_MARKS = dict.fromkeys((*NAMES, GANG_NAME, *koordinator.WORDS.more), "group") | dict.fromkeys(
    (GANG_UID, RELEASE, WORKLOAD), "uid"
)
_SAY_ROLES = TASK_SPEC, KAI_SUBGROUP, yunikorn.TASK_GROUP_NAME, PODSET, RAY_GROUP, REPLICA_TYPE, ROLE
_MARKS |= dict.fromkeys(_SAY_ROLES, "role")
_MARKS |= {INDEX_LABEL: "key", LWS_NAME: "owner", VOLCANO_JOB: "owner", TEMPLATE_HASH: "template"}
_MARKS[PRIORITY_CLASS] = "class"
_MARKS |= dict.fromkeys(yunikorn.APPLICATION_IDS, "group") | dict.fromkeys((*QUEUES, OF_VOLCANO, GANG_QUEUE), "queue")
_MARKS[LWS_EXCLUSIVE] = "key"
_MARKS |= {SELECTED_NODE: "node", BETA_CLASS: "class"}
_MARKS |= {key: "key" for keys in TOPOLOGY for key in (keys.required, keys.preferred, keys.slice_topology)}
"""Labels and annotations whose value names something, on pods, groups, jobs and claims."""
_UNTOLD = "it cannot be planned; why would name what is in it"


def anonymise(file: ClusterFile, readable_keys: Collection[str] = ()) -> ClusterFile:
    """The snapshot with pseudonyms.

    Kept are small numbers, true and false, amounts, priorities, scheduler names and instants. So are label keys and
    resources of well-known domains, or in ``readable_keys``.
    """
    readable = {*readable_keys, *(level.key for preset in PRESETS.values() for level in preset)}
    tree = msgspec.to_builtins(file)
    kind_of: dict[str, str] = {}

    def hear(kind: str, text: str) -> str:
        kind_of.setdefault(text, kind)
        return text

    _rewritten(tree, _but(hear, readable))
    kinds: dict[str, list[str]] = {}
    for text, kind in kind_of.items():
        kinds.setdefault(kind, []).append(text)
    pseudonyms = {
        text: f"{kind}-{number:0{len(str(len(texts)))}d}"
        for kind, texts in kinds.items()
        for number, text in enumerate(sorted(texts), 1)
    }
    tree |= _rewritten(tree, _but(lambda _, text: pseudonyms[text], readable))
    return msgspec.convert(tree | {"anonymised": True}, ClusterFile)


def _but(say: Say, readable: Collection[str]) -> Say:
    """Apply ``say``, except to text that identifies nothing."""

    def rewrite(kind: str, text: str) -> str:
        if (
            not text
            or text in (ANY_ADDRESS, NO_PROVISIONER)
            or (kind == "key" and (text in readable or _is_known(text)))
        ):
            return text
        if kind == "class" and _WELL_KNOWN.fullmatch(text):
            return text
        harmless = {"value": _HARMLESS, "role": _ROLES, "queue": _QUEUES}.get(kind)
        return text if harmless is not None and harmless.fullmatch(text) else say(kind, text)

    return rewrite


def _is_known(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return not slash or _WELL_KNOWN.fullmatch(domain) is not None


def _rewritten(tree: dict[str, Any], say: Say) -> dict[str, Any]:
    roots = (
        "nodes",
        *_GROUPS,
        "claims",
        "volumes",
        "owners",
        "jobs",
        "pods",
        "budgets",
        "queues",
        "namespaces",
        "storage",
        "devices",
    )
    return {root: _part(tree[root], root, say) for root in roots}


def _part(tree: Any, path: str, say: Say) -> Any:
    """The tree at that path, rewritten. Elements of a list have the path of the list."""
    if isinstance(tree, list):
        return [_part(item, path, say) for item in tree]
    if isinstance(tree, dict):
        if path.endswith(_AMOUNTS) and not path.endswith(".devices.requests"):
            return {say("key", name): amount for name, amount in tree.items()}
        if path.endswith(".minTaskMember"):
            return {say("role", role): least for role, least in tree.items()}
        if path.endswith(_LABELS) and "nodeSelectorTerms" not in tree:
            return {say("key", key): say("value", value) for key, value in tree.items()}
        if path.endswith((".labels", ".annotations")):
            return _marks(tree, say)
        rewritten = {key: _part(value, f"{path}.{key}", say) for key, value in tree.items()}
        if path == "pods.metadata":
            _name_replica_sets(tree, rewritten, say)
        return rewritten
    return _text(tree, path, say) if isinstance(tree, str) else tree


def _marks(tree: dict[str, str], say: Say) -> dict[str, str]:
    """Labels or annotations, rewritten."""
    # Commas separate the levels of slices in layers; no name has one.
    known = {
        key: ",".join(say(_MARKS[key], name) for name in value.split(",")) if key in _MARKS else value
        for key, value in tree.items()
        if key in READ
    }
    known |= {key: say("use", tree[key]) for key in tree if key == USE} | {
        key: tree[key] for key in tree if key == TARGET
    }
    known |= {key: RENAMED[key](tree[key], say) for key in known if key in RENAMED}
    others = {say("key", key): say("value", value) for key, value in tree.items() if key not in known}
    return known | others


def _text(text: str, path: str, say: Say) -> str | None:
    if path.endswith(".conditions.message"):
        return None
    if path.endswith(".schedulingGroup.podGroupName"):
        return _native_group(text, say)
    if path == "jobs.podSets.series":
        return series_renamed(text, say)
    if path == "jobs.problem":
        return _UNTOLD if text else ""
    if _SERIAL.fullmatch(path):
        return say("serial", text)
    kind = _KINDS.get(path) or _KINDS.get(".".join(path.rsplit(".", 2)[-2:]))
    return text if kind is None else say(kind, text)


def _native_group(name: str, say: Say) -> str:
    """The pseudonym of a native group. The Job controller's form of name is kept, since ``convert.is_of_job`` needs
    it."""
    if (made := _OF_JOB.fullmatch(name)) is None:
        return say("group", name)
    job = say("owner", made[1])
    return f"{job}-x-{job}-pgt-0-x"


def _name_replica_sets(meta: dict[str, Any], rewritten: dict[str, Any], say: Say) -> None:
    """Rename the ReplicaSets of Deployments: the Deployment's name, a dash, and the template's hash without dashes."""
    if not (template := (meta["labels"] or {}).get(TEMPLATE_HASH)):
        return
    rewritten["labels"][TEMPLATE_HASH] = hidden = rewritten["labels"][TEMPLATE_HASH].replace("-", "")
    for maker, shown in zip(meta["ownerReferences"] or (), rewritten["ownerReferences"] or (), strict=True):
        deployment, _, last = (maker["name"] or "").rpartition("-")
        if last == template:
            shown["name"] = f"{say('owner', deployment)}-{hidden}"


Say = Callable[[str, str], str]
"""Maps (kind, original text) to the text to write."""

_SERIES = re.compile(r"((?:[0-9]{2}/)?[0-9]-)(.+?)(/[0-9]{5})?")


def series_renamed(series: str, say: Say) -> str:
    """The podset's name, rewritten. Of its parts (``numbering.py``) only the role is a name."""
    matched = _SERIES.fullmatch(series)
    return series if matched is None else f"{matched[1]}{say('role', matched[2])}{matched[3] or ''}"


def _plan(text: str, say: Say) -> str:
    if (node_wait := node_wait_from(text)) is not None:
        return node_wait_text(node_wait)
    plan = plan_from(text) or {}
    return plan_text({series_renamed(name, say): tuple(say("node", node) for node in plan[name]) for name in plan})


def _flavors(text: str, say: Say) -> str:
    flavors = flavors_from(text) or {}
    return flavors_text(
        {
            series_renamed(name, say): {say("key", what): say("flavor", flavor) for what, flavor in flavors_of.items()}
            for name, flavors_of in flavors.items()
        }
    )


def _reservation(text: str, say: Say) -> str:
    if (reservation := reservation_from(text)) is None:
        return ""
    rooms = [
        (say("node", node), tuple(sorted((say("key", name), amount) for name, amount in amounts)))
        for node, amounts in reservation.rooms
    ]
    victims = [
        Victim(
            GroupKey(say("namespace", victim.key.namespace), say("pod" if victim.pod else "group", victim.key.name)),
            say("uid", victim.pod),
            tuple(say("uid", release) for release in victim.releases),
        )
        for victim in reservation.victims
    ]
    return reservation_text(Reservation(tuple(rooms), tuple(victims), reservation.until))


RENAMED: dict[str, Callable[[str, Say], str]] = {
    PLAN: _plan,
    FLAVORS: _flavors,
    **dict.fromkeys(RESERVATIONS, _reservation),
    yunikorn.TASK_GROUPS: lambda text, say: yunikorn.renamed(text, lambda role: say("role", role)),
    KUEUE_LAYERS: lambda text, say: layers_renamed(text, lambda level: say("key", level)),
}
"""Rewriters of annotations by key. Unreadable values are left out."""
