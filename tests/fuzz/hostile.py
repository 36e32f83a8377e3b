"""Documents that mean harm: pods and requests that are right but for a few things, which are as wrong as can be.

Everything follows from the generator that is handed in, so a seed is enough to see an input again.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

Json = Any

NAMESPACES = ("team-a", "team-b")
NODES = tuple(f"node-{i}" for i in range(4))
ZONE = "topology.kubernetes.io/zone"
TEXTS = (
    *("", " ", "a", "train", "muster", "none", "true", "null"),
    *("0", "-1", "+3", "1", "2", "007", "1e999999", "9" * 5000),
    *("٣", "NaN", "Infinity", "0x10", "1_000", "nvidia", "clique", ZONE, "nvidia.com/gpu.clique", "node-1"),
    *(
        "a\nb",
        "\x1b[31mred",
        "nul\0",
        "\r",
        "\u2028",
        "\u202e",
        "\x85",
        "\ue000",
        "\ue000a\ue001",
        "é",
        "群",
        "\U0001f600",
        "\ufffe",
        "\x7f",
    ),
    *("../../api/v1/secrets", "a/b/c", "?watch=1", "%2e%2e", "{}", "{0}", "%s%n", "'; --", "<script>", "${jndi:x}"),
    *("x" * 64, "x" * 254, "x" * 5000, "a." * 126 + "a", "-a", "a-", ".a", "A", "a..b", "a_b"),
)
QUANTITIES = (
    *("0", "1", "8", "100m", "1Gi", "16Ei", "9223372036854775807", "9223372036854775808", "1e18", "1e300", "0.1n"),
    *("-1", "", "1e", "Gi", "abc", "1.5.5", 8, 1.5, -3, 1 << 62, "٣"),
)
KEYS = (
    *("muster.dev/pod-group", "muster.dev/min-member", "scheduling.x-k8s.io/pod-group", "muster.dev/gang-uid"),
    *("muster.dev/release", "muster.dev/release-complete", "muster.dev/node", "muster.dev/required-topology"),
    *("muster.dev/preferred-topology", "muster.dev/slice-size", "muster.dev/slice-topology"),
    *("scheduling.k8s.io/group-name", "volcano.sh/task-spec", "pod-group-name", "kai.scheduler/subgroup-name"),
    *("yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name", "applicationId"),
    *("gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/groups", "kueue.x-k8s.io/pod-group-name"),
    *("kueue.x-k8s.io/podset-required-topology", "kai.scheduler/segment-size"),
    *("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index"),
)
RESOURCES = (
    *("cpu", "memory", "nvidia.com/gpu", "pods", "hugepages-2Mi", "evil.example/x", "ephemeral-storage"),
    *("hugepages-64Ki", "rdma/ib", "nvidia.com/mig-1g.10gb", "attachable-volumes-aws-ebs", "vpc.amazonaws.com/efa"),
)
JUNK: tuple[Json, ...] = (None, True, 0, -1, 1 << 63, 1.5, "", "x", [], {}, [None], [[]], {"": None}, {"a": {"a": []}})
WRITTEN: dict[str, Json] = {
    "muster.dev/plan": {"": "node-0*1,node-1*1"},
    "muster.dev/flavors": {"": {"nvidia.com/gpu": "gpu"}},
    "muster.dev/own": {"": {"muster.dev/pod-group": "train", "affinity": "", "tolerations": "[{}]", "selected": "{}"}},
    "muster.dev/preempting": {
        "rooms": [[{"nvidia.com/gpu": 8}, ["node-0", "node-1"]]],
        "victims": [["team-b", "train", "", ["release"]]],
        "until": 1e9,
    },
    "muster.dev/reserved": {"rooms": [[{"nvidia.com/gpu": 8}, ["node-0"]]], "victims": [], "until": 1e9},
    "muster.dev/evicted-at": "2026-01-01T00:00:00.000Z",
    "muster.dev/nodes-in-vain": "no nodes came by attempt 1; none are asked for before 2026-01-01T00:00:00Z",
}
"""The annotations that Muster writes on a job."""
AWAITED = "nodes are awaited until 9999-12-31T23:59:59Z, attempt 999999"
IN_JSON = (
    *(
        '"\\ud800"',
        '"\\udfff*2"',
        '"\\u0000"',
        '"\\u001b[31mX"',
        "NaN",
        "-Infinity",
        "1e999",
        "-0",
        "1" * 400,
        "0.1e-400",
    ),
    *(
        "[" * 5000,
        '{"a":' * 2000,
        '{"":' + "[" * 900 + "]" * 900 + "}",
        "true",
        "null",
        '"' + "x" * 70_000 + '"',
        "\ufeff{}",
    ),
)
"""Pieces of JSON, or of none, that take the place of a value in it."""
IN_NAMES = ("\\ud800", "\\u001b[31m", "*-1", "*9999999", "*1e3", "<x>", "A B", "", "\\u0661", "é")
"""The strings that replace a part of a text."""
INSTANTS = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.123456Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:00",
    "0001-01-01T00:00:00+14:00",
    "?",
)


class Hostile:
    """Makes documents. Most are right in most places, or nothing behind the first check would ever be reached."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def text(self, *usual: str) -> str:
        """Choose one of the usual texts as a rule."""
        return self.random.choice(usual) if usual and self.maybe(0.8) else self.random.choice(TEXTS)

    def some(self, keys: tuple[str, ...], chance: float, *usual: str) -> dict[str, str]:
        return {key: self.text(*usual) for key in keys if self.maybe(chance)}

    def amounts(self) -> dict[str, Json]:
        picked: dict[str, Json] = {name: self.random.choice(QUANTITIES[:10]) for name in RESOURCES if self.maybe(0.2)}
        if self.maybe(0.05):
            picked[self.text()] = self.random.choice(QUANTITIES)
        return picked | ({"nvidia.com/gpu": self.random.choice((1, 4, 8, "8"))} if self.maybe(0.7) else {})

    def container(self) -> Json:
        kind = {"restartPolicy": "Always"} if self.maybe(0.3) else {}
        return {"resources": {"requests": self.amounts(), "limits": self.amounts() if self.maybe(0.3) else {}}, **kind}

    def several(self, make: Any, most: int = 3) -> list[Json]:
        return [make() for _ in range(self.random.randint(0, most))]

    def expression(self) -> Json:
        operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        values = [self.text("a", "1", "2") for _ in range(self.random.randint(0, 2))]
        return {"key": self.text("zone", ZONE, "metadata.name"), "operator": self.text(*operators), "values": values}

    def affinity(self) -> Json:
        def term() -> Json:
            fields = {"matchExpressions": self.several(self.expression), "matchFields": self.several(self.expression)}
            return {key: value for key, value in fields.items() if self.maybe(0.6)}

        required = {"nodeSelectorTerms": self.several(term)}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    def toleration(self) -> Json:
        keys = ("key", "operator", "value", "effect")
        return self.some(keys, 0.6, "Exists", "Equal", "NoSchedule", "nvidia.com/gpu")

    def volume(self) -> Json:
        if self.maybe(0.3):
            return {"name": self.text("data"), "ephemeral": {}}
        return {"name": self.text("data"), "persistentVolumeClaim": {"claimName": self.text("data-0")}}

    def pod(self, number: int) -> Json:
        """A pod as the API server stores one, and now and then as it never would."""
        namespace = self.random.choice(NAMESPACES)
        wishes = self.some(KEYS, 0.05) | {"muster.dev/pod-group": self.text("train", "train", "eval")}
        if self.maybe(0.85):
            wishes["muster.dev/min-member"] = self.text("1", "2", "3")
        labels = self.some(KEYS, 0.03) | ({"scheduling.x-k8s.io/pod-group": "train"} if self.maybe(0.2) else {})
        spec: Json = {
            "schedulerName": self.text("muster", "muster", "muster", "default-scheduler"),
            "containers": self.several(self.container) or [self.container()],
            "initContainers": self.several(self.container) if self.maybe(0.2) else None,
            "priority": self.random.choice((0, 0, 0, 1, -(1 << 31), (1 << 31) - 1)),
            "nodeSelector": self.some((ZONE, "zone", "x"), 0.1, "a", "b") or None,
            "affinity": self.affinity() if self.maybe(0.3) else None,
            "tolerations": self.several(self.toleration) if self.maybe(0.3) else None,
            "volumes": self.several(self.volume) if self.maybe(0.2) else None,
            "overhead": self.amounts() if self.maybe(0.1) else None,
            "schedulingGates": [{"name": self.text("muster.dev/gang")}] if self.maybe(0.3) else None,
            "nodeName": self.text(*NODES) if self.maybe(0.15) else None,
            "activeDeadlineSeconds": self.random.choice((1, 60, (1 << 31) - 1, 1 << 62)) if self.maybe(0.1) else None,
            "schedulingGroup": {} if self.maybe(0.02) else None,
            "resourceClaims": [{}] if self.maybe(0.03) else None,
        }
        meta: Json = {
            "name": f"pod-{number}",
            "namespace": namespace,
            "uid": f"uid-{number}",
            "creationTimestamp": self.random.choice(INSTANTS),
            "deletionTimestamp": self.random.choice(INSTANTS) if self.maybe(0.05) else None,
            "labels": labels,
            "annotations": wishes,
            "ownerReferences": [{"uid": self.text("owner-1"), "controller": True}] if self.maybe(0.5) else None,
        }
        refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.text()}
        status: Json = {
            "phase": self.text("Pending", "Pending", "Running", "Succeeded", "Failed"),
            "nominatedNodeName": self.text(*NODES) if self.maybe(0.2) else None,
            "startTime": self.random.choice(INSTANTS) if self.maybe(0.1) else None,
            "conditions": [refusal] if self.maybe(0.2) else None,
        }
        pod: Json = {"metadata": meta, "spec": spec, "status": status}
        return self.spoilt(pod) if self.maybe(0.1) else pod

    def written(self, key: str) -> str:
        """The annotation of a job in Muster's words, with some of it replaced."""
        value = AWAITED if key == "muster.dev/plan" and self.maybe(0.1) else WRITTEN[key]
        if self.maybe(0.3):
            value = self.spoilt(value)
        if key == "muster.dev/evicted-at" and self.maybe(0.5):
            value = ",".join(self.random.choice(INSTANTS) for _ in range(self.random.choice((1, 2, 100))))
        text = value if isinstance(value, str) else json.dumps(value)
        pieces = [piece for piece in ('"gpu"', '"node-0"', '"nvidia.com/gpu"', '"train"', "8", '""') if piece in text]
        if pieces and self.maybe(0.5):
            text = text.replace(self.random.choice(pieces), self.random.choice(IN_JSON), self.random.choice((1, -1)))
        if self.maybe(0.3):
            text = text.replace(self.random.choice(("node-0", "gpu", "*1", "team-b")), self.random.choice(IN_NAMES))
        return self.random.choice((*IN_JSON, text[: len(text) // 2])) if self.maybe(0.1) else text

    def job(self, number: int) -> Json:
        """A Job with annotations of Muster that its author has written."""
        written = {key: self.written(key) for key in WRITTEN if self.maybe(0.5)}
        container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": self.random.choice(("1", "8"))}}}
        marks = self.some(("muster.dev/workload", "muster.dev/nodes", "muster.dev/podset", "muster.dev/pod-group"), 0.2)
        pods = {"metadata": {"annotations": marks}, "spec": {"schedulerName": "muster", "containers": [container]}}
        count, suspended = self.random.choice((1, 2, 4)), self.maybe(0.5)
        spec = {"suspend": suspended, "completionMode": "Indexed", "parallelism": count, "completions": count}
        meta = {
            "name": f"job-{number}",
            "namespace": self.random.choice(NAMESPACES),
            "uid": f"job-uid-{number}",
            "labels": {"kueue.x-k8s.io/queue-name": self.text("q", "q", "nowhere")},
            "annotations": written | self.some(("muster.dev/min-runtime", "muster.dev/hold"), 0.1),
        }
        status = {"conditions": [{"type": "Suspended", "status": "True"}]} if suspended else {"active": count}
        return {"metadata": meta, "spec": {**spec, "template": pods}, "status": status}

    def group(self, number: int) -> Json:
        """A PodGroup."""
        meta = {
            "name": self.text("train", "eval"),
            "namespace": self.random.choice(NAMESPACES),
            "uid": f"group-{number}",
            "annotations": self.some(KEYS, 0.1),
        }
        size = self.random.choice((0, 1, 2, 2, 3, -1, (1 << 31) - 1))
        return {"metadata": meta, "spec": {"minMember": size, "scheduleTimeoutSeconds": self.random.choice((0, 1, -5))}}

    def request(self, verb: str) -> Json:
        """The body of a verb, before anything is spoilt."""
        names = [self.text(*NODES) for _ in range(self.random.randint(0, 5))]
        if verb == "bind":
            number = self.random.randint(0, 9)
            where = {"PodNamespace": self.text(*NAMESPACES), "Node": self.text(*NODES)}
            return {"PodName": f"pod-{number}", "PodUID": f"uid-{number}", **where}
        pod = self.pod(self.random.randint(0, 9))
        if verb == "preempt":
            victims = {name: {"Pods": [{"UID": f"uid-{i}"} for i in range(2)], "NumPDBViolations": 0} for name in names}
            return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        whole = {"items": [{"metadata": {"name": name}} for name in names]} if self.maybe(0.1) else None
        return {"Pod": pod, "Nodes": whole, "NodeNames": None if whole else names}

    def body(self, verb: str) -> bytes:
        """The body of a request: spoilt in its values, in the case of its keys, or in its bytes."""
        document = self.request(verb)
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 5))):
            document = self.spoilt(document)
        if self.maybe(0.1):
            document = _lowered(document)
        body = bytearray(json.dumps(document, ensure_ascii=self.maybe(0.5)).encode("utf-8", "replace"))
        for _ in range(self.random.choice((0, 0, 0, 1, 3)) if body else 0):
            at = self.random.randrange(len(body))
            match self.random.randrange(3):
                case 0:
                    body[at] = self.random.randrange(256)
                case 1:
                    del body[at:]
                    break
                case _:
                    body[at:at] = body[at : at + 20] * self.random.randint(1, 50)
            if not body:
                break
        return bytes(body)

    def spoilt(self, document: Json) -> Json:
        """The document with one value, somewhere, replaced by junk."""
        if isinstance(document, dict) and document and self.maybe(0.93):
            key = self.random.choice(list(document))
            return {**document, key: self.spoilt(document[key])}
        if isinstance(document, list) and document and self.maybe(0.93):
            at = self.random.randrange(len(document))
            return [*document[:at], self.spoilt(document[at]), *document[at + 1 :]]
        return self.random.choice(JUNK) if self.maybe(0.7) else self.text()


def _lowered(document: Json) -> Json:
    if isinstance(document, dict):
        return {key.lower(): _lowered(value) for key, value in document.items()}
    return [_lowered(item) for item in document] if isinstance(document, list) else document
