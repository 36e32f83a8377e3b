"""The pods on nodes by the demands of others on them: the indexes that are kept up to date agree with a fresh look."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from policies.model import Constraints, HostPort, Pod, Requirement, Selector, Spread, Term
from policies.model.constraints import NAMESPACE_NAME, selects
from policies.placement.tenants import Tenants
from policies.steps import finish
from tests.builders import single
from tests.effort import calls
from tests.policies.tenants import validate_tenants

TRAIN: Selector = (Requirement("app", "In", ("train",)),)


def near(selector: Selector = TRAIN, *namespaces: str, elsewhere: Selector = None) -> Term:
    return Term("zone", selector, namespaces, elsewhere)


def names(tenants: Tenants, *terms: Term) -> list[str]:
    return sorted(tenant.name for tenant in finish(tenants.meant(terms)))


def test_all_terms_have_to_mean_a_pod() -> None:
    tenants = Tenants()
    for name, labels in (("one", (("app", "train"),)), ("both", (("app", "train"), ("old", "")))):
        tenants.put(name, single(name, labels=labels), "n0")
    old = near((Requirement("old", "Exists", ()),), "default")
    assert names(tenants, near(TRAIN, "default")) == ["both", "one"]
    assert names(tenants, near(TRAIN, "default"), old) == names(tenants, old) == ["both"]
    assert names(tenants, near(TRAIN, "other")) == names(tenants) == []


def test_namespaces_are_selected_by_name_and_by_what_is_known_of_them() -> None:
    tenants = Tenants()
    tenants.put("one", replace(single("one"), namespace="gold"), "n0")
    named = near((), elsewhere=(Requirement(NAMESPACE_NAME, "In", ("gold",)),))
    tiered = near((), elsewhere=(Requirement("tier", "In", ("1",)),))
    assert names(tenants, named) == names(tenants, near((), elsewhere=())) == ["one"]
    assert names(tenants, tiered) == []
    assert tenants.describe("gold", ((NAMESPACE_NAME, "gold"), ("tier", "1")))
    assert names(tenants, tiered) == names(tenants, named) == ["one"]
    assert not tenants.describe("gold", (("tier", "1"),))
    assert tenants.describe("gold", ())
    assert not tenants.describe("gold", ((NAMESPACE_NAME, "gold"),))
    assert (names(tenants, tiered), names(tenants, named)) == ([], ["one"])


def test_pods_that_are_being_deleted_count_for_affinity_and_for_no_spread() -> None:
    tenants, spread = Tenants(), Spread("zone", 1, TRAIN)
    tenants.put("one", single("one", labels=(("app", "train"),), deleting=True), "n0")
    assert names(tenants, near(TRAIN, "default")) == ["one"]
    assert finish(tenants.counted(spread, "default")) == []
    tenants.put("one", single("one", labels=(("app", "train"),)), "n0")
    assert [tenant.name for tenant in finish(tenants.counted(spread, "default"))] == ["one"]
    assert finish(tenants.counted(Spread("zone", 1, ()), "default")) == []


def test_whom_anti_affinity_keeps_away() -> None:
    tenants = Tenants()
    shy = Constraints(anti_affinity=(near(TRAIN, "default"),))
    tenants.put("shy", single("shy", constraints=shy), "n0")
    assert tenants.repels("default")
    assert not tenants.repels("other")
    terms = [term for term, _ in tenants.repelling(single("x", labels=(("app", "train"),)))]
    assert terms == list(shy.anti_affinity)
    assert not list(tenants.repelling(single("x")))
    tenants.drop("shy")
    assert not tenants.repels("default")


@pytest.mark.parametrize("seed", range(20))
def test_indexes_follow_whoever_comes_moves_and_goes(seed: int) -> None:
    chance, tenants, there = Random(seed), Tenants(), dict[str, Pod]()
    for _ in range(200):
        name = f"p{chance.randint(0, 9)}"
        if chance.random() < 0.3:
            there.pop(name, None)
            tenants.drop(name)
        else:
            there[name] = pod = _pod(chance, name)
            tenants.put(name, pod, chance.choice(["n0", "n1"]))
        if chance.random() < 0.3:
            value = (Requirement("app", "In", (chance.choice(["train", "data"]),)),)
            expected = [
                tenant for tenant in there.values() if tenant.namespace == "a" and selects(value, dict(tenant.labels))
            ]
            assert names(tenants, near(value, "a")) == sorted(tenant.name for tenant in expected)
        validate_tenants(tenants)
    assert {owner for owner, _ in tenants} == set(there)
    port = HostPort(80)
    taking = [tenant.name for tenant in there.values() if port in tenant.constraints.ports]
    assert sorted(tenant.name for tenant in tenants.taking(port)) == sorted(taking)


@pytest.mark.parametrize("seed", range(5))
def test_an_index_follows_whoever_comes_and_goes_while_it_is_made(seed: int) -> None:
    chance, tenants, there = Random(seed), Tenants(), dict[str, Pod]()

    def change(name: str) -> None:
        if there.pop(name, None) is not None:
            tenants.drop(name)
        else:
            there[name] = pod = single(name, labels=(("app", chance.choice(["train", "data"])),))
            tenants.put(name, pod, "n0")

    for number in range(2000):
        change(f"p{number}")
    steps = tenants.meant((near(TRAIN, "default"),))
    for _ in steps:
        for _ in range(20):
            change(f"p{chance.randint(0, 2999)}")
        expected = {pod.name for pod in there.values() if pod.labels == (("app", "train"),)}
        if chance.random() < 0.3:
            assert set(names(tenants, near(TRAIN, "default"))) == expected
    assert set(names(tenants, near(TRAIN, "default"))) == expected
    validate_tenants(tenants)


def _pod(chance: Random, name: str) -> Pod:
    labels = tuple(("app", value) for value in ("train", "data") if chance.random() < 0.5)[:1]
    ports = (HostPort(80),) if chance.random() < 0.2 else ()
    terms = (near(TRAIN, "a"),) if chance.random() < 0.2 else ()
    constraints = Constraints(ports, anti_affinity=terms)
    return replace(single(name, labels=labels, constraints=constraints), namespace=chance.choice("ab"))


def test_a_label_that_nobody_has_is_looked_for_once_and_few_of_them_are_kept_in_mind() -> None:
    tenants = Tenants()
    for number in range(500):
        tenants.put(number, single(f"pod-{number}", labels=(("app", "web"),)), "n1")

    def look(key: str) -> None:
        assert not finish(tenants.meant((Term("zone", (Requirement(key, "In", ("x",)),), ("default",)),)))

    look("job")
    assert calls(lambda: look("job")) < 50
    for number in range(100):
        look(f"key-{number}")
    assert len(tenants._indexes["default"]) < 10
    tenants.put("last", single("last", labels=(("job", "x"),)), "n1")
    validate_tenants(tenants)
