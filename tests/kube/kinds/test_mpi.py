"""MPIJobs: workers, and a launcher that has no index."""

from __future__ import annotations

from extender.kube.kinds.kind import Object
from extender.kube.kinds.mpi import MPI
from policies.model import GroupKey
from tests.kube.kinds.jobs import by_patch, pod, read, slots, started, stopped_again, stored, without_status
from tests.kube.kinds.training_jobs import LABELS, PI, indexed, templates


def mpi(obj: Object) -> dict[str, Object]:
    return templates(obj, "mpiReplicaSpecs")


def test_an_mpijob_is_its_workers_and_a_launcher_without_an_index() -> None:
    job = read(MPI, stored(PI))
    assert (job.key, job.problem) == (GroupKey("team", "mpijob-pi"), "")
    assert {podset.name: (podset.count, podset.indexed) for podset in job.podsets.podsets} == {
        "1-worker": (2, True),
        "3-launcher": (1, False),
    }
    after = started(MPI, stored(PI))
    workers = [
        pod(mpi(after)["Worker"], f"pi-worker-{at}", **{f"{LABELS}/job-role": "worker"}, **indexed(at))
        for at in range(2)
    ]
    (podset,) = (candidate for candidate in job.podsets.podsets if candidate.name == "1-worker")
    assert {member.identity for member in workers} == {podset.slot(0), podset.slot(1)}
    launcher = pod(mpi(after)["Launcher"], "pi-launcher-x", **{f"{LABELS}/job-role": "launcher"})
    assert (launcher.owner, launcher.series, launcher.index) == (job.uid, "3-launcher", None)


def test_the_launcher_is_led_by_the_policy_and_its_annotations_lose_their_values() -> None:
    obj = stored(PI)
    running = by_patch(obj, started(MPI, obj))
    assert mpi(running)["Launcher"]["metadata"]["annotations"]["muster.dev/nodes"] == "n1"
    assert "affinity" not in mpi(running)["Launcher"]["spec"]
    assert mpi(running)["Worker"]["metadata"]["annotations"]["muster.dev/nodes"] == "n0,n0"
    back = by_patch(running, stopped_again(MPI, running))
    assert not read(MPI, back).marked
    left = mpi(back)["Launcher"].pop("metadata")["annotations"]
    assert set(left.values()) == {""}
    assert without_status(back) == obj


def test_a_launcher_that_waits_for_its_workers_is_a_wave_of_its_own() -> None:
    obj = stored(PI)
    obj["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    job = read(MPI, obj)
    assert {podset.name: podset.wave for podset in job.podsets.podsets} == {"1-worker": 0, "3-launcher": 1}
    assert (job.podsets.minimum, job.podsets.first_wave) == (3, 2)


def test_a_launcher_that_is_a_worker_too_is_number_0_for_the_policy() -> None:
    obj = stored(PI)
    obj["spec"]["runLauncherAsWorker"] = True
    obj["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 9
    job = read(MPI, obj)
    nodes = tuple(f"n{at}" for at in range(9))
    after = started(MPI, obj, {"1-worker": nodes, "3-launcher": ("n0",)})
    assert mpi(after)["Worker"]["metadata"]["annotations"]["muster.dev/nodes"] == "," + ",".join(nodes)
    role = f"{LABELS}/job-role"
    pods = [pod(mpi(after)["Launcher"], "pi-launcher-x", **{role: "launcher"}, **indexed(0))]
    pods += [pod(mpi(after)["Worker"], f"pi-worker-{at}", **{role: "worker"}, **indexed(at + 1)) for at in range(9)]
    assert {member.identity for member in pods} == slots(job)
