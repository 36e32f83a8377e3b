"""On a real API server: the pods of started jobs are led to their nodes when they are created, or gated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.muster import install_gate, install_job_admission
from extender.kube.keys import COMPONENT, INDEX_LABEL, LED, NODE_LABELS, PODSET
from policies.model import GANG_GATE
from tests.integration.team import (
    COMPLETION,
    JOB_INDEX,
    NODES,
    PLAN,
    REPLICA,
    REQUIRED,
    WORKLOAD,
    Team,
    is_gated,
    named,
    node_names,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_gate(running)
        install_job_admission(running)
        yield running


@pytest.mark.parametrize("label", [COMPLETION, REPLICA])
@pytest.mark.parametrize("count", [1, 8, 64, 1000])
def test_a_pod_is_pinned_to_the_node_of_its_index(team: Team, label: str, count: int) -> None:
    nodes = [f"node-{at}" for at in range(count)]
    for index in {0, count // 2, count - 1}:
        pod = team.pod(",".join(nodes), {label: str(index)})
        assert node_names(pod) == [nodes[index]]
        assert not is_gated(pod)
        assert pod["metadata"]["annotations"] == {WORKLOAD: "uid", "muster.dev/pod-group": "job-train", "kept": "yes"}


def test_a_pod_of_a_jobset_is_pinned_by_its_job_and_its_index(team: Team) -> None:
    for job, index, node in ((0, 0, "a"), (0, 1, "b"), (1, 0, "c"), (1, 1, "d")):
        assert node_names(team.pod("a,b;c,d", {JOB_INDEX: str(job), COMPLETION: str(index)})) == [node]
    assert is_gated(team.pod("a,b;c,d", {JOB_INDEX: "2", COMPLETION: "0"}))
    assert is_gated(team.pod("a,b;c,d", {JOB_INDEX: "1", COMPLETION: "2"}))


def test_a_worker_of_ray_is_pinned_by_its_replica_and_its_host(team: Team) -> None:
    replica, host = "ray.io/worker-group-replica-index", "ray.io/replica-host-index"
    for at, number, node in ((0, 0, "a"), (0, 1, "b"), (1, 0, "c"), (1, 1, "d")):
        assert node_names(team.pod("a,b;c,d", {replica: str(at), host: str(number)})) == [node]
    assert is_gated(team.pod("a,b;c,d", {replica: "2", host: "0"}))
    assert is_gated(team.pod("a,b;c,d", {replica: "1", host: "2"}))
    assert is_gated(team.pod("a,b;c,d", {host: "2"}))
    assert node_names(team.pod("a", {replica: "7"})) == ["a"], "it is the only one that was planned"


def test_a_pod_of_a_kind_of_the_settings_is_pinned_by_the_label_that_its_template_names(team: Team) -> None:
    marks = {PODSET: "worker", INDEX_LABEL: "example.com/rank"}
    for rank, node in enumerate("ab"):
        labels = {"example.com/rank": str(rank), COMPLETION: str(1 - rank)}
        assert node_names(team.pod("a,b", labels, annotations=marks)) == [node]
    assert is_gated(team.pod("a,b", {"example.com/rank": "2", COMPLETION: "0"}, annotations=marks))
    assert is_gated(team.pod("a,b", {COMPLETION: "0"}, annotations=marks))
    assert is_gated(team.pod("a,b", {COMPLETION: "0"}, annotations={PODSET: "worker"}))
    assert node_names(team.pod("a", {COMPLETION: "7"}, annotations={PODSET: "worker"})) == ["a"]


def test_a_pod_of_an_appwrapper_gets_our_scheduler_where_it_names_none(team: Team) -> None:
    marks = {COMPONENT: "0"}
    led = team.pod("a,b", {COMPLETION: "1"}, annotations=marks, schedulerName="default-scheduler")
    assert (led["spec"]["schedulerName"], node_names(led)) == ("muster", ["b"])
    waits = team.pod(None, {}, annotations=marks, schedulerName="default-scheduler")
    assert waits["spec"]["schedulerName"] == "muster"
    assert is_gated(waits)
    kept = team.pod("a", {}, annotations=marks)
    assert (kept["spec"]["schedulerName"], node_names(kept)) == ("muster", ["a"])


def test_a_pod_of_a_job_that_was_there_before_the_component_gets_our_scheduler(team: Team) -> None:
    """The template names no scheduler: the job was made for Kueue, for example."""
    pinned = team.pod("a,b", {COMPLETION: "1"}, schedulerName="default-scheduler")
    assert (pinned["spec"]["schedulerName"], node_names(pinned)) == ("muster", ["b"])
    waits = team.pod(None, {}, schedulerName="default-scheduler")
    assert (waits["spec"]["schedulerName"], is_gated(waits)) == ("muster", True)
    led = team.pod(None, {LED: "true"}, schedulerName="default-scheduler")
    assert (led["spec"]["schedulerName"], is_gated(led)) == ("muster", False)
    assert team.pod(None, {LED: "true"}, schedulerName="volcano")["spec"]["schedulerName"] == "volcano"


def test_a_pod_asks_for_the_nodes_that_its_template_says_are_yet_to_be_made(team: Team) -> None:
    labels = {"cloud.example.com/pool": "spot", "disk": ""}
    marks = {NODE_LABELS: ",".join(f"{key}={value}" for key, value in labels.items())}
    for own in ({}, {"zone": "a"}):
        pod = team.pod(None, {COMPLETION: "0"}, annotations=marks, **({"nodeSelector": own} if own else {}))
        assert (pod["spec"]["nodeSelector"], is_gated(pod)) == (own | labels, True)
    assert "nodeSelector" not in team.pod(None, {COMPLETION: "0"}, annotations={NODE_LABELS: ""})["spec"], "given back"


@pytest.mark.parametrize(
    ("scheduler", "annotations"),
    [
        ("volcano", {COMPONENT: "0"}),
        ("default-scheduler", {WORKLOAD: ""}),
        ("default-scheduler", {COMPONENT: "0", WORKLOAD: ""}),
    ],
    ids=["names another scheduler", "of one that Muster has not started", "of an AppWrapper that it has not started"],
)
def test_another_pod_keeps_its_scheduler(team: Team, scheduler: str, annotations: Object) -> None:
    pod = team.pod("a", {}, annotations=annotations, schedulerName=scheduler)
    assert pod["spec"]["schedulerName"] == scheduler
    assert "affinity" not in pod["spec"]
    assert not is_gated(pod)


def test_the_only_pod_of_its_template_needs_no_index(team: Team) -> None:
    assert node_names(team.pod("a", {})) == ["a"]


@pytest.mark.parametrize(
    ("nodes", "labels"),
    [
        ("a,b", {COMPLETION: "2"}),
        ("a", {COMPLETION: "1"}),
        ("a,b", {}),
        (",b", {REPLICA: "0"}),
        ("a,b", {COMPLETION: "x"}),
        ("a,b", {COMPLETION: "99999999999999999999"}),
        ("a,b", {JOB_INDEX: "x", COMPLETION: "0"}),
        ("", {COMPLETION: "0"}),
        (None, {COMPLETION: "0"}),
    ],
)
def test_a_pod_that_cannot_be_pinned_is_gated_without_the_plan(
    team: Team, nodes: str | None, labels: dict[str, str]
) -> None:
    pod = team.pod(nodes, labels)
    assert pod["spec"]["schedulingGates"] == [{"name": GANG_GATE}]
    assert "affinity" not in pod["spec"]
    assert NODES not in pod["metadata"]["annotations"]
    beside = team.pod(nodes, labels, schedulingGates=[{"name": "example.com/quota"}])
    assert beside["spec"]["schedulingGates"] == [{"name": "example.com/quota"}, {"name": GANG_GATE}]
    assert team.pod(nodes, labels, schedulingGates=[{"name": GANG_GATE}])["spec"]["schedulingGates"] == [
        {"name": GANG_GATE}
    ]


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
LIKED = [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]
APART = {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]}


@pytest.mark.parametrize(
    "own",
    [
        {"podAntiAffinity": APART},
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": LIKED}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}},
        {
            "podAntiAffinity": APART,
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": LIKED,
                REQUIRED: {
                    "nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchExpressions": [ZONE | {"key": "rack"}]}]
                },
            },
        },
    ],
    ids=["apart", "preferred", "required", "all"],
)
def test_an_affinity_of_its_own_is_crossed(team: Team, own: Object) -> None:
    affinity = team.pod("a,b", {COMPLETION: "1"}, affinity=own)["spec"]["affinity"]
    assert affinity.get("podAntiAffinity") == own.get("podAntiAffinity")
    crossed, given = affinity["nodeAffinity"], own.get("nodeAffinity", {})
    liked = "preferredDuringSchedulingIgnoredDuringExecution"
    assert crossed.get(liked) == given.get(liked)
    name = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    terms = given.get(REQUIRED, {}).get("nodeSelectorTerms", [{}])
    assert crossed[REQUIRED]["nodeSelectorTerms"] == [term | {"matchFields": [name]} for term in terms]


def test_no_field_of_a_pod_of_a_started_job_is_tracked(team: Team) -> None:
    pinned = team.pod("a", {COMPLETION: "0", LED: "index"})
    led = team.pod(None, {LED: "true"}, affinity=named("a"))
    assert node_names(pinned) == ["a"]
    of_no_gang = team.pod(None, {}, annotations={WORKLOAD: "", "muster.dev/pod-group": ""})
    tracked = ["managedFields" in pod["metadata"] for pod in (pinned, led, of_no_gang)]
    assert tracked == [False, False, True]


OF_THE_SETTINGS = {"muster.dev/podset": "worker", "muster.dev/index-label": "science.example.com/rank"}


@pytest.mark.parametrize(
    ("label", "marks"),
    [(COMPLETION, {}), (REPLICA, {}), ("science.example.com/rank", OF_THE_SETTINGS)],
    ids=["Job", "Kubeflow", "of the settings"],
)
def test_a_pod_beyond_what_was_planned_is_gated_and_bound_to_no_node_of_the_others(
    team: Team, label: str, marks: Object
) -> None:
    liked = {"preferredDuringSchedulingIgnoredDuringExecution": LIKED}
    affinity = {"nodeAffinity": named("a", "b")["nodeAffinity"] | liked}
    all_marks = {"muster.dev/min-member": "2", **marks}
    led, beyond = (
        team.pod(None, {LED: "true", label: index}, annotations=all_marks, affinity=affinity) for index in ("1", "2")
    )
    assert (node_names(led), is_gated(led)) == (["a", "b"], False)
    assert (beyond["spec"]["affinity"]["nodeAffinity"], is_gated(beyond)) == (liked, True)
    gates = [{"name": "example.com/quota"}]
    beside = team.pod(None, {LED: "true", label: "2"}, annotations=all_marks, affinity=affinity, schedulingGates=gates)
    assert beside["spec"]["schedulingGates"] == [*gates, {"name": GANG_GATE}]


@pytest.mark.parametrize(("way", "tracked"), [("client", False), ("server", True)])
def test_no_field_of_a_gated_pod_is_tracked_unless_somebody_applies_it(team: Team, way: str, *, tracked: bool) -> None:
    """A second server-side apply would meet a conflict."""
    meta = {"name": "train-0", "namespace": team.name, "annotations": {"muster.dev/pod-group": "train"}}
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "train"}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    for _ in range(2):
        assert "conflict" not in team.apply(manifest, way)
    pod = team.api.get(f"{team.pods}/train-0")
    assert is_gated(pod)
    assert ("managedFields" in pod["metadata"]) is tracked


def test_a_pod_whose_template_names_its_nodes_is_left_alone(team: Team) -> None:
    pod = team.pod(None, {COMPLETION: "0"}, affinity=named("a", "b"))
    assert (pod["spec"]["affinity"], is_gated(pod)) == (named("a", "b"), False)
    # An affinity of its user's names none.
    assert is_gated(
        team.pod(None, {}, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}})
    )


@pytest.mark.parametrize(
    ("annotations", "given"),
    [({WORKLOAD: ""}, {}), ({}, {"schedulerName": "volcano"}), ({}, {"nodeName": "node-7"})],
    ids=["given back", "another scheduler", "on a node"],
)
def test_any_other_pod_is_not_led(team: Team, annotations: Object, given: Object) -> None:
    pod = team.pod("a,b", {COMPLETION: "1"}, annotations=annotations | {"muster.dev/pod-group": ""}, **given)
    assert ("affinity" in pod["spec"], is_gated(pod)) == (False, False)


def test_members_of_no_job_are_gated_as_before(team: Team) -> None:
    for named_by, gated in (
        ({"muster.dev/pod-group": "gang"}, True),
        ({"scheduling.x-k8s.io/pod-group": "gang", "muster.dev/pod-group": ""}, True),
        ({"muster.dev/pod-group": ""}, False),
    ):
        assert is_gated(team.pod(None, {}, annotations={WORKLOAD: ""} | named_by)) is gated
    pod = team.pod(None, {}, annotations={WORKLOAD: ""}, schedulingGates=[{"name": "example.com/quota"}])
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["example.com/quota", GANG_GATE]


def test_a_started_job_has_its_pods_on_the_nodes_of_its_plan(cluster: Cluster, team: Team) -> None:
    cluster.add_nodes(2, prefix="led")
    team.create(team.job())
    annotations = {WORKLOAD: "uid", NODES: "led-1,led-0"}
    start = {"suspend": False, "template": {"metadata": {"annotations": annotations}}}
    team.patch({"metadata": {"annotations": {PLAN: '{"": "led-1,led-0"}'}}, "spec": start})
    pods = team.api.wait_for(team.pods, lambda pods: len(pods) == 2)
    by_index = {pod["metadata"]["labels"][COMPLETION]: node_names(pod) for pod in pods}
    assert by_index == {"0": ["led-1"], "1": ["led-0"]}
    assert not any(NODES in pod["metadata"]["annotations"] or is_gated(pod) for pod in pods)


@pytest.mark.parametrize("label", ["kueue.x-k8s.io/queue-name", "muster.dev/queue-name"])
def test_a_pod_that_runs_keeps_its_queue(team: Team, label: str) -> None:
    """Otherwise its quota would be given out twice."""
    pods = f"/api/v1/namespaces/{team.name}/pods"
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "train"}]}

    def put(name: str, **more: str) -> None:
        labels = {label: "research", "app": "train"}
        team.api.create(pods, {"metadata": {"name": name, "labels": labels}, "spec": {**spec, **more}})

    def relabel(name: str, **labels: str | None) -> None:
        team.api.patch(f"{pods}/{name}", {"metadata": {"labels": labels}})

    put("waits")
    relabel("waits", **{label: "production"})
    put("elsewhere", schedulerName="default-scheduler", nodeName="a")
    relabel("elsewhere", **{label: "production"})
    put("runs", nodeName="a")
    for other in ("production", "", None):
        with pytest.raises(ApiError, match="delete the pod before you change the queue"):
            relabel("runs", **{label: other})
    relabel("runs", app="other")
    team.api.patch(f"{pods}/runs/status", {"status": {"phase": "Succeeded"}})
    relabel("runs", **{label: "production"})
