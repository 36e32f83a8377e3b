"""On a real API server: all CEL of all admission policies passes its type check, and none of it fails.

A mutating policy that fails open does so in silence, and variables are evaluated only where an expression needs them.
So each variable of a mutating policy gets a twin of the policy in which that variable alone fails. The API server
counts the failures of each twin: one without any would be a variable that nothing here reaches. The policies themselves
must not fail at all. A validating policy that fails refuses the request, and says that it has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest
import yaml

from devcluster import Cluster
from devcluster.admission import until_created_so
from devcluster.api import ApiError, Object
from devcluster.controllers import install_crds
from devcluster.muster import (
    MANIFESTS,
    NAMESPACE,
    install,
    install_crds_of,
    install_gate,
    install_job_admission,
    mutating_version,
)
from tests.integration.managed_kinds import (
    TRAINING,
    collection,
    jobset,
    ray,
    rays,
    training,
    trains,
    wrappers,
    wrapping,
)
from tests.integration.own_kind import EXAMPLE, MANIFEST, install_kind
from tests.integration.policy_failures import policy_failures
from tests.integration.team import COMPLETION, GANG, NODES, PLAN, QUEUE, REQUIRED, WORKLOAD, Team
from tests.kube.kinds.manifests import DEPLOYMENT, LEADER_WORKER_SET, REPLICA_SET, STATEFUL_SET
from tests.test_policy_values import FAIL_OPEN, MUTATING, VALIDATING, Policy

pytestmark = pytest.mark.xdist_group("policy-cel")

USER = "jane"
"""A user who may change jobs, but not Muster's marks on them."""
EXTENDER = f"system:serviceaccount:{NAMESPACE}:muster-extender"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running, EXAMPLE)
        install_gate(running)
        install_job_admission(running)
        install_crds(running, "jobset", "training-operator", "mpi-operator", "kuberay", "trainer", "appwrapper", "lws")
        install_crds_of(running, "queues")
        install_kind(running)
        for component in ("elastic", "pod-trials", "device-release"):
            running.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "components" / component))
        running.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "examples" / "workload-priority-classes.yaml"))
        yield running


def twins() -> Iterator[tuple[str, Policy]]:
    """Each variable of each mutating policy, as POLICY.VARIABLE, with the twin in which it fails."""
    for name, policy in MUTATING.items():
        for at, variable in enumerate(policy["spec"].get("variables", ())):
            twin = deepcopy(policy)
            # Of the same type, and out of bounds.
            twin["spec"]["variables"][at]["expression"] = f"[\n{variable['expression']}\n][1]"
            # Each is evaluated, and changes nothing that another twin looks at.
            for mutation in twin["spec"]["mutations"]:
                mutation["jsonPatch"]["expression"] = f"(\n{mutation['jsonPatch']['expression']}\n).filter(one, false)"
            twin["spec"]["failurePolicy"] = "Ignore"
            twin["metadata"] = {"name": f"twin-{name}-{at}"}
            yield f"{name}.{variable['name']}", twin


class Sender:
    """Sends requests, each accepted or refused: only the evaluation of the policies counts."""

    def __init__(self, cluster: Cluster, team: Team) -> None:
        self.api, self.team = cluster.api, team
        self.base = f"/api/v1/namespaces/{team.name}"

    def send(self, write: Callable[..., Object], path: str, body: Object, user: str = "") -> Object | None:
        try:
            return write(path, body, user=user)
        except ApiError as refused:
            if "resulted in error" in str(refused):
                raise  # an expression has failed, and did not judge
            return None

    def create(self, path: str, body: Object, user: str = "") -> Object | None:
        return self.send(self.api.create, path, body, user)

    def patch(self, path: str, body: Object, user: str = "") -> Object | None:
        return self.send(self.api.patch, path, body, user)

    def lived(self, path: str, manifest: Object) -> None:
        """A job is created, changed by people, started by Muster, changed again, replaced, and suspended."""
        name, kind = manifest["metadata"]["name"], manifest["kind"]
        self.create(path, manifest)
        its_path, plan = f"{path}/{name}", {"metadata": {"annotations": {PLAN: "{}", "muster.dev/own": "{}"}}}
        spec: Object = {"runPolicy": {"suspend": False}} if kind in TRAINING else {"suspend": False}
        self.patch(its_path, plan)
        self.patch(its_path, {"spec": spec})
        self.patch(its_path, {**plan, "spec": spec}, EXTENDER)
        self.patch(its_path, {**plan, "spec": spec})
        self.patch(its_path, {"spec": {"anything": "else"}, "metadata": {"annotations": {"a": "b"}}}, EXTENDER)
        self.patch(its_path, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
        self.patch(its_path, {"metadata": {"annotations": None}}, USER)
        replaced = deepcopy(manifest)
        replaced["metadata"]["annotations"] = {PLAN: "{}", "muster.dev/flavors": "{}"}
        self.create(f"{path}?dryRun=All", {**replaced, "metadata": {**replaced["metadata"], "name": f"{name}-anew"}})


def jobs(sender: Sender) -> None:
    """Jobs of every kind."""
    team = sender.team
    sender.lived(team.jobs, team.job())
    for at, labels in enumerate(({}, {**GANG, "muster.dev/hold": "true"}, {**QUEUE, "muster.dev/gang": "True"})):
        sender.create(team.jobs, team.job(f"other-{at}", labels=labels))
    sender.lived(collection(team, "JobSet"), jobset(1, 2, labels=QUEUE))
    sender.lived(collection(team, "PyTorchJob"), training("PyTorchJob", None))
    sender.create(collection(team, "MPIJob"), training("MPIJob", {"suspend": False}))
    for kind in ("RayCluster", "RayJob"):
        pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "submit", "image": "ray"}]}}
        more = {"submitterPodTemplate": pods} if kind == "RayJob" else {}
        sender.lived(rays(team, kind), ray(kind, "a", "b", **more))
        sender.patch(f"{rays(team, kind)}/train", ray(kind, "a", "b", **more))
    sender.lived(wrappers(team), wrapping())
    train = {"runtimeRef": {"name": "torch"}, "trainer": {"resourcesPerNode": {"limits": {"cpu": "1000m"}}}}
    header = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    sender.lived(trains(team), {**header, "metadata": {"name": "train", "labels": QUEUE}, "spec": train})
    same = {"trainer": {"resourcesPerNode": {"limits": {"cpu": 1}}}}
    sender.patch(f"{trains(team)}/train", {"spec": same})
    sender.lived(f"/apis/science.example.com/v1/namespaces/{team.name}/simulations", yaml.safe_load(MANIFEST))


def owners(sender: Sender) -> None:
    """Create owners of gangs with and without the opt-in, and then change them."""
    for manifest in (STATEFUL_SET, DEPLOYMENT, REPLICA_SET, LEADER_WORKER_SET):
        obj = yaml.safe_load(manifest)
        path = f"/apis/{obj['apiVersion']}/namespaces/{sender.team.name}/{obj['kind'].lower()}s"
        for labels in (GANG, {}, {"muster.dev/gang": "false"}):
            named = {**obj, "metadata": {"name": f"{obj['metadata']['name']}-{len(str(labels))}", "labels": labels}}
            sender.create(path, named)
            sender.patch(f"{path}/{named['metadata']['name']}", {"metadata": {"labels": {"muster.dev/gang": None}}})


def pods(sender: Sender) -> None:
    """Pods of started jobs and of gangs, created, bound, relabelled, nominated and evicted."""
    team, made = sender.team, {"muster.dev/pod-group": "train", "muster.dev/release": "old"}
    spec: Object = {"schedulerName": "muster", "containers": [{"name": "main", "image": "train"}]}
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}}
    for marks, labels, more in (
        ({NODES: "a,b;c,d", "muster.dev/node-labels": "pool=spot"}, {COMPLETION: "1"}, {"affinity": own}),
        ({NODES: "a,b"}, {COMPLETION: "7"}, {"schedulingGates": [{"name": "example.com/other"}]}),
        ({NODES: "a,b"}, {COMPLETION: "0"}, {"affinity": {"podAffinity": {}}}),
        ({"muster.dev/min-member": "1"}, {"muster.dev/led": "true", COMPLETION: "3"}, {"affinity": own}),
    ):
        meta = {"name": "led", "labels": labels, "annotations": {WORKLOAD: "uid", **marks}}
        sender.create(f"{team.pods}?dryRun=All", {"metadata": meta, "spec": {**spec, **more}})
    sender.create(team.pods, {"metadata": {"name": "made", "annotations": made}, "spec": spec})
    its_path = f"{team.pods}/made"
    sender.patch(its_path, {"spec": {"schedulingGates": None}}, EXTENDER)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "made"}, "target": target}
    for user, marks in (
        ("", {"muster.dev/release": "1"}),
        (EXTENDER, {"a": "b"}),
        (EXTENDER, {"muster.dev/release": "1"}),
    ):
        sender.create(f"{its_path}/binding", {**binding, "metadata": {"name": "made", "annotations": marks}}, user)
    for marks in ({"muster.dev/pod-group": "other"}, {"muster.dev/release": "2"}, {"kueue.x-k8s.io/queue-name": "q"}):
        sender.patch(its_path, {"metadata": {"annotations": marks}})
        sender.patch(its_path, {"metadata": {"labels": marks}})
        sender.patch(its_path, {"metadata": {"annotations": marks}}, EXTENDER)
        sender.patch(f"{its_path}/status", {"metadata": {"labels": marks}}, EXTENDER)
    for labels in ({}, {"muster.dev/evicted-by": "extender"}):
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "made", "labels": labels}}
        sender.create(f"{its_path}/eviction", eviction, EXTENDER)
    tried = {"metadata": {"name": "tried"}, "spec": spec}
    sender.create(team.pods, tried, f"system:serviceaccount:{NAMESPACE}:muster-trials")


def records(sender: Sender) -> None:
    """Write the objects that the extender writes beside pods and jobs."""
    meta = {"name": "train", "labels": {"muster.dev/record": "true", "muster.dev/capacity": "true"}}
    queued = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{sender.team.name}/workloads"
    sender.create(
        queued, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": meta, "spec": {}}, EXTENDER
    )
    sender.create(f"{sender.base}/podtemplates", {"metadata": meta, "template": {"spec": {}}}, EXTENDER)
    sender.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"muster.dev/kept-for-plan": "true"}}}, EXTENDER)
    group = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{sender.team.name}/podgroups"
    sender.create(group, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}})
    sender.patch(f"{group}/g", {"status": {"phase": "Inqueue"}}, EXTENDER)
    event: Object = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}}
    sender.create(f"/apis/events.k8s.io/v1/namespaces/{sender.team.name}/events", event, EXTENDER)


def everything(cluster: Cluster, team: Team) -> None:
    sender = Sender(cluster, team)
    for send_all in (jobs, owners, pods, records):
        send_all(sender)


LAST: Policy = {
    "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "twin-last"},
    "spec": {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'last': 'yes'}}]"},
            }
        ],
    },
}
"""The API server takes policies up in the order in which they are written: when this one is in force, all are."""


def install_twins(cluster: Cluster) -> dict[str, str]:
    """The names of all twins, by the variable that fails in each. Returns when they are in force."""
    version = f"admissionregistration.k8s.io/{mutating_version()}"
    for name in (*FAIL_OPEN, "muster-job-keys"):  # their changes would hide objects from the twins
        elsewhere = {"matchExpressions": [{"key": "muster.dev/manage-jobs", "operator": "DoesNotExist"}]}
        binding = {"spec": {"matchResources": {"namespaceSelector": elsewhere}}}
        cluster.api.patch(f"/apis/{version}/mutatingadmissionpolicybindings/{name}", binding)
    known = {}
    for of, twin in [*twins(), ("", LAST)]:
        known[of] = name = twin["metadata"]["name"]
        path = f"/apis/{version}/mutatingadmissionpolic"
        cluster.api.create(f"{path}ies", {**twin, "apiVersion": version})
        cluster.api.create(f"{path}ybindings", {"metadata": {"name": name}, "spec": {"policyName": name}})
    del known[""]
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    until_created_so(cluster.api, path, {"metadata": {"name": "probe"}}, lambda obj: "labels" in obj["metadata"])
    return known


def test_the_api_server_finds_no_fault_with_the_types_of_any_validation(cluster: Cluster) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def checked(seen: list[Object]) -> bool:
        return all(
            policy.get("status", {}).get("observedGeneration") == policy["metadata"]["generation"] for policy in seen
        )

    seen = cluster.api.wait_for(path, checked)
    assert {policy["metadata"]["name"] for policy in seen} >= VALIDATING.keys()
    warned = {policy["metadata"]["name"]: policy["status"].get("typeChecking", {}) for policy in seen}
    assert {name: warning for name, warning in warned.items() if warning.get("expressionWarnings")} == {}


def test_all_cel_is_evaluated_and_none_fails(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]}]
    rights = "/apis/rbac.authorization.k8s.io/v1/clusterrole"
    cluster.api.create(f"{rights}s", {"metadata": {"name": USER}, "rules": rules})
    granted = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    cluster.api.create(f"{rights}bindings", {"metadata": {"name": USER}, "roleRef": granted, "subjects": [subject]})
    known = install_twins(cluster)
    everything(cluster, Team(cluster, manage_jobs="true"))
    other = Sender(cluster, Team(cluster))
    other.lived(other.team.jobs, other.team.job())
    pods(other)
    failures = policy_failures(cluster)
    assert not FAIL_OPEN & failures.keys(), "the policies themselves fail nowhere"
    unreached = sorted(of for of, name in known.items() if not failures.get(name))
    assert not unreached, unreached
