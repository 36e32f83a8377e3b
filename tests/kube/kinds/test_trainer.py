"""TrainJobs are read in their JobSets, and the writes on JobSets are carried to them."""

from __future__ import annotations

from copy import deepcopy

import pytest
from msgspec import convert

from extender.core.effects import StartJob
from extender.kube.kinds.change import clean, start, suspend
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Object
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import Registry
from extender.kube.kinds.trainer import TRAIN_JOB, before_start, carried
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import Meta
from policies.model import GroupKey, NodeWait
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read, sizes
from tests.kube.kinds.train_jobs import OTHERS, entry_of, jobset, older, started, train_job

# https://github.com/kubeflow/trainer/blob/v2.3.0/manifests/base/runtimes/torch_distributed.yaml
# As https://www.kubeflow.org/docs/components/trainer/user-guides/ shows it, with a queue.
# What its controller makes of both, and of the entry that the admission policy has made.


def test_it_is_the_podsets_of_its_jobset_and_known_by_its_own_name() -> None:
    job = read(TRAIN_JOB, jobset())
    assert (job.key, job.problem) == (GroupKey("team", "trainjob-torch-ddp"), "")
    assert (job.owner.kind, job.owner.name, job.uid) == ("TrainJob", "torch-ddp", "train-uid")
    assert sizes(job) == {"000000000": 3}
    assert (job.suspended, job.stopped, job.held) == (True, True, False)
    assert job.in_steps


def test_it_is_held_as_the_policy_has_written_it() -> None:
    made = jobset()
    made["metadata"]["annotations"]["muster.dev/hold"] = "true"
    assert read(TRAIN_JOB, made).held


def test_a_jobset_shows_its_trainjob_and_is_wanted_if_the_policy_has_said_so() -> None:
    made = jobset()
    meta = convert(made["metadata"], Meta)
    assert Registry().read_as(JOBSET, meta) is TRAIN_JOB
    assert Registry().is_wanted(TRAIN_JOB, meta)
    del made["metadata"]["annotations"]
    assert not Registry().is_wanted(TRAIN_JOB, convert(made["metadata"], Meta))
    del made["metadata"]["ownerReferences"]
    assert Registry().read_as(JOBSET, convert(made["metadata"], Meta)) is JOBSET


def test_a_jobset_that_nobody_has_made_shows_no_trainjob() -> None:
    made = jobset()
    made["metadata"]["ownerReferences"] = []
    with pytest.raises(UnreadableError, match="no TrainJob has made the JobSet team/torch-ddp"):
        Reader().read(TRAIN_JOB, made)


def test_a_jobset_that_is_made_anew_is_read_anew() -> None:
    reader, made = Reader(), jobset()
    made["metadata"]["generation"] = 1
    assert sizes(reader.read(TRAIN_JOB, made)) == {"000000000": 3}
    again = deepcopy(made)
    again["metadata"]["uid"] = "another"
    again["spec"]["replicatedJobs"][0]["template"]["spec"].update(parallelism=2, completions=2)
    assert sizes(reader.read(TRAIN_JOB, again)) == {"000000000": 2}


def test_its_start_is_one_patch_with_the_plan_in_an_entry_of_its_own() -> None:
    after, made, job = started()
    assert after["spec"]["suspend"] is False
    assert after["spec"]["runtimePatches"][0] == train_job()["spec"]["runtimePatches"][0]
    assert after["metadata"]["annotations"] == {"muster.dev/plan": '{"000000000":"n0*2,n1*1"}'}
    template = entry_of(after)
    assert template["metadata"]["annotations"] == {
        "muster.dev/workload": "",
        "muster.dev/hold": "false",
        "muster.dev/queue-name": "team-queue",
        "muster.dev/plan": '{"000000000":"n0*2,n1*1"}',
    }
    (replicated,) = template["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["template"]["spec"]["template"]["metadata"]["annotations"]) == (
        "node",
        {
            "muster.dev/pod-group": "trainjob-torch-ddp",
            "muster.dev/min-member": "3",
            "muster.dev/workload": "train-uid",
            "muster.dev/nodes": "n0,n0,n1",
        },
    )
    running = read(TRAIN_JOB, made)
    assert (running.plan, running.podsets) == ({"000000000": ("n0", "n0", "n1")}, job.podsets)


def test_one_that_is_started_without_nodes_asks_for_the_nodes_of_its_flavor_until_it_is_given_back() -> None:
    made, node_labels = jobset(), {"000000000": (("pool", "spot"),)}
    awaited = StartJob(
        read(TRAIN_JOB, made), {}, 3, {"000000000": {"cpu": "spot"}}, {}, NodeWait(1.8e9, 1), node_labels
    )
    start(TRAIN_JOB, made, awaited)
    for obj in (train_job(), older()):
        before = carried(obj, made, entry=True)
        assert said_of_pods(before)["muster.dev/node-labels"] == "pool=spot"
        assert before["metadata"]["annotations"].keys() == {"muster.dev/plan", "muster.dev/flavors"}
        stopped = deepcopy(made)
        suspend(TRAIN_JOB, stopped)
        stopped["status"] = SUSPENDED
        clean(TRAIN_JOB, stopped)
        after = carried(before, stopped, entry=True)
        assert set(said_of_pods(after).values()) == {""}, "its Jobs would keep one that is taken off"
        start(TRAIN_JOB, stopped, StartJob(job := read(TRAIN_JOB, stopped), plan_for(job), 3))
        assert said_of_pods(carried(after, stopped, entry=True))["muster.dev/node-labels"] == ""


def said_of_pods(obj: Object) -> dict[str, str]:
    """The annotations that Muster has written for the pods of the only template, whichever Trainer it is for."""
    if "runtimePatches" not in obj["spec"]:
        return dict(obj["spec"]["podTemplateOverrides"][-1]["metadata"]["annotations"])
    (replicated,) = entry_of(obj)["spec"]["replicatedJobs"]
    return dict(replicated["template"]["spec"]["template"]["metadata"]["annotations"])


def test_its_suspension_leaves_the_entry_that_nobody_may_change_by_then() -> None:
    before, made, _ = started()
    suspend(TRAIN_JOB, made)
    after = carried(before, made, entry=False)
    assert after["spec"] == before["spec"] | {"suspend": True}
    assert after["metadata"]["annotations"] == {}


def test_what_was_written_loses_its_value_and_the_hold_is_carried_along() -> None:
    before, made, _ = started()
    suspend(TRAIN_JOB, made)
    made["status"] = SUSPENDED
    clean(TRAIN_JOB, made)
    before["metadata"]["labels"]["muster.dev/hold"] = "true"
    after = carried(before, made, entry=True)
    template = entry_of(after)
    shown = {"muster.dev/workload": "", "muster.dev/hold": "true", "muster.dev/queue-name": "team-queue"}
    assert template["metadata"]["annotations"] == shown
    (replicated,) = template["spec"]["replicatedJobs"]
    assert set(replicated["template"]["spec"]["template"]["metadata"]["annotations"].values()) == {""}
    assert not read(TRAIN_JOB, made).marked


def test_its_queue_is_read_from_what_the_admission_policy_shows_on_its_jobset() -> None:
    made = jobset()
    assert read(TRAIN_JOB, made).queue == "", "an entry from before the policy did so"
    made["metadata"]["annotations"]["muster.dev/queue-name"] = "team-a"
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "copied"}
    job = read(TRAIN_JOB, made)
    assert (job.queue, job.problem) == ("team-a", "")


def test_what_its_runtime_says_where_muster_writes_is_given_back() -> None:
    made = jobset()
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod["metadata"] = {"annotations": {"muster.dev/pod-group": "mine"}}
    job = read(TRAIN_JOB, made)
    assert job.key == GroupKey("team", "mine")
    start(TRAIN_JOB, made, StartJob(job, plan_for(job), 3))
    before = carried(train_job(), made, entry=True)
    suspend(TRAIN_JOB, made)
    made["status"] = SUSPENDED
    clean(TRAIN_JOB, made)
    (replicated,) = entry_of(carried(before, deepcopy(made), entry=True))["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["template"]["metadata"]["annotations"]["muster.dev/pod-group"] == "mine"


def test_one_of_trainer_2_1_is_started_and_given_back_by_overrides_of_its_templates() -> None:
    made = jobset()
    job = read(TRAIN_JOB, made)
    start(TRAIN_JOB, made, StartJob(job, plan_for(job), 3))
    after = carried(older(), made, entry=True)
    assert (after["spec"]["suspend"], "runtimePatches" in after["spec"]) == (False, False)
    shown = {
        "team.example.com/a": "b",
        "muster.dev/workload": "",
        "muster.dev/hold": "false",
        "muster.dev/queue-name": "team-queue",
    }
    plan = {"muster.dev/plan": '{"000000000":"n0*2,n1*1"}'}
    assert after["metadata"]["annotations"] == plan
    assert after["spec"]["annotations"] == shown | plan
    others, ours = after["spec"]["podTemplateOverrides"]
    assert others == OTHERS
    assert ours == {
        "targetJobs": [{"name": "node"}],
        "metadata": {
            "annotations": {
                "muster.dev/pod-group": "trainjob-torch-ddp",
                "muster.dev/min-member": "3",
                "muster.dev/workload": "train-uid",
                "muster.dev/nodes": "n0,n0,n1",
            }
        },
    }
    suspend(TRAIN_JOB, made)
    stopped = carried(after, made, entry=False)
    assert stopped["spec"] == after["spec"] | {"suspend": True}, "nobody may change them by now"
    made["status"] = SUSPENDED
    clean(TRAIN_JOB, made)
    given_back = carried(stopped, made, entry=True)
    assert given_back["spec"]["annotations"] == shown
    others, ours = given_back["spec"]["podTemplateOverrides"]
    assert others == OTHERS
    assert set(ours["metadata"]["annotations"].values()) == {""}
    again = read(TRAIN_JOB, made)
    start(TRAIN_JOB, made, StartJob(again, plan_for(again), 3))
    assert carried(given_back, made, entry=True)["spec"] == after["spec"], "its own override takes the place of its own"


def test_what_goes_into_the_entry_can_be_written_before_it_is_started() -> None:
    after, _, _ = started()
    entered = before_start(train_job(), after)
    assert entered["spec"] == after["spec"] | {"suspend": True}
    assert "annotations" not in entered["metadata"], "who unsuspends it meanwhile has to meet no plan"
