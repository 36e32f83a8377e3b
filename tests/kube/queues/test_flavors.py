"""The flavors of a job on its annotation, and what they let its pods tolerate."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from extender.core.effects import StartJob
from extender.kube.kinds.change import clean, start, suspend
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Object, UnreadableJobError
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.queues.flavors import MOST_BYTES, flavors_from, flavors_text
from policies.model import Toleration
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read

GPU = {"nvidia.com/gpu": "a100", "cpu": "default"}
SPOT, ANY = Toleration("spot", "Equal", "true", "NoSchedule"), Toleration("", "Exists", "", "")
WRITTEN = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def job(**spec: Any) -> Object:
    pod = {"containers": [{"name": "main"}], **spec}
    meta = {"name": "train", "namespace": "team", "uid": "u", "labels": {"muster.dev/queue-name": "q"}}
    return {"metadata": meta, "spec": {"suspend": True, "template": {"spec": pod}}}


def started(obj: Object, *tolerations: Toleration) -> Object:
    after, seen = deepcopy(obj), read(JOB, obj)
    start(JOB, after, StartJob(seen, plan_for(seen), 1, {"": GPU}, {"": tolerations}))
    return after


def test_they_are_read_as_they_were_written() -> None:
    flavors = {"": GPU, "00000": {"cpu": "a"}, "00001": {"cpu": "a"}, "0-worker": GPU}
    text = flavors_text(flavors)
    assert flavors_from(text) == flavors
    assert text == '{",0-worker":{"cpu":"default","nvidia.com/gpu":"a100"},"00000,00001":{"cpu":"a"}}'


@pytest.mark.parametrize(
    "text",
    [None, "", "x", "[]", '{"a": 1}', '{"a": {"cpu": 1}}', "[" * 100_000, " " * MOST_BYTES + "{}", "," * 9],
)
def test_what_nobody_can_have_written_is_none(text: str | None) -> None:
    assert flavors_from(text) is None


def test_so_many_podsets_as_no_job_has_are_none() -> None:
    assert flavors_from('{"' + ",".join(map(str, range(10_001))) + '":{}}') is None


def test_a_job_has_its_flavors_until_it_has_stopped() -> None:
    before = job()
    after = started(before)
    assert read(JOB, after).flavors == {"": GPU}
    suspend(JOB, after)
    assert (read(JOB, after).flavors, read(JOB, after).plan) == ({"": GPU}, None)
    after["status"] = SUSPENDED
    assert read(JOB, after).marked
    clean(JOB, after)
    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"tolerations": [{"key": "own", "operator": "Exists"}]},
        {"tolerations": [WRITTEN]},
        {"tolerations": [WRITTEN, {"operator": "Exists"}]},
    ],
)
def test_its_pods_tolerate_what_its_flavor_says_and_then_what_they_did(said: dict[str, Any]) -> None:
    before = job(**said)
    after = started(before, SPOT, ANY, SPOT)
    tolerated = after["spec"]["template"]["spec"]["tolerations"]
    assert tolerated[: len(said.get("tolerations", ()))] == said.get("tolerations", [])
    assert [tolerated.count(one) for one in (WRITTEN, {"operator": "Exists"})] == [1, 1]
    assert read(JOB, after).podsets == read(JOB, before).podsets
    suspend(JOB, after)
    after["status"] = SUSPENDED
    clean(JOB, after)
    assert {key: after[key] for key in before} == before


def test_what_its_author_adds_meanwhile_stays() -> None:
    after = started(job(), SPOT)
    own = {"key": "own", "operator": "Exists"}
    after["spec"]["template"]["spec"]["tolerations"].append(own)
    after["spec"]["suspend"], after["status"] = True, SUSPENDED
    clean(JOB, after)
    assert after["spec"]["template"]["spec"]["tolerations"] == [own]


def test_each_template_tolerates_what_its_own_podsets_need() -> None:
    def replicated(name: str) -> Object:
        pod = {"spec": {"containers": [{"name": "main"}]}}
        return {"name": name, "replicas": 2, "template": {"spec": {"completions": 1, "template": pod}}}

    meta = {"name": "set", "namespace": "team", "uid": "u"}
    obj: Object = {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": [replicated("a"), replicated("b")]}}
    seen = read(JOBSET, obj)
    names = [one.name for one in seen.podsets.podsets]
    start(JOBSET, obj, StartJob(seen, plan_for(seen), 4, {}, {names[3]: (SPOT,)}))
    specs = [one["template"]["spec"]["template"]["spec"] for one in obj["spec"]["replicatedJobs"]]
    assert [one.get("tolerations") for one in specs] == [None, [WRITTEN]]
    assert read(JOBSET, obj).flavors is None


def test_a_trainjob_cannot_carry_them() -> None:
    owner = {"apiVersion": TRAIN_JOB.version, "kind": "TrainJob", "name": "t", "uid": "t", "controller": True}
    meta = {"name": "t", "namespace": "team", "uid": "u", "ownerReferences": [owner]}
    pod = {"spec": {"containers": [{"name": "main"}]}}
    jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
    obj: Object = {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": jobs}}
    seen = read(TRAIN_JOB, obj)
    with pytest.raises(UnreadableJobError, match="tolerations of its flavor cannot be written on a TrainJob"):
        start(TRAIN_JOB, obj, StartJob(seen, plan_for(seen), 1, {}, {seen.podsets.podsets[0].name: (SPOT,)}))
