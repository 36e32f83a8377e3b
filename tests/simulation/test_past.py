"""The referee's knowledge of the past usage of LocalQueues."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from policies.model import Stamp
from policies.model.queues import ClusterQueue, LocalQueue, PastUse
from policies.quota.history import Sampling
from tests.builders import gang, node
from tests.simulation.model.changes import Kind
from tests.simulation.model.world import World
from tests.simulation.past import PastKeeper
from tests.simulation.queue_plan import FLAVOR


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("of_job", [False, True])
@pytest.mark.parametrize(
    ("moved_from", "stamped", "wrong"),
    [("team", "", True), ("other", "", False), ("team", "team", True), ("team", "other", False)],
)
def test_what_runs_must_be_counted_unless_its_gang_names_several_queues(
    moved_from: str, stamped: str, *, wrong: bool, of_job: bool, behind: bool
) -> None:
    """8 GPUs run for one half-life, and nothing is counted. ``behind``: by a leader whose watch lagged as it began.

    ``stamped``: the queue by which the pod that runs was released. In seed 46 of the campaign it was another one.
    """
    runs, moved = (replace(pod, queue="team") for pod in gang("train", 2))
    stamp = Stamp("g", "r", complete=True, quorum=1, size=1, at=0.0, queue=stamped)
    queue = LocalQueue("default", "team", "team", past=PastUse({}, 1000.0))
    stored = [PastUse({}, 1010.0), PastUse({}, 1110.0)]
    things = {"local": queue, "cluster": ClusterQueue("team")}
    extender = SimpleNamespace(
        frozen=False,
        recovered=True,
        behind=set[str](),
        shown=lambda kind: {uid: SimpleNamespace(value=thing) for uid, thing in things.items()},
        core=SimpleNamespace(
            state=SimpleNamespace(quotas=SimpleNamespace(past=SimpleNamespace(stored=lambda _: stored[0])))
        ),
    )
    api = SimpleNamespace(
        queues=things,
        pods={runs.uid: replace(runs, node="a", stamp=stamp), moved.uid: replace(moved, queue=moved_from)},
        nodes={"a": node("a", labels={FLAVOR: "fast"})},
        jobs={runs.group_key: SimpleNamespace(queue="team")} if of_job else {},
        listeners=defaultdict[Kind, list[object]](list),
        set_queue=lambda queue: things.update(local=queue),
    )
    keeper = PastKeeper(cast("World", SimpleNamespace(api=api, extender=extender)), Sampling(100.0), exact=True)
    assert keeper.look() is None
    stored.pop(0)
    if behind:
        extender.behind.add("local")
    complaint = keeper.look()
    assert (complaint is not None) is (wrong and not behind)
    assert complaint is None or "4.0 GPUs must be left" in complaint
    assert not extender.behind
