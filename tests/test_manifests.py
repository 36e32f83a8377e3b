"""The shipped manifests agree with each other: facts that two files state are compared here."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.kube.kinds.registry import KINDS

MANIFESTS = Path(__file__).parent.parent / "manifests"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  the directory every client reads


def documents(name: str) -> list[dict[str, Any]]:
    return [doc for doc in yaml.safe_load_all((MANIFESTS / name).read_text()) if doc]


def document(name: str) -> dict[str, Any]:
    [only] = documents(name)
    return only


def seconds(duration: str) -> float:
    match = re.fullmatch(r"(\d+)s", duration)
    assert match, f"{duration}: write whole seconds, so that people can compare them"
    return float(match[1])


@pytest.fixture
def scheduler_config() -> dict[str, Any]:
    return document("base/kube-scheduler-config.yaml")


@pytest.fixture
def settings() -> dict[str, Any]:
    return document("base/muster.yaml")


@pytest.fixture
def deployment() -> dict[str, Any]:
    return document("base/deployment.yaml")


@pytest.fixture
def containers(deployment: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in deployment["spec"]["template"]["spec"]["containers"]}


def entries(scheduler_config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entry with the short questions and the entry with the long hold."""
    [bind] = [e for e in scheduler_config["extenders"] if e.get("bindVerb")]
    [ask] = [e for e in scheduler_config["extenders"] if not e.get("bindVerb")]
    return ask, bind


def test_our_kube_scheduler_starts_no_native_groups(containers: dict[str, dict[str, Any]]) -> None:
    """A later release may do so by default, and with the gate WorkloadWithJob every Job has such a group."""
    assert "--feature-gates=GenericWorkload=false" in containers["kube-scheduler"]["command"]


def test_one_entry_asks_and_the_other_only_binds(scheduler_config: dict[str, Any]) -> None:
    ask, bind = entries(scheduler_config)
    assert (ask["filterVerb"], ask["prioritizeVerb"], ask["preemptVerb"]) == ("filter", "prioritize", "preempt")
    assert ask["weight"] > 0, "kube-scheduler refuses to start without"
    assert bind["bindVerb"] == "bind"
    assert not {"filterVerb", "prioritizeVerb", "preemptVerb", "weight"} & set(bind)


def test_no_entry_can_be_skipped_or_sends_whole_nodes_or_leaves_pods_out(scheduler_config: dict[str, Any]) -> None:
    for entry in scheduler_config["extenders"]:
        assert entry["ignorable"] is False
        assert entry["nodeCacheCapable"] is True
        assert "managedResources" not in entry
    assert scheduler_config["percentageOfNodesToScore"] == 100


def test_timeouts_agree(scheduler_config: dict[str, Any], settings: dict[str, Any]) -> None:
    ask, bind = entries(scheduler_config)
    assert seconds(bind["httpTimeout"]) == settings["bind_timeout_s"]
    assert seconds(ask["httpTimeout"]) < seconds(bind["httpTimeout"])
    assert seconds(bind["httpTimeout"]) > scheduler_config["podMaxBackoffSeconds"] + seconds(ask["httpTimeout"])


def test_addresses_agree(scheduler_config: dict[str, Any], settings: dict[str, Any]) -> None:
    for entry in scheduler_config["extenders"]:
        assert entry["urlPrefix"] == f"http://127.0.0.1:{settings['listen_port']}"
    assert f"EXPOSE {settings['listen_port']}" in (MANIFESTS.parent / "Dockerfile").read_text()


def test_scheduler_names_agree(scheduler_config: dict[str, Any], settings: dict[str, Any]) -> None:
    assert [p["schedulerName"] for p in scheduler_config["profiles"]] == settings["scheduler_names"]


def test_the_lease_is_the_one_that_the_role_allows(scheduler_config: dict[str, Any]) -> None:
    lease = scheduler_config["leaderElection"]
    assert lease["leaderElect"] is True
    [role] = [
        d
        for d in documents("base/rbac-scheduler.yaml")
        if (d["kind"], d["metadata"]["name"]) == ("Role", "muster-scheduler")
    ]
    assert role["metadata"]["namespace"] == lease["resourceNamespace"]
    assert [r.get("resourceNames") for r in role["rules"]] == [None, [lease["resourceName"]]]


def test_both_look_at_the_same_lease_and_the_extender_may_only_look(
    scheduler_config: dict[str, Any], settings: dict[str, Any], deployment: dict[str, Any]
) -> None:
    lease, seen = scheduler_config["leaderElection"], settings["leader_election"]
    assert seen == {"enabled": True, "namespace": lease["resourceNamespace"], "name": lease["resourceName"]}
    [role] = [d for d in documents("base/high-availability.yaml") if d["kind"] == "Role"]
    assert role["metadata"]["namespace"] == lease["resourceNamespace"]
    [rule] = role["rules"]
    assert (rule["resources"], rule["resourceNames"]) == (["leases"], [lease["resourceName"]])
    assert rule["verbs"] == ["list", "watch"]
    assert deployment["spec"]["replicas"] == 2
    # With hostNetwork, replicas on one node would have the same host name, and both would take themselves for leaders.
    assert "hostNetwork" not in deployment["spec"]["template"]["spec"]


def test_each_container_has_its_own_identity(deployment: dict[str, Any], containers: dict[str, dict[str, Any]]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == "muster-scheduler"
    volumes = {v["name"]: v for v in pod["volumes"]}
    [broker] = pod["initContainers"]
    mounts = {
        container["name"]: {m["mountPath"]: volumes[m["name"]] for m in container["volumeMounts"]}
        for container in (broker, *containers.values())
    }
    assert "projected" in mounts["kube-scheduler"][TOKEN_PATH]
    shared = mounts["muster"][TOKEN_PATH]
    assert shared["emptyDir"]["medium"] == "Memory"
    assert not any("projected" in volume for volume in mounts["muster"].values())
    assert shared not in mounts["kube-scheduler"].values()


def test_no_token_lives_for_ever(deployment: dict[str, Any]) -> None:
    shipped = [
        manifest for path in sorted((MANIFESTS / "base").glob("*.yaml")) for manifest in yaml.safe_load_all(path.open())
    ]
    assert not [manifest["metadata"]["name"] for manifest in shipped if manifest.get("kind") == "Secret"]
    assert not [volume["name"] for volume in deployment["spec"]["template"]["spec"]["volumes"] if "secret" in volume]


def test_the_extenders_token_is_made_where_the_extender_reads_it(
    deployment: dict[str, Any], containers: dict[str, dict[str, Any]]
) -> None:
    """The token is made by a container with that right that keeps running; the others start once it exists."""
    [broker] = deployment["spec"]["template"]["spec"]["initContainers"]
    assert (broker["restartPolicy"], broker["image"]) == ("Always", containers["muster"]["image"])
    program, command, account, directory, lifetime = broker["command"]
    assert (program, command) == ("muster", "token")
    there = directory.removeprefix("--directory=")
    assert broker["startupProbe"]["exec"]["command"] == ["test", "-s", f"{there}/token"]
    [mount] = [m for m in broker["volumeMounts"] if m["mountPath"] == there]
    assert [m["name"] for m in containers["muster"]["volumeMounts"] if m["mountPath"] == TOKEN_PATH] == [mount["name"]]
    assert 600 <= int(lifetime.removeprefix("--lifetime=")) <= 3600
    [role] = [d for d in documents("base/rbac-scheduler.yaml") if d["metadata"]["name"] == "muster-extender-token"][:1]
    [rule] = role["rules"]
    assert account == f"{role['metadata']['namespace']}/{rule['resourceNames'][0]}" == "kube-system/muster-extender"
    assert (rule["resources"], rule["verbs"]) == (["serviceaccounts/token"], ["create"])


def test_containers_read_the_files_that_are_mounted(
    deployment: dict[str, Any], containers: dict[str, dict[str, Any]]
) -> None:
    generated = {g["name"]: g["files"] for g in document("base/kustomization.yaml")["configMapGenerator"]}
    volumes = {v["name"]: v for v in deployment["spec"]["template"]["spec"]["volumes"]}
    for name, arguments in (
        ("kube-scheduler", containers["kube-scheduler"]["command"]),
        ("muster", containers["muster"]["args"]),
    ):
        [path] = [a.removeprefix("--config=") for a in arguments if a.startswith("--config=")]
        directory, _, file = path.rpartition("/")
        [mount] = [m for m in containers[name]["volumeMounts"] if m["mountPath"] == directory]
        assert file in generated[volumes[mount["name"]]["configMap"]["name"]]


def test_nothing_runs_as_root_or_can_become_it(
    deployment: dict[str, Any], containers: dict[str, dict[str, Any]]
) -> None:
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    for container in [*deployment["spec"]["template"]["spec"]["initContainers"], *containers.values()]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    for container in containers.values():
        assert {"startupProbe", "livenessProbe", "readinessProbe", "resources"} <= set(container)


def test_the_extender_has_no_right_beyond_its_work() -> None:
    [role] = [d for d in documents("base/rbac-extender.yaml") if d["kind"] == "ClusterRole"]
    rights = {
        f"{verb} {resource}" for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert rights == {
        *("get pods", "list pods", "watch pods", "patch pods"),
        *("list nodes", "watch nodes", "list persistentvolumeclaims", "watch persistentvolumeclaims"),
        *("list persistentvolumes", "watch persistentvolumes"),
        *(f"{verb} {kind}" for kind in STORAGE for verb in ("list", "watch")),
        *("list poddisruptionbudgets", "watch poddisruptionbudgets"),
        *(f"{verb} {kind}" for kind in DEVICES for verb in ("list", "watch")),
        *("list podgroups", "watch podgroups", "patch podgroups/status", "get podgroups", "patch podgroups"),
        *("patch pods/status", "create pods/binding", "create pods/eviction", "patch jobs/status"),
        *("create events", "list limitranges", "watch limitranges", "list runtimeclasses", "watch runtimeclasses"),
        *("list priorityclasses", "watch priorityclasses"),
        *(f"{verb} {kind}" for kind in JOBS for verb in ("get", "list", "watch", "patch")),
        *(f"{verb} {kind}" for kind in (*OWNERS, *QUEUES, "namespaces") for verb in ("list", "watch")),
        *(f"{verb} {kind}/status" for kind in REPORTED for verb in ("get", "patch")),
        *("create workloads", "get workloads", "patch workloads", "patch workloads/status"),
        *("list leases", "list queues", "watch queues"),
    } - {"list trainjobs", "watch trainjobs"}, "each is read in its JobSet"


DEVICES = (
    "deviceclasses",
    "devicetaintrules",
    "resourceslices",
    "resourceclaims",
    "resourceclaimtemplates",
    "computedomains",
)
STORAGE = ("storageclasses", "csidrivers", "csistoragecapacities")
OWNERS = ("statefulsets", "deployments", "replicasets", "leaderworkersets")
REPORTED = ("cohorts", "clusterqueues", "localqueues")
"""The resources whose status Muster writes."""
QUEUES = (*REPORTED, "topologies", "resourceflavors", "workloadpriorityclasses")
JOBS = tuple(kind.plural for kind in KINDS)


def resources_of(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The API groups and resources that the rules name."""
    return {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}


def test_the_jobs_that_are_suspended_can_be_started() -> None:
    """The kinds are the same in the role, in the policy that suspends them, and in the one on the extender's writes."""
    role, judge = documents("base/rbac-extender.yaml")[0], documents("base/extender-policy-jobs.yaml")[0]
    policy = documents("components/job-admission/jobs.yaml")[0]
    written = [rule for rule in role["rules"] if "patch" in rule["verbs"]]
    rules = [written, *(manifest["spec"]["matchConstraints"]["resourceRules"] for manifest in (judge, policy))]
    known = {(kind.group, kind.plural) for kind in KINDS}
    for name, listed in zip(("rbac-extender.yaml", "extender-policy-jobs.yaml", "jobs.yaml"), rules, strict=True):
        assert known - resources_of(listed) == set(), f"{name} lacks these kinds of extender/kube/kinds/registry.py"
    in_policies = [{pair for pair in resources_of(listed) if pair[1] in JOBS} for listed in rules]
    assert in_policies == [known] * 3


@pytest.mark.parametrize("name", ["snapshot-role/role.yaml", "release-role/roles.yaml"])
def test_the_roles_of_commands_have_every_kind(name: str) -> None:
    """A TrainJob is read in its JobSet."""
    known = {(kind.group, kind.plural) for kind in KINDS if kind.shown_in is None}
    lacking = known - resources_of(documents(f"components/{name}")[0]["rules"])
    assert lacking == set(), f"manifests/components/{name} lacks these kinds"


@pytest.mark.parametrize("name", ["examples/job-annotations.yaml", "examples/job-podgroup.yaml"])
def test_an_example_is_one_gang_of_the_size_it_says(name: str, settings: dict[str, Any]) -> None:
    docs = {d["kind"]: d for d in documents(name)}
    spec = docs["Job"]["spec"]
    template = spec["template"]
    assert template["spec"]["schedulerName"] in settings["scheduler_names"]
    assert spec["completions"] == spec["parallelism"]
    annotations = template["metadata"].get("annotations", {})
    if "PodGroup" in docs:
        group = docs["PodGroup"]
        assert template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
        assert group["spec"]["minMember"] == spec["parallelism"]
    else:
        assert annotations["muster.dev/pod-group"] == docs["Job"]["metadata"]["name"]
        assert annotations["muster.dev/min-member"] == str(spec["parallelism"])
