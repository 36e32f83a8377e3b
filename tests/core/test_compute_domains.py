"""Gangs in a ComputeDomain of NVIDIA's driver: one clique, a channel on each node, no node of another domain."""

from __future__ import annotations

from dataclasses import replace

from extender.api.models import DeviceStock
from extender.core.events import (
    ClaimTemplateGone,
    ClaimTemplateSeen,
    ComputeDomainGone,
    ComputeDomainsListed,
    NodeSeen,
)
from extender.core.limits import Limits
from extender.observe.topology import compute_domains, domains
from policies.model import CLIQUE, Dialect, GroupRef, Node, Pod, PodSet, Requirement, Selection, Topology
from policies.model.devices import ClaimTemplate, ClaimUse
from tests.builders import coscheduled, gang, requests, single
from tests.core.compute_domains import (
    CHANNEL,
    LABEL,
    allocated,
    domain,
    fabric,
    in_domain,
    racks,
    racks_of,
    spec,
    template,
)
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster
from tests.core.script import Script
from tests.policies.devices.vendors import IMEX


def cliques(script: Script, pods: list[Pod]) -> list[str]:
    """The clique that each pod is planned in; empty without one."""
    nodes = script.core.state.claims.nodes
    return [nodes[node].labels.get(CLIQUE, "") if (node := script.planned(pod)) else "-" for pod in pods]


def relabel(script: Script, name: str, **labels: str | None) -> None:
    """The API server shows the node with these labels; None takes one off."""
    node = script.core.state.claims.nodes[name]
    keys = {"domain": LABEL, "clique": CLIQUE}
    changed = dict(node.labels) | {keys[key]: value for key, value in labels.items() if value is not None}
    for key in [keys[key] for key, value in labels.items() if value is None]:
        changed.pop(key, None)
    script.feed(NodeSeen(replace(node, labels=changed)))
    script.advance(1.0)


def test_its_members_go_to_one_clique_and_have_a_channel_each() -> None:
    script = racks("a: 3x4", "b: 4x4", domains=("train", "more"))
    train = in_domain("train", 4, gpus=1)
    script.see(train)
    assert cliques(script, train) == ["b"] * 4
    assert len({script.planned(pod) for pod in train}) == 4, "a node has one channel, whatever GPUs are left"
    more = in_domain("more", 4, gpus=1)
    script.see(more)
    assert script.reason("more") == "NoRoom"
    assert "1 device of compute-domain-default-channel.nvidia.com" in script.message("more")


def test_sixteen_of_eighteen_nodes_leave_two_spare_nodes_to_others() -> None:
    script = racks("a: 18x4", "b: 18x4", domains=("one", "two"))
    first, two = in_domain("one", 16), in_domain("two", 16)
    script.see(first, two)
    assert {*cliques(script, first)} == {"a"}
    assert {*cliques(script, two)} == {"b"}
    spare = [*gang("spare-1", 2, gpus=4), *gang("spare-2", 2, gpus=4)]
    script.see(spare)
    assert sorted(cliques(script, spare)) == ["a", "a", "b", "b"]


def test_a_clique_is_preferred_unless_an_annotation_requires_it() -> None:
    script = racks("a: 2x4", "b: 2x4", domains=("train", "must"))
    must = in_domain("must", 3, topology=Topology(CLIQUE))
    script.see(must)
    assert script.reason("must") == "NoRoom"
    train = in_domain("train", 3)
    script.see(train)
    assert sorted(cliques(script, train)) in (["a", "a", "b"], ["a", "b", "b"]), "as few as hold it"


def test_a_setting_requires_a_clique_of_those_who_say_nothing() -> None:
    script = racks("a: 2x4", "b: 2x4", domains=("train", "free"), limits=Limits(clique_of_domains=True))
    script.see(in_domain("train", 3), in_domain("free", 3, topology=Topology("none")), gang("none", 3, gpus=1))
    assert script.reason("train") == "NoRoom"
    assert "required nvidia.com/gpu.clique" in script.message("train")
    assert script.reason("free") == script.reason("none") == "Placed"


def test_no_member_goes_to_a_node_that_is_prepared_for_another_domain() -> None:
    script = racks("a: 2x4", domains=("train", "other"))
    relabel(script, "a-0", domain="uid-other")
    train = in_domain("train", 2)
    script.see(train)
    assert script.reason("train") == "NoRoom"
    assert f"1 node is prepared for another ComputeDomain (a-0: label {LABEL})" in script.message("train")
    relabel(script, "a-0", domain="uid-train")
    assert sorted(script.planned(pod) for pod in train) == ["a-0", "a-1"], "its own label keeps nobody away"


def test_a_node_that_is_prepared_for_another_domain_meanwhile_takes_the_plan_back() -> None:
    script = racks("a: 2x4", "b: 2x4", domains=("train", "other"))
    train = in_domain("train", 2)
    script.see(train)
    assert cliques(script, train) == ["a", "a"]
    relabel(script, "a-1", domain="uid-other")
    assert cliques(script, train) == ["b", "b"]


def test_where_hosts_run_the_imex_service_labels_mean_nothing() -> None:
    script = racks("a: 2x4", domains=("train",), host_managed=True)
    relabel(script, "a-0", domain="uid-of-the-past")
    train = in_domain("train", 2)
    script.see(train)
    assert sorted(script.planned(pod) for pod in train) == ["a-0", "a-1"], "one channel a node still"


def with_pods(node: Node, most: int) -> Node:
    return replace(node, allocatable=tuple((name, most if name == "pods" else much) for name, much in node.allocatable))


def test_room_is_left_for_the_daemon_of_the_domain() -> None:
    script = racks("a: 2x4", domains=("train",))
    for name in ("a-0", "a-1"):
        script.feed(NodeSeen(with_pods(script.core.state.claims.nodes[name], 2)))
    script.see(single("agent", gpus=0, cpu=0, node="a-0"))
    train = in_domain("train", 2)
    script.see(train)
    assert script.reason("train") == "NoRoom", "on a-0 the daemon would have no place beside its pod"
    script.gone(single("agent", gpus=0, cpu=0, node="a-0"))
    script.advance(1.0)
    assert sorted(script.planned(pod) for pod in train) == ["a-0", "a-1"]
    script.run(train)
    for number, pod in enumerate(train):
        script.feed(allocated(pod, "train", f"a-{number}"))
    script.see(*[daemon(f"a-{number}") for number in range(2)])
    assert script.reason("train") == "Running"


def daemon(node: str, cpu: int = 0) -> Pod:
    uses = (ClaimUse("daemon", "", "daemon-train"),)
    return replace(single(f"daemon-{node}", gpus=0, cpu=cpu, node=node), device_claims=uses)


def test_what_a_daemon_asks_for_is_learned_from_those_that_run() -> None:
    script = racks("a: 1x4", "b: 1x4", domains=("train",))
    script.feed(ClaimTemplateSeen(ClaimTemplate("default", "daemon-train", spec("uid-old", daemon=True))))
    script.see(daemon("plane-0", cpu=2))
    script.see(single("agent", gpus=0, cpu=62, node="a-0"))
    train = in_domain("train", 2)
    script.see(train)
    assert script.reason("train") == "NoRoom", "1 cpu is left of 64 on a-0 for a member and a daemon of 2"
    script.gone(single("agent", gpus=0, cpu=62, node="a-0"))
    script.advance(1.0)
    assert all(script.planned(pod) for pod in train)


def test_a_domain_that_is_not_there_is_the_reason() -> None:
    script = racks("a: 2x4")
    train = in_domain("train", 2)
    script.see(train)
    assert script.message("train") == "there is no ResourceClaimTemplate train-channel, which pod train-0 uses"
    script.feed(domain("train"))
    script.advance(1.0)
    text = "; ComputeDomain train is to have it made by its controller"
    assert script.message("train").endswith(f"which pod train-0 uses{text}")
    script.feed(ComputeDomainsListed(listed=True))
    script.feed(template("train"))
    script.advance(1.0)
    assert cliques(script, train) == ["a", "a"]
    script.feed(ComputeDomainGone("uid-train"))
    late = in_domain("late", 2, of="train")
    script.see(late)
    missing = (
        "there is no ComputeDomain with UID uid-train, which ResourceClaimTemplate train-channel of pod late-0 is for"
    )
    assert (script.reason("late"), script.message("late")) == ("ResourceClaims", missing)


def test_where_domains_cannot_be_read_none_is_missing() -> None:
    script = racks("a: 2x4")
    script.feed(template("train"))
    train = in_domain("train", 2)
    script.see(train)
    assert cliques(script, train) == ["a", "a"]


def test_a_domain_of_another_namespace_is_the_reason() -> None:
    script = racks("a: 2x4")
    script.feed(domain("train", namespace="team"))
    script.feed(template("train"))
    train = in_domain("train", 2)
    script.see(train)
    assert script.message("train") == (
        "ComputeDomain team/train is in another namespace than ResourceClaimTemplate train-channel of pod train-0, "
        "where no node prepares its channels"
    )


def launcher(name: str) -> Pod:
    """A pod without GPUs and claims that runs on the control plane alone, as in NVIDIA's nvbandwidth test."""
    plane = Selection(affinity=((Requirement("node-role.kubernetes.io/control-plane", "Exists", ()),),))
    return Pod(f"uid-{name}-launcher", "default", f"{name}-launcher", requests(0), selection=plane, series="launcher")


def test_a_launcher_without_a_claim_is_outside_of_the_clique_that_its_group_requires() -> None:
    script = racks("a: 3x4", "b: 2x4", domains=("train",))
    group, _ = coscheduled("train", 4, topology=Topology(CLIQUE))
    ref = GroupRef("train", Dialect.COSCHEDULING)
    workers = [replace(pod, group=ref) for pod in in_domain("train", 3, gpus=2)]
    first = replace(launcher("train"), group=ref)
    script.see(replace(group, topology=Topology(CLIQUE)), workers, [first])
    assert script.planned(first) == "plane-0"
    assert cliques(script, workers) == ["a"] * 3


def test_several_podsets_share_a_domain_and_the_launcher_has_none() -> None:
    script = racks("a: 2x4", "b: 4x4", domains=("train",))
    uses = (ClaimUse("channel", "", "train-channel"),)
    made = job(1, name="train", gpus=4)
    (first,) = made.podsets.podsets
    workers = [
        PodSet(replace(first.template, series=name, device_claims=uses), count, count, indexed=True)
        for name, count in (("head", 1), ("worker", 3))
    ]
    lead = replace(launcher("train"), uid="", name="train", owner="uid-train", group=first.template.group)
    podsets = replace(made.podsets, podsets=(PodSet(lead, 1, 1, indexed=True), *workers))
    train = Controlled(script, replace(made, podsets=podsets))
    train.wait(1)
    (start,) = train.starts
    assert sorted(node for nodes in start.plan.values() for node in nodes) == ["b-0", "b-1", "b-2", "b-3", "plane-0"]


def test_a_workload_goes_to_the_clique_of_another_one_in_its_domain() -> None:
    script = racks("a: 5x4", "b: 4x4", "c: 2x4", domains=("train",))
    first, second = in_domain("first", 3, of="train"), in_domain("second", 1, of="train")
    script.see(first)
    assert {*cliques(script, first)} == {"b"}
    script.see(second)
    assert cliques(script, second) == ["b"], "clique c has fewer nodes left, and none of its domain"
    third = in_domain("third", 2, of="train")
    script.see(third)
    assert {*cliques(script, third)} == {"c"}, "one clique is preferred to the room that is left in two"


def test_jobs_that_share_a_domain_go_to_one_clique_before_their_pods_exist() -> None:
    script = racks("a: 6x4", "b: 5x4", "c: 2x4", domains=("train",))
    uses = (ClaimUse("channel", "", "train-channel"),)
    started = []
    for name, count in (("prefill", 3), ("decode", 2)):
        made = job(count, name=name, gpus=4)
        (podset,) = made.podsets.podsets
        podset = replace(podset, template=replace(podset.template, device_claims=uses))
        started.append(Controlled(script, replace(made, podsets=replace(made.podsets, podsets=(podset,)))))
    nodes = []
    for controlled in started:
        controlled.wait(1)
        nodes += [node for planned in controlled.starts[0].plan.values() for node in planned]
    assert sorted(nodes) == ["b-0", "b-1", "b-2", "b-3", "b-4"]


def test_a_clique_that_two_workloads_of_a_domain_require_is_the_same_one() -> None:
    script = racks("a: 6x4", "b: 4x4", domains=("train", "other"))
    required = Topology(CLIQUE)
    first = in_domain("first", 3, of="train", topology=required)
    second = in_domain("second", 2, of="train", topology=required)
    script.see(first, second)
    assert {*cliques(script, first)} == {"b"}
    assert script.reason("second") == "NoRoom"
    other = in_domain("other", 2, topology=required)
    script.see(other)
    assert {*cliques(script, other)} == {"a"}, "another domain is not tied to that clique"
    script.gone(*first)
    script.advance(5.0)
    assert cliques(script, second) in (["a", "a"], ["b", "b"])


def test_no_workload_is_evicted_outside_of_the_clique_that_a_domain_requires() -> None:
    script = racks_of(Cluster, "a: 2x4", "b: 2x4", domains=("train",))
    required = Topology(CLIQUE)
    first = in_domain("first", 2, of="train", topology=required, priority=10)
    low = gang("low", 2, gpus=4)
    script.see(first)
    script.run(first)
    script.see(low)
    script.run(low)
    script.see(in_domain("second", 1, of="train", topology=required, priority=10))
    assert script.reason("second") == "NoRoom"
    assert not script.evicted
    script.see(in_domain("third", 1, of="train", priority=10))
    assert script.evicted, "a workload that prefers the clique goes elsewhere"


def test_a_clique_label_that_vanishes_while_pods_run_there_comes_back() -> None:
    script = racks("a: 3x4", "b: 2x4", domains=("train", "other"))
    train = in_domain("train", 2, topology=Topology(CLIQUE))
    script.see(train)
    first = cliques(script, train)
    script.run(train)
    clique = {*first}.pop()
    for name in [name for name in script.core.state.claims.nodes if name.startswith(clique)]:
        relabel(script, name, clique=None)
    script.gone(train[0])
    again = replace(train[0], uid="uid-again", name="train-0-again", node=None)
    script.see(again)
    assert cliques(script, [again]) == [clique], "on the node that it was on: no other is known to be in the clique"
    script.gone(train[1], again)
    script.advance(1.0)
    assert CLIQUE not in script.core.state.claims.nodes[f"{clique}-0"].labels, "nobody is there any more"


def test_a_clique_label_with_another_value_counts_at_once() -> None:
    script = racks("a: 1x4", domains=("train",))
    train = in_domain("train", 1)
    script.see(train)
    script.run(train)
    relabel(script, "a-0", clique="z")
    assert script.core.state.claims.nodes["a-0"].labels[CLIQUE] == "z"


def test_a_template_that_goes_is_missed_by_name() -> None:
    script = racks("a: 2x4", domains=("train",))
    script.feed(ClaimTemplateGone("default", "train-channel"))
    script.see(in_domain("train", 2))
    assert "ComputeDomain train is to have it made by its controller" in script.message("train")


def test_nodes_whose_channel_is_not_published_have_none() -> None:
    script = racks("a: 1x4", domains=("train",))
    script.feed(NodeSeen(replace(script.core.state.claims.nodes["a-0"], name="a-1")))
    train = in_domain("train", 2)
    script.see(train)
    assert script.reason("train") == "NoRoom"
    script.feed(fabric("a-1"))
    script.advance(1.0)
    assert sorted(script.planned(pod) for pod in train) == ["a-0", "a-1"]


def test_what_is_shown_of_devices_and_domains() -> None:
    script = racks("a: 3x4", "b: 1x4", domains=("train", "split"))
    train = in_domain("train", 2)
    script.see(train)
    rack, other = [domain for domain in domains(script.core.state) if domain.name in ("a", "b")]
    channels = DeviceStock(name=CHANNEL, devices=3, free=1, promised=2, used=0)
    assert channels in rack.devices
    assert DeviceStock(name=CHANNEL, devices=1, free=1, promised=0, used=0) in other.devices
    assert DeviceStock(name=IMEX, devices=3, free=3, promised=0, used=0) in rack.devices, "no pod asks for daemons"
    script.run(train)
    for pod, node in zip(train, ("a-0", "a-1"), strict=True):
        script.feed(allocated(pod, "train", node))
        relabel(script, node, domain="uid-train")
    (rack, _) = [domain for domain in domains(script.core.state) if domain.name in ("a", "b")]
    assert DeviceStock(name=CHANNEL, devices=3, free=1, promised=0, used=2) in rack.devices
    alone = replace(in_domain("alone", 1, of="split")[0], group=None)
    script.feed(domain("split", nodes=4))
    script.see(alone)
    for node in ("a-2", "b-0"):
        relabel(script, node, domain="uid-split")
    split, shown = compute_domains(script.core.state)
    assert (shown.members, shown.workloads, shown.nodes, shown.cliques) == (2, ["default/train"], 2, ["a"])
    assert not shown.problems
    assert (split.members, split.workloads, split.num_nodes, split.cliques) == (1, ["default/alone-0"], 4, ["a", "b"])
    assert split.problems == [
        "numNodes is 4, and 1 pod has a channel of it",
        "it is divided among 2 cliques: pods reach each other by NVLink inside of one only",
    ]
