"""The flavors of a job on its annotation, and the resulting tolerations of its pods."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from extender.core.effects import StartJob
from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.change import clean, start, suspend
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Object
from extender.kube.kinds.plan import flavors_from, flavors_text
from extender.kube.kinds.trainer import TRAIN_JOB, carried
from extender.kube.reading.plain import MOST_BYTES
from policies.model import Toleration
from tests.kube.kinds.appwrappers import SAMPLE, STOPPED
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read, stored

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
    assert [tolerated.count(toleration) for toleration in (WRITTEN, {"operator": "Exists"})] == [1, 1]
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
    names = [podset.name for podset in seen.podsets.podsets]
    start(JOBSET, obj, StartJob(seen, plan_for(seen), 4, {}, {names[3]: (SPOT,)}))
    specs = [entry["template"]["spec"]["template"]["spec"] for entry in obj["spec"]["replicatedJobs"]]
    assert [spec.get("tolerations") for spec in specs] == [None, [WRITTEN]]
    assert read(JOBSET, obj).flavors is None


@pytest.mark.parametrize("own", [[], [{"key": "own", "operator": "Exists"}]])
@pytest.mark.parametrize("shown", [{}, {"annotations": {"muster.dev/workload": ""}}], ids=["2.3", "2.1"])
def test_a_trainjob_carries_them_beside_those_of_its_runtime_and_gives_them_back(
    own: list[Object], shown: Object
) -> None:
    owner = {"apiVersion": TRAIN_JOB.version, "kind": "TrainJob", "name": "t", "uid": "t", "controller": True}
    meta = {"name": "t", "namespace": "team", "uid": "u", "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main"}]} | ({"tolerations": own} if own else {})
    jobs = [{"name": name, "template": {"spec": {"template": {"spec": deepcopy(spec)}}}} for name in ("node", "other")]
    made: Object = {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": jobs}}
    train: Object = {"metadata": {"name": "t", "namespace": "team", "uid": "t"}, "spec": {"suspend": True} | shown}
    seen = read(TRAIN_JOB, made)
    start(TRAIN_JOB, made, StartJob(seen, plan_for(seen), 2, {}, {seen.podsets.podsets[0].name: (SPOT,)}))
    train = carried(train, made, entry=True)
    assert [template.get("spec") for template in in_entry(train)] == [{"tolerations": [*own, WRITTEN]}, None]
    assert read(TRAIN_JOB, made).podsets == seen.podsets
    suspend(TRAIN_JOB, made)
    assert in_entry(carried(train, made, entry=False)) == in_entry(train)
    made["status"] = SUSPENDED
    clean(TRAIN_JOB, made)
    assert [template.get("spec") for template in in_entry(carried(train, made, entry=True))] == [None, None]


def in_entry(train: Object) -> list[Object]:
    """The pod templates, or the overrides, in Muster's entry."""
    if overrides := train["spec"].get("podTemplateOverrides"):
        return [*overrides]
    ((entry),) = train["spec"]["runtimePatches"]
    jobs = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return [replicated["template"]["spec"]["template"] for replicated in jobs]


@pytest.mark.parametrize("info", [[], [{"tolerations": [{"key": "given"}]}, {"labels": {"a": "b"}}]])
def test_an_appwrapper_carries_them_beside_its_components_and_gives_them_back(info: list[Object]) -> None:
    obj = stored(SAMPLE, **STOPPED)
    (component,) = obj["spec"]["components"]
    roles = component["template"]["spec"]["pytorchReplicaSpecs"]
    roles["Worker"]["template"]["spec"]["tolerations"] = [{"key": "own"}]
    if info:
        component["podSetInfos"] = info
    seen = read(APP_WRAPPER, obj)
    given = (Toleration("given", "Equal", "", ""),) if info else ()
    tolerated = [podset.template.selection.tolerations for podset in seen.podsets.podsets]
    assert tolerated == [given, (Toleration("own", "Equal", "", ""),)]
    after = deepcopy(obj)
    plan = plan_for(seen)
    start(APP_WRAPPER, after, StartJob(seen, plan, 3, {}, dict.fromkeys(plan, (SPOT,))))
    (written,) = after["spec"]["components"]
    assert written["template"] == component["template"]
    known = info[0]["tolerations"] if info else []
    assert [pod_set_info["tolerations"] for pod_set_info in written["podSetInfos"]] == [[*known, WRITTEN], [WRITTEN]]
    assert read(APP_WRAPPER, after).podsets == seen.podsets
    suspend(APP_WRAPPER, after)
    after["status"] = STOPPED
    clean(APP_WRAPPER, after)
    assert after == obj
