"""The demands of pods on other pods, as the API server shows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.kube.convert import pod_from
from extender.kube.reading.constraints import MOST_PORTS, MOST_TERMS, TOO_ENTANGLED
from extender.kube.reading.objects import PodObject
from extender.kube.recent import pod_sent
from policies.model import UNCONSTRAINED, Constraints, HostPort, Pod, Preferred, Requirement, Spread, Term
from policies.model.constraints import NAMESPACE_NAME, selects

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TRAIN = Requirement("app", "In", ("train",))


def pod(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    meta = {"name": "p", "namespace": "team", "uid": "u", "labels": labels, "annotations": annotations}
    return pod_from(msgspec.convert({"metadata": meta, "spec": spec}, PodObject))


def near(*terms: Any, kind: str = "podAffinity") -> dict[str, Any]:
    return {kind: {REQUIRED: list(terms)}}


def term(**said: Any) -> Term:
    return pod({"app": "train"}, affinity=near({"topologyKey": ZONE, **said})).constraints.affinity[0]


def ports(*said: dict[str, Any], **spec: Any) -> tuple[HostPort, ...]:
    return pod(containers=[{"ports": list(said)}], **spec).constraints.ports


def spread(labels: dict[str, str] | None = None, **said: Any) -> Spread:
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **said}
    return pod(labels, topologySpreadConstraints=[constraint]).constraints.spread[0]


def test_a_pod_that_demands_nothing_of_others_shares_one_object() -> None:
    assert pod().constraints is UNCONSTRAINED
    assert pod(containers=[{"ports": [{"containerPort": 80}]}]).constraints is UNCONSTRAINED
    assert pod(affinity={"podAffinity": {PREFERRED: [{"weight": 1}]}}).constraints is UNCONSTRAINED
    nothing = {"preferred": {"weight": 1, "preference": {}}, "spread": {"topologyKey": ZONE, "maxSkew": 1}}
    assert pod(affinity={"nodeAffinity": {PREFERRED: [nothing["preferred"]]}}).constraints is UNCONSTRAINED
    assert pod(topologySpreadConstraints=[nothing["spread"]]).constraints is UNCONSTRAINED


def test_equal_constraints_are_one_object() -> None:
    affinity = near({"topologyKey": ZONE, "labelSelector": {}})
    assert pod(affinity=affinity).constraints is pod(affinity=affinity).constraints


def test_the_labels_are_sorted_and_equal_pairs_are_one_object() -> None:
    first, second = pod({"b": "2", "a": "1"}).labels, pod({"a": "1"}).labels
    assert first == (("a", "1"), ("b", "2"))
    assert first[0] is second[0]


def test_host_ports() -> None:
    assert ports({"containerPort": 80}, {"hostPort": 0}) == ()
    assert ports({"hostPort": 80}) == (HostPort(80),)
    assert ports({"hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"}) == (HostPort(80, "UDP", "10.0.0.1"),)
    assert ports({"hostPort": 80, "hostIP": ""}, {"hostPort": 80, "hostIP": "0.0.0.0"}) == (HostPort(80),)  # noqa: S104


def test_on_the_hosts_network_a_port_of_a_container_is_one_of_the_host() -> None:
    assert ports({"containerPort": 29500}, hostNetwork=True) == (HostPort(29500),)
    assert ports({"containerPort": 29500, "hostPort": 29500}, hostNetwork=True) == (HostPort(29500),)


def test_init_containers_take_ports_only_as_sidecars() -> None:
    taken = {"ports": [{"hostPort": 80}]}
    assert pod(initContainers=[taken]).constraints.ports == ()
    assert pod(initContainers=[{**taken, "restartPolicy": "Always"}]).constraints.ports == (HostPort(80),)


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.1"), True),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
    ],
)
def test_ports_conflict_as_in_kube_scheduler(one: HostPort, other: HostPort, conflict: bool) -> None:
    assert one.conflicts(other) is other.conflicts(one) is conflict


def test_an_absent_selector_selects_no_pod_and_an_empty_one_every_pod() -> None:
    assert term().selector is None
    assert term(labelSelector={}).selector == ()
    assert not selects(None, {})
    assert selects((), {})


def test_a_selector_requires_all_that_it_says() -> None:
    label_selector = {"matchLabels": {"app": "train"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
    selector = term(labelSelector=label_selector).selector
    assert selector == (TRAIN, Requirement("old", "DoesNotExist", ()))
    assert selects(selector, {"app": "train"})
    assert not selects(selector, {"app": "train", "old": ""})


@pytest.mark.parametrize(
    ("operator", "values", "labels", "selected"),
    [
        ("In", ("a",), {"key": "a"}, True),
        ("In", ("a",), {}, False),
        ("NotIn", ("a",), {"key": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("Exists", (), {"key": ""}, True),
        ("Exists", (), {}, False),
        ("DoesNotExist", (), {}, True),
        ("Gt", ("1",), {"key": "2"}, False),
    ],
)
def test_requirements_are_those_of_label_selectors(
    operator: str, values: tuple[str, ...], labels: dict[str, str], selected: bool
) -> None:
    assert selects((Requirement("key", operator, values),), labels) is selected


def test_the_namespaces_of_a_term() -> None:
    def meant(affinity_term: Term, namespace: str, **about: str) -> bool:
        return affinity_term.matches(namespace, {}, {NAMESPACE_NAME: namespace, **about})

    own, named = term(labelSelector={}), term(labelSelector={}, namespaces=["b", "a"])
    assert [meant(own, name) for name in ("team", "a")] == [True, False]
    assert named.namespaces == ("a", "b")
    assert [meant(named, name) for name in ("team", "a")] == [False, True]
    everywhere = term(labelSelector={}, namespaceSelector={})
    assert [meant(everywhere, name) for name in ("team", "a")] == [True, True]
    chosen = term(labelSelector={}, namespaceSelector={"matchLabels": {"tier": "gold"}}, namespaces=["a"])
    assert [meant(chosen, "team"), meant(chosen, "a"), meant(chosen, "x", tier="gold")] == [False, True, True]


def test_label_keys_are_merged_into_the_selector_of_a_template_and_not_twice() -> None:
    selector = term(labelSelector={}, matchLabelKeys=["app", "absent"]).selector
    assert selector == (TRAIN,)
    assert term(labelSelector={"matchLabels": {"app": "train"}}, matchLabelKeys=["app"]).selector == (TRAIN,)
    assert term(labelSelector={}, mismatchLabelKeys=["app"]).selector == (Requirement("app", "NotIn", ("train",)),)
    assert term(matchLabelKeys=["app"]).selector is None


def test_spread_constraints_and_their_defaults() -> None:
    assert spread(labelSelector={}) == Spread(ZONE, 1, ())
    constraint = spread(maxSkew=2, minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
    assert constraint == Spread(ZONE, 2, None, 3, honors_affinity=False, honors_taints=True)
    assert spread({"app": "train"}, labelSelector={}, matchLabelKeys=["app"]).selector == (TRAIN,)


def test_what_is_preferred_is_read_with_its_weights_and_demands_nothing() -> None:
    wanted = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]}
    base = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "train"}}}
    demands = pod(
        affinity={
            "nodeAffinity": {PREFERRED: [{"weight": 5, "preference": wanted}, {"weight": 0, "preference": wanted}]},
            "podAffinity": {PREFERRED: [{"weight": 7, "podAffinityTerm": base}]},
            "podAntiAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": base}]},
        },
        topologySpreadConstraints=[{**base, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
    ).constraints
    near_train = Term(ZONE, (TRAIN,), ("team",))
    assert not demands
    assert demands.preferred == Preferred(
        ((5, (Requirement("pool", "In", ("x",)),)),), ((7, near_train), (-9, near_train)), (Spread(ZONE, 1, (TRAIN,)),)
    )


def test_what_is_too_much_to_look_at_is_not_preferred() -> None:
    weighted = {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {}}}
    assert (
        len(pod(affinity={"podAffinity": {PREFERRED: [weighted] * MOST_TERMS}}).constraints.preferred.pods)
        == MOST_TERMS
    )
    assert pod(affinity={"podAffinity": {PREFERRED: [weighted] * (MOST_TERMS + 1)}}).constraints is UNCONSTRAINED
    weighted["podAffinityTerm"] = {"topologyKey": ZONE, "namespaces": [f"n{at}" for at in range(300)]}
    assert pod(affinity={"podAffinity": {PREFERRED: [weighted]}}).constraints is UNCONSTRAINED


def test_a_spread_with_an_empty_selector_counts_no_pod() -> None:
    assert not Spread(ZONE, 1, ()).counts({"app": "train"})
    assert Spread(ZONE, 1, (TRAIN,)).counts({"app": "train"})
    assert not Spread(ZONE, 1, None).counts({})


def test_a_changed_label_changes_what_a_pod_that_is_seen_again_demands() -> None:
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    spec = {"topologySpreadConstraints": [{**constraint, "matchLabelKeys": ["app"]}]}
    for app in ("train", "serve"):
        meta = {"name": "p", "namespace": "team", "uid": "again", "labels": {"app": app}}
        seen_again = pod_sent(msgspec.Raw(msgspec.json.encode({"metadata": meta, "spec": spec})))
        assert seen_again is not None
        assert seen_again.constraints.spread[0].selector == (Requirement("app", "In", (app,)),)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": near(*[{"topologyKey": ZONE}] * (MOST_TERMS + 1))},
        {"containers": [{"ports": [{"hostPort": 1 + at} for at in range(MOST_PORTS + 1)]}]},
        {"affinity": near({"topologyKey": ZONE, "namespaces": [f"n{at}" for at in range(300)]})},
    ],
)
def test_what_is_too_much_to_look_at_is_a_problem_of_the_gang(spec: dict[str, Any]) -> None:
    annotations = {"muster.dev/pod-group": "g", "muster.dev/min-member": "2"}
    converted = pod(annotations=annotations, **spec)
    assert converted.constraints == Constraints()
    assert converted.group is not None
    assert converted.group.problem == TOO_ENTANGLED
