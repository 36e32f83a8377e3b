"""Devices as they are read: slices, classes, claims and templates of resource.k8s.io/v1."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import (
    ClaimTemplateGone,
    ClaimTemplateSeen,
    ComputeDomainGone,
    ComputeDomainSeen,
    DeviceClaimGone,
    DeviceClaimSeen,
    DeviceClassGone,
    DeviceClassSeen,
    SliceGone,
    SliceSeen,
)
from extender.kube.reading.identity import UnreadableError
from extender.kube.resources import (
    CLAIM_TEMPLATES,
    COMPUTE_DOMAINS,
    DEVICE_CLAIMS,
    DEVICE_CLASSES,
    DEVICES,
    SLICES,
    TAINT_RULES,
    Resource,
)
from policies.devices.selectors import Selector
from policies.model import Requirement, Taint, Toleration
from policies.model.devices import (
    Allocation,
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    ComputeDomain,
    DeviceClaim,
    DeviceKey,
    DeviceRequest,
    PoolKey,
    Reach,
    Slice,
    TaintRule,
)
from tests.kube.converting import pod
from tests.kube.devices_of_vendors import CHANNEL, claim_spec, fabric_slice, gpu_slice, imex_slice, request


def read(resource: Resource[Any, Any], obj: Any) -> Any:
    _, value = resource.read(msgspec.Raw(msgspec.json.encode(obj)))
    return value


def read_class(spec: Any, name: str | None = "gpu.example.com") -> DeviceClassSeen:
    device_class = read(DEVICE_CLASSES, {"metadata": {"name": name, "uid": "u"}, "spec": spec})
    assert isinstance(device_class, DeviceClassSeen)
    return device_class


@pytest.mark.parametrize(
    ("spec", "resource", "selectors"),
    [
        ({"extendedResourceName": "nvidia.com/gpu", "selectors": []}, "nvidia.com/gpu", ()),
        ({"selectors": [{"cel": {"expression": "true"}}, {"cel": {"expression": "false"}}]}, "", ("true", "false")),
        ({"selectors": [{"later": {}}]}, "", ("no cel",)),
        ({}, "", ()),
        (None, "", ()),
        ({"extendedResourceName": None, "selectors": None}, "", ()),
        ({"extendedResourceName": "a\nb"}, "'a\\nb'", ()),
    ],
)
def test_classes(spec: Any, resource: str, selectors: tuple[str, ...]) -> None:
    assert read_class(spec) == DeviceClassSeen("gpu.example.com", resource, selectors)


def test_a_slice_of_the_gpu_driver() -> None:
    published: Slice = read(SLICES, gpu_slice("node-1", 4))
    assert (published.name, published.pool) == ("node-1-gpu.nvidia.com-x7k2p", PoolKey("gpu.nvidia.com", "node-1"))
    assert (published.generation, published.slices, published.reach) == (4, 1, Reach("node-1"))
    assert [device.name for device in published.devices] == ["gpu-0", "gpu-1", "gpu-1-mig-1g24gb-19-0"]
    assert [device.taints for device in published.devices] == [
        (),
        (),
        (Taint("gpu.nvidia.com/unhealthy", "xid-94", "NoSchedule"),),
    ]
    large = Selector(
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu' && "
        "device.attributes['gpu.nvidia.com'].cudaComputeCapability.isGreaterThan(semver('9.0.0')) && "
        "device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0008:01' && "
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('180Gi')) > 0"
    )
    assert [large(device.facts.get) for device in published.devices] == [False, True, False]


def test_devices_that_share_counters_are_partitions() -> None:
    obj = gpu_slice()
    obj["spec"]["devices"][2]["consumesCounters"] = [{"counterSet": "gpu-1", "counters": {"memory": {"value": "24Gi"}}}]
    published: Slice = read(SLICES, obj)
    assert [device.partition for device in published.devices] == [False, False, True]


def test_slices_of_channels_and_of_pools_that_nodes_share() -> None:
    published: Slice = read(SLICES, imex_slice())
    channel = Selector("device.attributes['compute-domain.nvidia.com'].id == 0 && device.driver.startsWith('compute')")
    assert [channel(device.facts.get) for device in published.devices] == [True, True]
    assert read(SLICES, fabric_slice()).reach == Reach()
    obj = fabric_slice()
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
    obj["spec"] |= {"allNodes": None, "nodeSelector": {"nodeSelectorTerms": [term]}}
    assert read(SLICES, obj).reach == Reach("", ((Requirement("rack", "In", ("a",)),),))


def test_devices_that_say_themselves_which_nodes_reach_them() -> None:
    each = fabric_slice()
    devices = [{"name": "a", "nodeName": "n"}, {"name": "b", "allNodes": True, "allowMultipleAllocations": True}]
    each["spec"] |= {"allNodes": None, "perDeviceNodeSelection": True, "devices": devices}
    published: Slice = read(SLICES, each)
    assert [device.reach for device in published.devices] == [Reach("n"), Reach()]
    assert [device.uncounted for device in published.devices] == ["", "several claims at a time"]


def test_values_that_cannot_be_read_are_left_out() -> None:
    odd = fabric_slice()
    odd["spec"]["devices"] = [
        {
            "name": "d",
            "attributes": {"list": {"strings": ["a"]}, "version": {"version": "1"}, "yes": {"bool": False}},
            "capacity": {"much": {"value": "lots"}, "other.example/m": {"value": 3}},
        }
    ]
    (device,) = read(SLICES, odd).devices
    here = "device.attributes['fabric.example.com']"
    expression = f"!has({here}.list) && !has({here}.version) && {here}.yes == false && "
    more = "!has(device.capacity['fabric.example.com'].much) && device.capacity['other.example'].m == quantity('3')"
    assert Selector(expression + more)(device.facts.get)


@pytest.mark.parametrize("broken", [{"driver": ""}, {"pool": None}, {"pool": {"name": ""}}])
def test_slices_without_a_driver_or_a_pool_are_skipped(broken: Any) -> None:
    obj = gpu_slice()
    obj["spec"] |= broken
    with pytest.raises(UnreadableError, match="has no driver, or no pool"):
        read(SLICES, obj)


@pytest.mark.parametrize(
    ("selector", "effect", "expected"),
    [
        ({"driver": "d", "pool": "p", "device": "x"}, "NoExecute", ("d", "p", "x")),
        ({}, "NoSchedule", ("", "", "")),
        (None, "NoSchedule", None),
        ({}, "None", None),
    ],
)
def test_rules_that_taint_devices(selector: Any, effect: str, expected: tuple[str, ...] | None) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "k", "value": "v", "effect": effect}}
    rule = read(TAINT_RULES, {"metadata": {"name": "r"}, "spec": spec})
    assert rule == (None if expected is None else TaintRule("r", Taint("k", "v", effect), *expected))


DOMAIN = "5a1b0d8e-7c39-4a0e-9d57-2f1f2c3d4e5f"
LABEL, TARGET = "resource.nvidia.com/computeDomain", "resource.nvidia.com/computeDomainTarget"


def configured(driver: str, parameters: Any) -> Any:
    config = [{"requests": ["channel"], "opaque": {"driver": driver, "parameters": parameters}}]
    return claim_spec(request("channel", "compute-domain-default-channel.nvidia.com"), config=config)


@pytest.mark.parametrize(
    ("labels", "spec", "domain", "daemon"),
    [
        ({LABEL: "u-1", TARGET: "Workload"}, CHANNEL, "u-1", False),
        ({LABEL: "u-1", TARGET: "Daemon"}, CHANNEL, "u-1", True),
        ({LABEL: "u-1"}, CHANNEL, DOMAIN, False),
        ({TARGET: "Workload"}, CHANNEL, DOMAIN, False),
        (None, CHANNEL, DOMAIN, False),
        ({LABEL: "u-1", TARGET: "Workload"}, configured("gpu.nvidia.com", {}), "u-1", False),
        (None, configured("gpu.nvidia.com", {"kind": "ComputeDomainChannelConfig", "domainID": "u"}), "", False),
        (
            None,
            configured("compute-domain.nvidia.com", {"kind": "ComputeDomainDaemonConfig", "domainID": "u"}),
            "u",
            True,
        ),
        (None, configured("compute-domain.nvidia.com", {"kind": "Another", "domainID": "u"}), "", False),
        (None, configured("compute-domain.nvidia.com", "text"), "", False),
        (None, configured("compute-domain.nvidia.com", {"kind": ["ComputeDomainChannelConfig"]}), "", False),
        (None, configured("compute-domain.nvidia.com", {"kind": "ComputeDomainChannelConfig"}), "", False),
    ],
)
def test_a_template_of_a_compute_domain(labels: Any, spec: Any, domain: str, daemon: bool) -> None:
    meta = {"name": "train-channel", "namespace": "team", "uid": "u", "labels": labels}
    template = read(CLAIM_TEMPLATES, {"metadata": meta, "spec": {"spec": spec}})
    channel_request = ClaimRequest("channel", (DeviceRequest("compute-domain-default-channel.nvidia.com"),))
    assert template == ClaimTemplate("team", "train-channel", ClaimSpec((channel_request,), (), domain, daemon))
    assert read(DEVICE_CLAIMS, {"metadata": meta, "spec": spec}).spec == template.spec


def test_a_compute_domain() -> None:
    meta = {"name": "train", "namespace": "team", "uid": "u"}
    spec = {"numNodes": 4, "channel": {"resourceClaimTemplate": {"name": "train-channel"}, "allocationMode": "All"}}
    domain = read(COMPUTE_DOMAINS, {"metadata": meta, "spec": spec, "status": {"status": "Ready"}})
    assert domain == ComputeDomain("team", "train", "u", "train-channel", 4)
    assert COMPUTE_DOMAINS.seen(domain) == ComputeDomainSeen(domain)
    assert COMPUTE_DOMAINS.gone(domain) == ComputeDomainGone("u")
    assert read(COMPUTE_DOMAINS, {"metadata": meta}) == ComputeDomain("team", "train", "u")


def claim(spec: Any, **more: Any) -> DeviceClaim:
    device_claim = read(
        DEVICE_CLAIMS, {"metadata": {"name": "c", "namespace": "team", "uid": "u"}, "spec": spec, **more}
    )
    assert isinstance(device_claim, DeviceClaim)
    return device_claim


def test_every_form_of_a_request() -> None:
    selectors = [{"cel": {"expression": "true"}}]
    tolerations = [{"key": "k", "operator": "Exists"}]
    spec = claim_spec(
        request("some", "a", count=3, selectors=selectors, tolerations=tolerations),
        request("every", "a", allocationMode="All", count=None),
        request("admin", "a", adminAccess=True),
        request("share", "a", capacity={"requests": {"memory": "10Gi"}}),
        request("later", "a", allocationMode="Most"),
        {
            "name": "first",
            "firstAvailable": [{"name": "x", "deviceClassName": "a", "count": 2}, {"deviceClassName": "b"}],
        },
        {"name": "unknown", "another": {}},
        constraints=[{"matchAttribute": "gpu.nvidia.com/parentUUID"}, {"distinctAttribute": "x/y"}, {"later": 1}],
    )
    parsed = claim(spec).spec
    assert parsed.requests == (
        ClaimRequest("some", (DeviceRequest("a", ("true",), 3, tolerations=(Toleration("k", "Exists", "", ""),)),)),
        ClaimRequest("every", (DeviceRequest("a", count=None),)),
        ClaimRequest("admin", (DeviceRequest("a", admin=True),)),
        ClaimRequest("share", (DeviceRequest("a", uncounted="a share of a device's capacity"),)),
        ClaimRequest("later", (DeviceRequest("a", uncounted="a mode that is not known"),)),
        ClaimRequest("first", (DeviceRequest("a", count=2), DeviceRequest("b"))),
        ClaimRequest("unknown", (DeviceRequest("", uncounted="a request of a kind that is not known"),)),
    )
    assert parsed.constraints == (
        "devices with the same gpu.nvidia.com/parentUUID",
        "devices with different x/y",
        "a constraint of a kind that is not known",
    )


def test_an_allocation_holds_its_devices_but_not_those_of_admin_access() -> None:
    device = {"driver": "gpu.nvidia.com", "pool": "node-1", "request": "gpu"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    allocation = {
        "devices": {"results": [device | {"device": "gpu-0"}, device | {"device": "gpu-1", "adminAccess": True}]},
        "nodeSelector": {"nodeSelectorTerms": [term]},
    }
    meta = {
        "name": "c",
        "namespace": "team",
        "uid": "u",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "p-uid", "controller": True}],
    }
    reserved = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
    allocated = claim(claim_spec(), metadata=meta, status={"allocation": allocation, "reservedFor": reserved})
    nodes = ((Requirement("metadata.name", "In", ("node-1",), is_field=True),),)
    assert allocated.allocation == Allocation((DeviceKey("gpu.nvidia.com", "node-1", "gpu-0"),), nodes)
    assert (allocated.reserved_for, allocated.owner, allocated.use) == (("p-uid",), "p-uid", "gpu")
    everywhere = claim(claim_spec(), status={"allocation": {"devices": {"results": []}}})
    assert (everywhere.allocation, everywhere.owner) == (Allocation(), "")


def test_claims_of_pods() -> None:
    made = {"name": "channel", "resourceClaimTemplateName": "t"}
    assert [
        tuple(device_claim)
        for device_claim in pod(resourceClaims=[made, {"name": "gpu", "resourceClaimName": "c"}]).device_claims
    ] == [
        ("channel", "", "t"),
        ("gpu", "c", ""),
    ]
    assert not pod(resourceClaims=[]).device_claims


@pytest.mark.parametrize("resource", DEVICES, ids=lambda resource: resource.name)
def test_none_without_a_name_is_read_and_none_is_missed(resource: Resource[Any, Any]) -> None:
    with pytest.raises(UnreadableError, match="has no name"):
        read(resource, {"metadata": {}})
    assert resource.dispensable
    assert resource.optional


def test_they_become_events() -> None:
    seen = read_class({"extendedResourceName": "nvidia.com/gpu"})
    assert (DEVICE_CLASSES.seen(seen), DEVICE_CLASSES.gone(seen)) == (seen, DeviceClassGone("gpu.example.com"))
    published, template = read(SLICES, fabric_slice()), ClaimTemplate("team", "t")
    assert (SLICES.seen(published), SLICES.gone(published)) == (SliceSeen(published), SliceGone("fabric"))
    assert CLAIM_TEMPLATES.seen(template) == ClaimTemplateSeen(template)
    assert CLAIM_TEMPLATES.gone(template) == ClaimTemplateGone("team", "t")
    known = claim(claim_spec())
    assert (DEVICE_CLAIMS.seen(known), DEVICE_CLAIMS.gone(known)) == (
        DeviceClaimSeen(known),
        DeviceClaimGone("team", "c"),
    )
