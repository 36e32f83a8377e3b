"""The rights of the shipped pod and the clients that reach it, as far as the manifests alone can tell."""

from typing import Any

import pytest

from tests.test_manifests import document, documents

READERS = (
    "base/rbac-extender.yaml",
    *(
        f"components/{role}"
        for role in ("snapshot-role/role.yaml", "doctor-role/roles.yaml", "release-role/roles.yaml")
    ),
)
POLICIES = ["base/network-policy.yaml", "base/disruption-budget.yaml"]


@pytest.fixture
def pod() -> dict[str, Any]:
    template: dict[str, Any] = document("base/deployment.yaml")["spec"]["template"]
    return template


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_selects_the_pods_of_the_deployment(name: str, pod: dict[str, Any]) -> None:
    spec = document(name)["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert document(name)["metadata"]["namespace"] == document("base/deployment.yaml")["metadata"]["namespace"]
    assert name.removeprefix("base/") in document("base/kustomization.yaml")["resources"]


def test_from_outside_only_the_metrics_of_kube_scheduler_can_be_reached(pod: dict[str, Any]) -> None:
    policy = document("base/network-policy.yaml")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ports = {
        port["name"]: port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
    }
    [rule] = policy["ingress"]
    assert [port["port"] for port in rule["ports"]] == [ports["metrics"]]
    assert all(port["port"] in (443, 6443) for rule in policy["egress"] for port in rule["ports"])


def test_the_pod_shares_nothing_with_its_node(pod: dict[str, Any]) -> None:
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod["spec"])
    assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {kind for volume in pod["spec"]["volumes"] for kind in volume if kind != "name"} <= {
        *("configMap", "projected", "emptyDir")
    }


def test_every_container_says_what_it_needs_and_what_it_may_take(pod: dict[str, Any]) -> None:
    for container in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]:
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        # Not of the processor: being throttled in the middle of a question would hold up all scheduling.
        assert set(container["resources"]["limits"]) == {"memory"}


def test_nothing_is_granted_by_a_wildcard_and_nothing_reads_secrets() -> None:
    for name in READERS:
        for role in documents(name):
            for rule in role.get("rules", []):
                assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
                assert "secrets" not in rule["resources"]
