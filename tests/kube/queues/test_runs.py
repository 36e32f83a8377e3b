"""How long the workloads of a LocalQueue ran, as its status has it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.kube.queues.read import LocalQueueObject, local_queue_from
from extender.kube.queues.runs import RUNS
from extender.kube.queues.status import status_of
from extender.kube.snapshots.queues import reduced_queue
from policies.model.queues import LocalQueue, QueueReport
from policies.quota.runs import MOST_TIMES

QUEUE = LocalQueue("team", "q", "all")
AT = "2026-01-01T00:00:00Z"


def read(status: Any) -> Any:
    body = {"metadata": {"namespace": "team", "name": "q"}, "spec": {"clusterQueue": "all"}, "status": status}
    return local_queue_from(msgspec.convert(body, LocalQueueObject)).value.runs


def test_what_is_written_is_read() -> None:
    runs = {0: (60,), 8: (3600, 120), 512: tuple(range(1_000_000, 1_000_000 + MOST_TIMES))}
    status = status_of(QUEUE, QueueReport(runs=runs), (), AT)
    assert read(status) == runs
    body = {"metadata": {"namespace": "team", "name": "q"}, "spec": {"clusterQueue": "all"}, "status": status}
    taken = reduced_queue("LocalQueue", "v1beta2", msgspec.json.encode(body))
    assert read(taken["status"]) == runs, "a snapshot has it, too"


def test_it_is_a_condition_beside_the_others_and_nothing_where_nothing_has_run() -> None:
    conditions = status_of(QUEUE, QueueReport(runs={8: (60,)}), [{"type": "Other"}], AT)["conditions"]
    assert [condition["type"] for condition in conditions] == ["Other", "Active", RUNS]
    assert conditions[-1]["message"] == '{"8":[60]}'
    later = status_of(QUEUE, QueueReport(runs={8: (60, 90)}), conditions, "2026-01-02T00:00:00Z")["conditions"]
    assert [condition["type"] for condition in later] == ["Other", "Active", RUNS]
    assert later[-1]["lastTransitionTime"] == AT
    assert [condition["type"] for condition in status_of(QUEUE, QueueReport(), (), AT)["conditions"]] == ["Active"]


@pytest.mark.parametrize(
    "text", [None, "", "much", "[]", '{"8": 5}', '{"eight": [5]}', '{"8": ["5"]}', '{"7": [5]}', '{"8": [0, -1]}', "{}"]
)
def test_what_cannot_be_read_counts_as_nothing(text: str | None) -> None:
    assert read({"conditions": [{"type": RUNS, "status": "True", "message": text}]}) == {}
    assert read({}) == {}
    assert read(None) == {}
