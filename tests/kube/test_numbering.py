"""The number of a pod in its gang, by the kind of its creator."""

from __future__ import annotations

import pytest

from extender.kube.reading.numbering import index_of, series_of
from extender.kube.reading.objects import Meta

INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET = "jobset.sigs.k8s.io/job-global-index"
GROUP, WORKER = "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index"
ORDINAL = "apps.kubernetes.io/pod-index"
JOB_ROLE = "training.kubeflow.org/job-role"
ROLE, REPLICA = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"

VOLCANO, VOLCANO_INDEX = "volcano.sh/task-spec", "volcano.sh/task-index"
RAY = "ray.io/group"
RAY_REPLICA, RAY_HOST = "ray.io/worker-group-replica-index", "ray.io/replica-host-index"


@pytest.mark.parametrize(
    ("labels", "index", "series"),
    [
        ({INDEX: "3"}, 3, ""),
        ({ORDINAL: "12"}, 12, ""),
        ({INDEX: "0", JOBSET: "7"}, 0, "000000007"),
        ({GROUP: "2", WORKER: "0", ORDINAL: "2"}, 0, "000000002"),
        ({GROUP: "2", WORKER: "5", ORDINAL: "5"}, 5, "000000002"),
        ({ROLE: "Master", REPLICA: "0"}, 0, "0-master"),
        ({ROLE: "worker", REPLICA: "10"}, 10, "1-worker"),
        ({ROLE: "launcher"}, None, ""),
        ({JOB_ROLE: "launcher"}, None, "3-launcher"),
        ({JOB_ROLE: "launcher", REPLICA: "0"}, 0, "3-launcher"),
        ({JOB_ROLE: "worker", REPLICA: "2"}, 2, "1-worker"),
        ({JOB_ROLE: "master", ROLE: "master", REPLICA: "0"}, 0, "0-master"),
        ({RAY: "headgroup"}, None, "0-headgroup"),
        ({RAY: "small", RAY_REPLICA: "4"}, None, "1-small"),
        ({RAY: "small", RAY_REPLICA: "4", RAY_HOST: "1"}, 1, "1-small/00004"),
        ({RAY: "g" * 10_000}, None, "1-" + "g" * 63),
        ({"muster.dev/role": "Launcher"}, None, "3-launcher"),
        ({"muster.dev/role": "reader", INDEX: "3"}, 3, "1-reader"),
        ({"muster.dev/role": "reader", INDEX: "3", JOBSET: "7"}, 3, "000000007"),
        ({"muster.dev/role": "reader", INDEX: "3", "muster.dev/workload": "uid"}, 3, ""),
        ({"muster.dev/podset": "solver", INDEX: "3", ORDINAL: "4", JOBSET: "7"}, None, "1-solver"),
        ({"muster.dev/podset": "solver", "muster.dev/index-label": "a/rank", "a/rank": "5", INDEX: "3"}, 5, "1-solver"),
        ({"muster.dev/podset": "solver", "muster.dev/index-label": "a/rank", "a/rank": "x"}, None, "1-solver"),
        ({"muster.dev/podset": "r" * 10_000}, None, "1-" + "r" * 63),
        ({"muster.dev/role": "r" * 10_000}, None, "1-" + "r" * 63),
        ({VOLCANO: "master", VOLCANO_INDEX: "2"}, 2, "0-master"),
        ({VOLCANO: "worker"}, None, ""),
        ({INDEX: "first"}, None, ""),
        ({INDEX: "-1", JOBSET: "x"}, None, ""),
        ({INDEX: "9999999999"}, None, ""),
        ({INDEX: "\u0663"}, None, ""),
        ({}, None, ""),
    ],
)
def test_the_number_of_a_member_as_label_or_annotation(labels: dict[str, str], index: int | None, series: str) -> None:
    for meta in (Meta(labels=labels), Meta(annotations=labels)):
        assert (index_of(meta), series_of(meta)) == (index, series)


def test_series_sort_by_number_and_the_master_before_the_workers_before_the_launcher() -> None:
    jobs = [Meta(labels={JOBSET: str(number)}) for number in (9, 10, 100)]
    roles = [Meta(labels={ROLE: role, REPLICA: "0"}) for role in ("master", "worker", "launcher")]
    for metas in (jobs, roles):
        series = [series_of(meta) for meta in metas]
        assert series == sorted(series)


def test_a_worker_of_an_mpijob_is_numbered_from_0_by_its_name_even_if_its_launcher_is_worker_0() -> None:
    meta = Meta(name="pi-worker-4", labels={JOB_ROLE: "worker", REPLICA: "5"})
    assert (index_of(meta), series_of(meta)) == (4, "1-worker")


def test_a_pod_of_a_volcano_job_is_numbered_by_its_name() -> None:
    of_job = {VOLCANO: "worker", "volcano.sh/job-name": "train"}
    meta = Meta(name="train-worker-12", labels=of_job)
    assert (index_of(meta), series_of(meta)) == (12, "1-worker")
    assert index_of(Meta(name="train-worker-12", labels={VOLCANO: "worker"})) is None, "somebody else has made it"
