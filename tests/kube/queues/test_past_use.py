"""The past usage of a LocalQueue in its status: a restart reads what was written."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extender.kube.queues.past_use import past_use_to
from extender.kube.queues.read import LocalQueueObject, local_queue_from
from extender.kube.queues.status import status_of
from policies.model.queues import LocalQueue, PastUse, QueueReport

GPU = "nvidia.com/gpu"


def read(status: Any) -> PastUse | None:
    body = {"metadata": {"namespace": "team", "name": "q"}, "spec": {"clusterQueue": "all"}, "status": status}
    return local_queue_from(msgspec.json.decode(json.dumps(body), type=LocalQueueObject)).value.past


def test_what_is_written_is_read() -> None:
    past = PastUse({GPU: 0.001234567, "cpu": 12345.678, "memory": 2.0**40 / 3}, at=1_700_000_000.0)
    report = QueueReport(past=past)
    status = status_of(LocalQueue("team", "q", "all"), report, (), "2026-01-01T00:00:00Z")
    restored = read(status)
    assert restored is not None
    assert restored.at == past.at
    assert restored.consumed == pytest.approx(past.consumed, rel=1e-5)


def test_the_fields_are_those_of_kueue() -> None:
    assert past_use_to(PastUse({GPU: 1.5, "cpu": 250.0}, at=1_700_000_000.9)) == {
        "consumedResources": {"cpu": "250000000n", GPU: "1500000000n"},
        "lastUpdate": "2023-11-14T22:13:20Z",
    }
    consumed = {"cpu": "500m", "memory": "1Gi"}
    sharing = {
        "weightedShare": 0,
        "admissionFairSharingStatus": {"consumedResources": consumed, "lastUpdate": "2026-01-01T00:00:00Z"},
    }
    past = read({"fairSharing": sharing})
    assert past is not None
    assert past.consumed == {"cpu": 500.0, "memory": 2.0**30}


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        [],
        "much",
        {"lastUpdate": "yesterday", "consumedResources": {"cpu": "1"}},
        {"lastUpdate": "2026-01-01T00:00:00Z", "consumedResources": {"cpu": "much"}},
        {"lastUpdate": "2026-01-01T00:00:00Z", "consumedResources": ["cpu"]},
        {"consumedResources": {"cpu": "1"}},
    ],
)
def test_what_cannot_be_read_is_no_history(said: object) -> None:
    assert read({"fairSharing": {"admissionFairSharingStatus": said}}) is None
    assert read({"fairSharing": None}) is read({}) is read(None) is None


def test_what_was_consumed_is_never_negative() -> None:
    usage = {"lastUpdate": "2026-01-01T00:00:00Z", "consumedResources": {"cpu": "-4", "memory": "1"}}
    past = read({"fairSharing": {"admissionFairSharingStatus": usage}})
    assert past is not None
    assert past.consumed == {"memory": 1.0}
