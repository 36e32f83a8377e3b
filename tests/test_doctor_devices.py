"""`muster doctor` where DRA offers GPUs as an extended resource."""

from __future__ import annotations

from dataclasses import replace

from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts, Member
from extender.cli.doctor.finding import Finding
from extender.config.settings import load
from extender.core.events import DeviceClassSeen
from extender.kube.reading.objects import Meta
from policies.model import Node
from tests.builders import GPU, cluster, gang


def found(nodes: list[Node], *seen: DeviceClassSeen) -> dict[str, Finding]:
    members = [Member(replace(pod, scheduler="muster"), Meta(), looked_at=True) for pod in gang("train", 2)]
    facts = Facts(load(None), nodes=nodes, members=members)
    for one in seen:
        facts.devices.note(one)
    return {one.code: one for one in examine(facts).findings}


def test_it_says_which_class_offers_them_and_not_to_run_the_device_plugin() -> None:
    codes = found(cluster("a: 2x0"), DeviceClassSeen("gpu.example.com", GPU))
    assert "NoGpuNodes" not in codes
    for code in ("OfferedByDra", "GpusByDra"):
        what = codes[code].what
        assert "is offered by DRA (DeviceClass gpu.example.com), which gangs do not support yet" in what, what
    assert codes["OfferedByDra"].subject == "default/train"


def test_nothing_is_said_where_nodes_list_them_or_no_class_offers_them() -> None:
    offered = DeviceClassSeen("gpu.example.com", GPU)
    assert not {"OfferedByDra", "GpusByDra", "NoGpuNodes"} & found(cluster("a: 2x8"), offered).keys()
    assert "NoGpuNodes" in found(cluster("a: 2x0"), replace(offered, resource="example.com/nic"))
