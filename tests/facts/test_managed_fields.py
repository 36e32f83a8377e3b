"""managedFields dropped from pods and Jobs at CREATE by a policy."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable

from devcluster import Cluster
from devcluster.api import Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.place import Place, cpu_s, until
from tests.facts.policies import JOBS, PODS, install, patches, until_active
from tests.facts.test_cost_of_creation import NO_FIELDS, Case
from tests.facts.test_other_hands import WAYS, apply

LIVES = 300
ROUNDS = 3


def untracked(one: Object) -> bool:
    """Whether no client's fields are kept."""
    return "managedFields" not in one["metadata"]


def track_nothing(place: Place) -> None:
    install(place, PODS, patches(NO_FIELDS), name="pods")
    install(place, JOBS, patches(NO_FIELDS), name="jobs")
    until_active(place, place.pods, Case().pod(), untracked)
    until_active(place, place.jobs, place.job(), untracked)


@fact(
    "fields.stay-off",
    "A pod of a Job and the Job itself, without managedFields from their CREATE on, through Binding, status writes, "
    "the controllers' PATCHes and `kubectl label`.",
    result="They stay without.",
    consequence="One policy at CREATE stops the tracking for life, at no write.",
)
def test_fields_stay_off(place: Place, scheduler: Scheduler) -> None:
    place.add_nodes(1)
    track_nothing(place)
    place.create_job(slots=1)
    job = place.until_job(lambda job: job["status"].get("ready") == 1)
    name = place.pods_of()[0]["metadata"]["name"]
    place.cluster.kubectl("-n", place.namespace, "label", "pod", name, "by=hand")
    pod = place.pods_of()[0]
    assert pod["metadata"]["labels"]["by"] == "hand"
    assert (untracked(pod), untracked(job)) == (True, True)


@fact(
    "fields.apply-again",
    "A Job without managedFields was made by `kubectl apply`; its manifest changes and is applied again.",
    result="Client-side apply works as ever. Server-side apply by the very same user ends in a conflict with "
    "`before-first-apply`, until `--force-conflicts` is given once; then fields are tracked again.",
    consequence="Never for Jobs and other objects that users apply: it breaks server-side apply (Argo CD and Flux). "
    "For pods, which controllers create, it breaks nothing but a server-side apply to a pod.",
)
def test_applied_again(place: Place) -> None:
    track_nothing(place)
    outcomes = {}
    for way in WAYS:
        apply(place, place.job(way, suspend=True), way)
        output = apply(place, place.job(way, suspend=True, parallelism=1), way)
        job = place.until_job(bool, way)
        outcomes[way] = ("before-first-apply" in output, job["spec"]["parallelism"], untracked(job))
    assert outcomes == {"client": (False, 1, True), "server": (True, 2, True), "forced": (False, 1, False)}


@fact(
    "fields.cost",
    "CPU of kube-apiserver for the life of a pod (creation, Binding, one status write of its node, deletion), in ms, "
    "and its size as JSON while it runs, with managedFields and without.",
    result="With: {tracked} ms, {tracked_bytes} bytes. Without: {untracked} ms, {untracked_bytes} bytes.",
    consequence="Done for the pods of started jobs (job-admission/untracked.yaml), never for jobs: see "
    "fields.apply-again.",
    slow=True,
)
def test_what_fields_cost(cluster: Cluster, measured: Callable[..., None]) -> None:
    costs: dict[str, list[float]] = {"tracked": [], "untracked": []}
    sizes = {}
    for _ in range(ROUNDS):
        for name, cost in costs.items():
            with Place(cluster) as place:
                node = place.add_nodes(1, pods=LIVES)[0]
                case = Case() if name == "tracked" else Case(mutation=patches(NO_FIELDS))
                case.prepare(place)
                before = cpu_s(cluster)
                sizes[name] = live(place, node, case)
                cost.append((cpu_s(cluster) - before) * 1000 / LIVES)
    assert sizes["untracked"] < sizes["tracked"]
    figures = {name: round(statistics.median(cost), 1) for name, cost in costs.items()}
    measured(**figures, **{f"{name}_bytes": size for name, size in sizes.items()})


def live(place: Place, node: str, case: Case) -> int:
    """Take pods through their lives; the size of one that runs."""
    names = [case.pod(number)["metadata"]["name"] for number in range(LIVES)]
    place.api.create_all((place.pods, case.pod(number)) for number in range(LIVES))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    place.api.create_all(
        (f"{place.pods}/{name}/binding", {"metadata": {"name": name}, "target": target}) for name in names
    )
    running = f"{place.pods}?fieldSelector=status.phase%3DRunning&limit=500"
    listed = until(lambda: place.api.list(running), lambda pods: len(pods) == LIVES, every_s=0.5)
    place.api.delete(place.pods, {"gracePeriodSeconds": 0})
    place.until_pods(lambda pods: not pods)
    return len(json.dumps(listed[0], separators=(",", ":")))
