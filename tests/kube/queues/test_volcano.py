"""Queues of Volcano as they are written, and as a decision reads them."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest
import yaml

from devcluster.muster import MANIFESTS
from extender.core.events import QueueSeen
from extender.kube.convert import pod_from
from extender.kube.podgroups.volcano import VolcanoGroup, volcano_group_from
from extender.kube.queues.documents import queue_documents
from extender.kube.queues.read import Read, VolcanoQueueObject
from extender.kube.queues.volcano import volcano_queue_from
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import PodObject
from policies.model.queues import VolcanoQueue

DOCUMENTED = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  creationTimestamp: "2024-12-30T09:31:12Z"
  generation: 1
  name: research
spec:
  weight: 4
  reclaimable: false
  parent: lab
  capability: {cpu: "8", memory: 16Gi, nvidia.com/gpu: "16"}
  deserved: {cpu: 2500m, nvidia.com/gpu: 8}
  guarantee:
    resource: {nvidia.com/gpu: "4"}
status:
  allocated: {cpu: "0", memory: "0"}
  reservation: {}
  state: Open
"""


def read(text: str) -> Read[VolcanoQueue]:
    return volcano_queue_from(msgspec.convert(yaml.safe_load(text), VolcanoQueueObject))


def spec(text: str) -> Read[VolcanoQueue]:
    return read(f"metadata: {{name: q}}\nspec: {text}")


def test_all_that_is_said() -> None:
    gib = 1024**3
    assert read(DOCUMENTED) == Read(
        VolcanoQueue(
            "research",
            Fraction(4),
            capability={"cpu": 8000, "memory": 16 * gib, "nvidia.com/gpu": 16},
            deserved={"cpu": 2500, "nvidia.com/gpu": 8},
            guarantee={"nvidia.com/gpu": 4},
            parent="lab",
            reclaimable=False,
        )
    )


def test_nothing_is_said() -> None:
    assert read("metadata: {name: default}") == Read(VolcanoQueue("default"))
    assert spec("{weight: null, capability: null, guarantee: {}, reclaimable: null}") == Read(VolcanoQueue("q"))
    with pytest.raises(UnreadableError, match="the Queue has no name"):
        read("spec: {weight: 1}")


@pytest.mark.parametrize(
    ("said", "closed"),
    [
        ("status: {state: Closed}", True),
        ("status: {state: Closing}", True),
        ("spec: {state: Closed}", True),
        ("spec: {state: Closed}\nstatus: {state: Open}", False),
        ("status: {state: Unknown}", False),
        ("status: {}", False),
    ],
)
def test_a_queue_that_is_closed(said: str, closed: bool) -> None:
    assert read(f"metadata: {{name: q}}\n{said}").value.closed is closed


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("{weight: -1}", "spec.weight is '-1', and must not be negative"),
        ("{weight: some}", "spec.weight is 'some', which is no quantity"),
        ("{capability: {cpu: many}}", "spec.capability of cpu is 'many', which is no quantity"),
        ("{priority: 2147483648}", "spec.priority is 2147483648; it must be within 2147483647"),
        ("{deserved: {cpu: -1}}", "spec.deserved of cpu is '-1', and must not be negative"),
        (
            "{guarantee: {resource: {cpu: 2}}, capability: {cpu: 1}}",
            "it is guaranteed more cpu than its capability",
        ),
    ],
)
def test_what_is_wrong(said: str, problem: str) -> None:
    assert spec(said).problems == (problem,)


@pytest.mark.parametrize(("said", "read"), [("5", 5), ("-5", -5), ("0", 0), ("null", 0)])
def test_the_priority_of_a_queue(said: str, read: int) -> None:
    assert spec(f"{{priority: {said}}}").value.priority == read


def test_what_may_not_be_meant() -> None:
    parsed = spec("{deserved: {cpu: 2}, capability: {cpu: 1}, priority: 5, affinity: {}, dequeueStrategy: fifo}")
    assert parsed.problems == ()
    assert parsed.warnings == (
        "it deserves more cpu than its capability, which is what counts",
        "spec.affinity is not implemented",
        "spec.dequeueStrategy fifo is not implemented",
    )


def queue_of(group: str) -> str:
    text = f'{{"metadata": {{"name": "g", "namespace": "n", "uid": "u"{group}, "minMember": 1}}}}'
    return volcano_group_from(msgspec.json.decode(text.encode(), type=VolcanoGroup)).queue


def test_the_queue_that_a_podgroup_names() -> None:
    assert queue_of('}, "spec": {"queue": "research"') == "volcano/research"
    assert queue_of('}, "spec": {"queue": ""') == ""
    assert queue_of('}, "spec": {"queue": "a\\nb"') == "volcano/'a\\nb'"
    assert queue_of(', "labels": {"kueue.x-k8s.io/queue-name": "team"}}, "spec": {"queue": "research"') == "team"


@pytest.mark.parametrize(
    ("labels", "annotations", "queue"),
    [
        ({}, {"scheduling.volcano.sh/queue-name": "research"}, "volcano/research"),
        ({"kueue.x-k8s.io/queue-name": "team"}, {"scheduling.volcano.sh/queue-name": "research"}, "team"),
        ({}, {"scheduling.volcano.sh/queue-name": ""}, ""),
    ],
)
def test_the_queue_that_a_pod_names(labels: dict[str, str], annotations: dict[str, str], queue: str) -> None:
    meta = {"name": "p", "namespace": "n", "uid": "u", "labels": labels, "annotations": annotations}
    assert pod_from(msgspec.convert({"metadata": meta, "spec": {}}, PodObject)).queue == queue


def test_the_queues_that_are_to_be_made_by_hand_limit_nothing() -> None:
    written = (MANIFESTS / "examples" / "volcano" / "queues.yaml").read_text()
    queues = {seen.object.name: seen for seen in queue_documents(written) if isinstance(seen, QueueSeen)}
    assert list(queues) == ["root", "default"]
    assert all(not seen.problems and not seen.warnings for seen in queues.values())
    for seen in queues.values():
        assert isinstance(seen.object, VolcanoQueue)
        assert not seen.object.capability
