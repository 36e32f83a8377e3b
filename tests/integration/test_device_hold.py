"""The remains of a gang that gets its devices and goes no further, on a real control plane.

A toll gate behind Muster keeps the last member from its devices: the others have theirs, and are held at bind. Each
gang has a ComputeDomain and takes all GPUs and channels of the rack, so whatever stays blocks the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from devcluster import Cluster
from devcluster.api import ApiError
from devcluster.muster import MANIFESTS, RunningMuster, install_gate, start_muster
from devcluster.nvidia import NvidiaDriver
from devcluster.nvidia.objects import GPU, LABEL
from tests.integration.stage import PATIENCE_S, RealStage
from tests.integration.tollgate import TollGate
from tests.scenarios.pods import bound, gang
from tests.scenarios.stage import Object

RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS, SLICES = f"{RESOURCE}/resourceclaims", f"{RESOURCE}/resourceslices"
ADMISSION, REFUSAL = "/apis/admissionregistration.k8s.io/v1/validatingadmission", "no-bindings-of-this-gang"
NODES, GPUS, TURNS = 3, 4, 20


@pytest.fixture(scope="module")
def tollgate() -> Iterator[TollGate]:
    with TollGate() as gate:
        yield gate


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> NvidiaDriver:
    return NvidiaDriver(cluster)


@pytest.fixture(scope="module")
def muster(cluster: Cluster, driver: NvidiaDriver, tollgate: TollGate) -> RunningMuster:
    running = start_muster(cluster, other_extenders=[tollgate.entry])
    install_gate(cluster)
    return running


@pytest.fixture
def stage(cluster: Cluster, muster: RunningMuster, driver: NvidiaDriver, tollgate: TollGate) -> Iterator[RealStage]:
    """A rack, and a template for all GPUs of a node."""
    with RealStage(cluster, muster, tollgate) as real_stage:
        driver.publish(real_stage.add_nodes(NODES, gpus=0, clique="rack"), gpus=GPUS)
        request = {"name": "gpus", "exactly": {"deviceClassName": GPU, "count": GPUS}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        path = f"{RESOURCE}/namespaces/{real_stage.namespace}/resourceclaimtemplates"
        real_stage.api.create(path, {"metadata": {"name": "gpus"}, "spec": spec})
        yield real_stage
        real_stage.let_scheduler_go_on()
        real_stage.api.delete(
            f"/apis/batch/v1/namespaces/{real_stage.namespace}/jobs", {"propagationPolicy": "Background"}
        )
        real_stage.api.delete(real_stage.pods_path, {"gracePeriodSeconds": 0})
        until_nothing_is_left(real_stage)
        real_stage.api.delete(domains_of(real_stage))
    cluster.api.delete(SLICES)


@pytest.fixture
def device_release(cluster: Cluster) -> Iterator[None]:
    """Give Muster the right to take devices back, for one test."""
    component = str(MANIFESTS / "components" / "device-release")
    cluster.kubectl("apply", "--server-side", "-k", component)
    yield
    cluster.kubectl("delete", "-k", component)


def domains_of(stage: RealStage) -> str:
    """Return the path of the stage's ComputeDomains."""
    return f"/apis/resource.nvidia.com/v1beta1/namespaces/{stage.namespace}/computedomains"


def claims_of(name: str, stage: RealStage, size: int) -> list[Object]:
    """Create a ComputeDomain, and return the claims of its pods: all GPUs of a node, and the channel there."""
    spec = {"numNodes": size, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}}
    kind = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain"}
    stage.api.create(domains_of(stage), kind | {"metadata": {"name": name}, "spec": spec})
    return [
        {"name": "gpus", "resourceClaimTemplateName": "gpus"},
        {"name": "channel", "resourceClaimTemplateName": f"{name}-channel"},
    ]


def with_domain(name: str, stage: RealStage, size: int = NODES) -> list[Object]:
    """A gang with a ComputeDomain, whose pods take a node each."""
    return gang(name, size, gpus=0, resourceClaims=claims_of(name, stage, size))


def job_with_domain(name: str, stage: RealStage) -> Object:
    """A suspended job of such pods, which Muster is to start."""
    (first, *_) = with_domain(name, stage)
    home = {"schedulerName": "muster", "nodeSelector": {"stage": stage.namespace}, "restartPolicy": "Never"}
    how = {"completionMode": "Indexed", "completions": NODES, "parallelism": NODES, "suspend": True}
    meta = {"name": name, "labels": {"muster.dev/gang": "true"}}
    return {"metadata": meta, "spec": how | {"template": {"spec": first["spec"] | home}}}


def until_caught(stage: RealStage, tollgate: TollGate) -> None:
    """Return when all pods but the last have their devices and are held at bind."""
    tollgate.wait_stopped()
    stage.until_held(lambda count: count == NODES - 1)
    assert len(in_use(stage.api.list(CLAIMS))) == 2 * (NODES - 1)


def in_use(claims: list[Object]) -> list[Object]:
    """Return the claims that have devices, or are reserved for a pod."""
    return [claim for claim in claims if claim.get("status", {}).keys() & {"allocation", "reservedFor"}]


def until_nothing_is_left(stage: RealStage) -> None:
    """Return when no claim has devices, and no node is labelled for a ComputeDomain."""
    stage.api.wait_for(CLAIMS, lambda claims: not in_use(claims), PATIENCE_S)
    stage.api.wait_for(
        "/api/v1/nodes", lambda nodes: all(LABEL not in node["metadata"]["labels"] for node in nodes), PATIENCE_S
    )


def until_started(name: str, stage: RealStage, size: int = NODES) -> None:
    """Return when the gang is bound, with devices on a node for each pod; no other claim has any."""
    pods = stage.until(lambda pods: len(bound(pods, name)) == size)
    assert len({pod.node for pod in bound(pods, name)}) == size
    used = in_use(stage.api.list(CLAIMS))
    assert all(claim["status"].keys() >= {"allocation", "reservedFor"} for claim in used)
    assert len(used) == 2 * size


def test_a_gang_that_is_killed_between_its_devices_and_its_bindings_leaves_nothing(
    stage: RealStage, tollgate: TollGate
) -> None:
    stage.stop_scheduler_after(NODES - 1)
    stage.create_all(with_domain("train", stage))
    until_caught(stage, tollgate)
    stage.api.delete(stage.pods_path, {"gracePeriodSeconds": 0})
    stage.let_scheduler_go_on()
    until_nothing_is_left(stage)
    stage.create_all(with_domain("next", stage))
    until_started("next", stage)


def test_a_job_that_is_suspended_after_its_devices_leaves_nothing(stage: RealStage, tollgate: TollGate) -> None:
    """Muster needs no right for that: the job controller deletes the pods, and their claims vanish with them."""
    stage.stop_scheduler_after(NODES - 1)
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job_with_domain("train", stage))
    until_caught(stage, tollgate)
    lost, *_ = stage.cliques
    stage.cordon(lost)
    stage.let_scheduler_go_on()
    stage.until(lambda pods: not pods)
    until_nothing_is_left(stage)
    stage.create_all(with_domain("next", stage, NODES - 1))
    until_started("next", stage, NODES - 1)


@pytest.mark.usefixtures("device_release")
def test_a_gang_that_loses_a_member_after_its_devices_leaves_nothing(stage: RealStage, tollgate: TollGate) -> None:
    stage.stop_scheduler_after(NODES - 1)
    stage.create_all(with_domain("train", stage))
    until_caught(stage, tollgate)
    stage.delete("train-0")
    stage.let_scheduler_go_on()
    until_nothing_is_left(stage)
    assert len(stage.pods()) == NODES - 1, "they wait"
    stage.create_all(with_domain("next", stage))
    until_started("next", stage)


@pytest.mark.usefixtures("device_release")
def test_a_gang_whose_bindings_fail_leaves_nothing(stage: RealStage, tollgate: TollGate) -> None:
    stage.stop_scheduler_after(NODES - 1)
    stage.create_all(with_domain("train", stage))
    until_caught(stage, tollgate)
    with refusing_bindings("train", stage):
        stage.create_all(with_domain("next", stage))
        stage.let_scheduler_go_on()
        until_started("next", stage)
    assert len(stage.pods()) == 2 * NODES, "the others wait"


@contextmanager
def refusing_bindings(name: str, stage: RealStage) -> Iterator[None]:
    """Have the API server refuse the Bindings of the gang for the time of the block."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    check = {"expression": f"!request.name.startsWith('{name}-')", "message": REFUSAL}
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    binding = {"policyName": REFUSAL, "validationActions": ["Deny"]}
    made = {"policies": policy, "policybindings": binding}
    for kind, spec in made.items():
        stage.api.create(f"{ADMISSION}{kind}", {"metadata": {"name": REFUSAL}, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": next(iter(stage.cliques))}
    trial = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"{name}-0"}, "target": target}

    def is_in_force() -> bool:
        try:
            stage.api.create(f"{stage.pods_path}/{name}-0/binding?dryRun=All", trial)
        except ApiError as refusal:
            return REFUSAL in str(refusal)
        return False

    try:
        stage.wait(is_in_force, bool)
        yield
    finally:
        for kind in made:
            stage.api.delete(f"{ADMISSION}{kind}/{REFUSAL}")


def test_two_gangs_alternate_on_one_rack_and_the_last_starts_like_the_first(stage: RealStage) -> None:
    gangs = {name: with_domain(name, stage) for name in ("even", "odd")}
    running, waiting = gangs
    stage.create_all(gangs[running])
    for _ in range(TURNS - 1):
        until_started(running, stage)
        stage.create_all(gangs[waiting])
        stage.until_told(waiting, lambda seen: seen.state == "NoRoom")
        stage.delete(*(pod["metadata"]["name"] for pod in gangs[running]))
        running, waiting = waiting, running
    until_started(running, stage)
    story = [entry for _, entry in stage.gangs()[running].story]
    assert not any(entry.startswith("Forgotten") for entry in story), story
    stage.api.delete(stage.pods_path, {"gracePeriodSeconds": 0})
    until_nothing_is_left(stage)
