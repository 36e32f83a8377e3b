"""Requests recorded from the real kube-scheduler (see record.py) are read right, and answered as it expects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extender.core.effects import AnswerFilter
from extender.http import wire
from policies.model import Dialect

RECORDED = Path(__file__).parent / "recorded"
MODES = pytest.mark.parametrize("mode", ["names", "nodes"])


def recorded(verb: str, mode: str) -> bytes:
    return (RECORDED / f"{verb}-{mode}.json").read_bytes()


@MODES
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_the_pod_and_its_candidates_are_read(verb: str, mode: str) -> None:
    request = wire.decode_filter(recorded(verb, mode))
    assert sorted(request.candidates) == ["node-0", "node-1"]
    assert dict(request.pod.requests) == {"cpu": 1000, "nvidia.com/gpu": 8, "pods": 1}
    assert request.pod.group is not None
    assert (request.pod.group.name, request.pod.group.min_member) == ("train", 1)
    assert request.pod.group.dialect is Dialect.ANNOTATION
    assert request.pod.uid == json.loads(recorded(verb, mode))["Pod"]["metadata"]["uid"]


@MODES
def test_a_chosen_node_is_answered_by_name_and_echoed_whole_if_it_came_whole(mode: str) -> None:
    request = wire.decode_filter(recorded("filter", mode))
    answer = json.loads(wire.encode_filter(AnswerFilter(1, ("node-1",), ("node-0",), "because"), request))
    assert answer["NodeNames"] == ["node-1"]
    assert answer["FailedAndUnresolvableNodes"] == {"node-0": "because"}
    sent = json.loads(recorded("filter", mode))["Nodes"]
    whole = [node for node in sent["items"] if node["metadata"]["name"] == "node-1"] if sent else None
    assert (answer["Nodes"] or {}).get("items") == whole


@MODES
def test_a_bind_names_the_pod_by_uid(mode: str) -> None:
    raw: dict[str, Any] = json.loads(recorded("bind", mode))
    request = wire.decode_bind(recorded("bind", mode))
    assert (request.uid, request.namespace, request.name) == (raw["PodUID"], "default", "low-0")
    assert request.node in ("node-0", "node-1")


@MODES
def test_victims_are_read_by_uid_and_sent_back_as_they_came(mode: str) -> None:
    request = wire.decode_preempt(recorded("preempt", mode))
    assert request.pod.name == "high"
    assert sorted(request.victims) == ["node-0", "node-1"]
    assert all(len(uids) == 1 for uids in request.victims.values())
    answer = json.loads(wire.encode_preempt(request.victims, request))["NodeNameToMetaVictims"]
    assert {node: tuple(pod["UID"] for pod in entry["Pods"]) for node, entry in answer.items()} == request.victims
