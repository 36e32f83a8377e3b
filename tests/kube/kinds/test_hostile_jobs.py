"""Any content of a job is read, started and cleaned, or a sentence tells its author why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import pytest
import yaml

from extender.core.effects import StartJob
from extender.kube.kinds.change import clean, start, suspend
from extender.kube.kinds.kind import Kind, Object, UnreadableJobError
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import KINDS
from extender.kube.reading.identity import UnreadableError
from tests.kube.kinds.appwrappers import LWS, MIXED, WRAPPED_JOBSET, wrapping
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.batch_jobs import PI as WITHOUT_INDEX
from tests.kube.kinds.jobs import SUSPENDED, started, stored
from tests.kube.kinds.rays import CLUSTER as RAY_CLUSTER
from tests.kube.kinds.rays import JOB as RAY_JOB
from tests.kube.kinds.test_jobset import WORKERS
from tests.kube.kinds.test_own import MANIFEST as OWN
from tests.kube.kinds.test_own import kind as own_kind
from tests.kube.kinds.training_jobs import PI, PYTORCH

JUNK: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        7,
        1 << 70,
        0.5,
        "",
        "x",
        "\u0000\U0001f600",
        [],
        [None],
        ["x"],
        {},
        {"x": "y"},
        {"": None},
        [[{}]],
    ),
    {"nodeAffinity": []},
    {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [None, 3, {"matchFields": [3]}]}},
    {"annotations": ["muster.dev/workload"]},
    {"annotations": {"muster.dev/workload": 3, "muster.dev/nodes": None}},
    {"annotations": {"muster.dev/plan": '{"": "x*9999999999999999999"}', "muster.dev/own": '{"": {"affinity": 3}}'}},
)


STATUS = SUSPENDED | {"succeeded": 1, "completedIndexes": "0", "active": 0}


def kind_of(obj: Object) -> Kind:
    return next(kind for kind in (*KINDS, own_kind()) if kind.name == obj["kind"])


def places(obj: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every field and item of the object, with its container."""
    items = list(obj.items()) if isinstance(obj, dict) else list(enumerate(obj)) if isinstance(obj, list) else []
    for key, value in items:
        yield obj, key
        yield from places(value)


def treat(obj: Object) -> None:
    """Do everything with a job that Muster does."""
    kind = kind_of(obj)
    try:
        job = Reader(("muster", "default-scheduler")).read(kind, obj)
    except UnreadableError:
        return
    assert job.problem or job.podsets.podsets or kind.is_empty(obj)
    assert len(job.problem) < 1000
    plan = {podset.name: ("node",) * podset.count for podset in job.podsets.podsets}
    if not job.problem:
        start(kind, obj, StartJob(job, plan, job.podsets.minimum))
    with suppress(UnreadableJobError):
        suspend(kind, obj)
        clean(kind, obj)


MANIFESTS = {
    "Indexed Job": INDEXED,
    "Job": WITHOUT_INDEX,
    "JobSet": WORKERS,
    "PyTorchJob": PYTORCH,
    "MPIJob": PI,
    "RayCluster": RAY_CLUSTER,
    "RayJob": RAY_JOB,
    "a kind of the settings": OWN,
    "AppWrapper of a JobSet": WRAPPED_JOBSET,
    "AppWrapper of several": MIXED,
    "AppWrapper with podSets": yaml.safe_dump(wrapping(LWS)),
}


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_junk_at_every_place(manifest: str) -> None:
    random = Random(manifest)  # noqa: S311
    for base in (stored(manifest), started(kind_of(stored(manifest)), stored(manifest)) | {"status": STATUS}):
        for at in range(len(list(places(base)))):
            for junk in random.sample(JUNK, 4):
                obj = deepcopy(base)
                inside, key = list(places(obj))[at]
                if inside is obj and key in ("kind", "apiVersion"):
                    continue
                inside[key] = deepcopy(junk)
                treat(obj)


def test_a_job_that_is_nested_too_deeply_is_unreadable_and_no_more() -> None:
    obj = stored(INDEXED)
    deep: Any = {}
    for _ in range(200):
        deep = {"x": deep}
    obj["spec"]["template"]["spec"]["containers"][0]["resources"] = deep
    treat(json.loads(json.dumps(obj)))
