"""Every key of Muster, with every value that a user may write: its object is read, and stays where it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.kube.kinds.job import JOB
from extender.kube.kinds.kind import UnreadableJobError
from extender.kube.kinds.read import Reader
from extender.kube.resources import GROUPS, NODES, PODS
from tests.fuzz.hostile import AWAITED, IN_JSON, TEXTS, WRITTEN

ROOT = Path(__file__).parent.parent.parent
SECURITY = (ROOT / "docs" / "security-limits.md").read_text().partition("## Keys on objects")[2].partition("\n## ")[0]
_KEY = re.compile(r"muster\.dev/[A-Za-z][\w-]*")
NO_KEYS = {
    "muster.dev/v1",
    "muster.dev/extender",
    "muster.dev/muster",
    "muster.dev/Woken",
    "muster.dev/RunHistory",
}
"""The version of snapshots, the controller in Events, the manager of an entry of a TrainJob, conditions of a pod and of
a LocalQueue."""


def keys_of_the_code() -> set[str]:
    """The keys in texts of the code, except docstrings, and in expressions of policies."""
    keys: set[str] = set()
    for path in (ROOT / "extender").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _KEY.fullmatch(node.value):
                keys.add(node.value)
    for path in (ROOT / "manifests" / "components").rglob("*.yaml"):
        keys |= set(re.findall(r"'(muster\.dev/[\w-]+)'", path.read_text()))
    return keys - NO_KEYS


KEYS = sorted(keys_of_the_code())
VALUES = (*TEXTS, *IN_JSON, AWAITED, *(str(value) for value in WRITTEN.values()), "true", "false", "-1", "9" * 400)


def test_the_table_has_every_key_and_no_other() -> None:
    rows = [line for line in SECURITY.splitlines() if line.startswith("| `muster.dev/")]
    keys = [key for row in rows for key in re.findall(r"`(muster\.dev/[\w-]+)`", row.split("|")[1])]
    assert sorted(keys) == KEYS


@pytest.mark.parametrize("key", KEYS)
def test_whatever_it_says_what_carries_it_is_read_in_its_own_namespace(key: str) -> None:
    reader = Reader()
    for value in VALUES:
        for metadata in ({"annotations": {key: value}}, {"labels": {key: value}}):
            _read(reader, metadata)


def _read(reader: Reader, said: dict[str, Any]) -> None:
    meta = {"name": "a", "namespace": "team", "uid": "u", **said}
    names = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
    of_pod = {**meta, "annotations": {**names, **meta.get("annotations", {})}}
    spec: dict[str, Any] = {"schedulerName": "muster", "containers": [{"name": "main"}]}
    for node in ({}, {"nodeName": "n"}):
        _, pod = PODS.read(msgspec.Raw(msgspec.json.encode({"metadata": of_pod, "spec": {**spec, **node}})))
        assert pod is not None
        assert (pod.uid, pod.namespace, node or pod.stamp) == ("u", "team", node or None)
        assert "\x1b" not in repr(pod.group)
    _, group = GROUPS.read(msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": {"minMember": 2}})))
    assert group is None or group.key.namespace == "team"
    NODES.read(msgspec.Raw(msgspec.json.encode({"metadata": meta})))
    for template in ({}, said):
        made = {"suspend": True, "parallelism": 2, "completions": 2, "template": {"metadata": template, "spec": spec}}
        labels = {"kueue.x-k8s.io/queue-name": "q", **meta.get("labels", {})}
        try:
            job = reader.read(JOB, {"metadata": {**meta, "labels": labels}, "spec": made})
        except UnreadableJobError:
            continue
        assert job.key.namespace == "team"
        texts = [
            *(job.plan or {}),
            *job.flavor_names,
            job.key.name,
            *(name for nodes in (job.plan or {}).values() for name in nodes),
        ]
        assert all(text.isascii() and text.isprintable() for text in texts), texts
