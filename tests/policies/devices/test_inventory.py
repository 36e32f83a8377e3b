"""The inventory: the devices that count, the requests that they match, and how many of a node are free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from policies.devices.inventory import MOST_REQUIREMENTS, Inventory
from policies.devices.lines import Devices
from policies.model import Taint, Toleration
from policies.model.devices import Device, DeviceKey, DeviceRequirement, PoolKey, Reach, Slice, TaintRule
from policies.steps import finish
from policies.words import WHOLE
from tests.policies.devices.vendors import DEVICES, NVIDIA

GPU = DeviceRequirement(NVIDIA, ("device.driver == 'gpu.nvidia.com'",))
LARGE = DeviceRequirement(
    NVIDIA, (*GPU.selectors, "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))")
)


def published(
    node: str, kinds: Iterable[str], *, generation: int = 1, slices: int = 1, name: str = "", pool: str = ""
) -> Slice:
    """A slice of that node's pool with devices of these kinds."""
    devices = tuple(Device(f"{name}{kind}-{number}", DEVICES[kind].facts()) for number, kind in enumerate(kinds))
    return Slice(name or node, PoolKey(NVIDIA, pool or node), generation, slices, Reach(node), devices)


def key(node: str, device: str) -> DeviceKey:
    return DeviceKey(NVIDIA, node, device)


def counted(inventory: Inventory, node: str = "a") -> tuple[Devices, ...]:
    finish(inventory.settle())
    return inventory.on(inventory.on_node(node).values())


def test_devices_are_counted_by_what_they_match() -> None:
    inventory = Inventory()
    inventory.put(published("a", ["h100", "h100", "a100"]))
    assert (inventory.require(GPU), inventory.require(LARGE)) == (0, 1)
    assert counted(inventory) == (Devices(0b01, 1, 1), Devices(0b11, 2, 2))
    inventory.hold([key("a", "h100-0")])
    assert counted(inventory) == (Devices(0b01, 1, 1), Devices(0b11, 2, 1))
    inventory.put(published("a", ["h100", "a100"]))
    assert counted(inventory) == (Devices(0b01, 1, 1), Devices(0b11, 1, 0)), "a device that is in use stays so"
    inventory.hold([key("a", "h100-0")], -1)
    assert counted(inventory) == (Devices(0b01, 1, 1), Devices(0b11, 1, 1))
    inventory.drop("a")
    assert counted(inventory) == ()
    assert inventory.seen() == []


def test_only_the_newest_generation_counts_and_only_when_it_is_whole() -> None:
    inventory = Inventory()
    inventory.require(GPU)
    inventory.put(published("a", ["h100"], slices=2, name="one"))
    assert counted(inventory) == ()
    inventory.put(published("a", ["h100"], slices=2, name="two", pool="a"))
    assert counted(inventory) == (Devices(1, 2, 2),)
    inventory.put(published("a", ["h100", "h100", "h100"], generation=2, name="one"))
    assert counted(inventory) == (Devices(1, 3, 3),), "the other slice is of an earlier generation"
    inventory.drop("one")
    assert counted(inventory) == (), "of that generation there was another one"
    inventory.put(replace(published("a", ["h100"], slices=1, name="two"), generation=3))
    assert counted(inventory) == (Devices(1, 1, 1),)


def test_a_device_in_two_slices_makes_the_pool_invalid() -> None:
    inventory = Inventory()
    inventory.require(GPU)
    twice = published("a", ["h100"], slices=2, name="x")
    inventory.put(twice)
    inventory.put(replace(twice, name="y"))
    assert counted(inventory) == ()


def test_taints_and_tolerations() -> None:
    inventory = Inventory()
    taint = Taint("broken", "", "NoSchedule")
    slice_ = published("a", ["h100", "h100"])
    inventory.put(replace(slice_, devices=(slice_.devices[0], replace(slice_.devices[1], taints=(taint,)))))
    inventory.require(GPU)
    inventory.require(GPU._replace(tolerations=(Toleration("broken", "Exists", "", ""),)))
    assert counted(inventory) == (Devices(0b10, 1, 1, unfit=0b01), Devices(0b11, 1, 1))


def test_rules_that_taint_devices() -> None:
    inventory = Inventory()
    inventory.require(GPU)
    inventory.put(published("a", ["h100", "h100"]))
    finish(inventory.settle())
    taint = Taint("broken", "", "NoExecute")
    inventory.put_taint(TaintRule("r", taint, NVIDIA, "a", "h100-1"))
    assert counted(inventory) == (Devices(0, 1, 1, unfit=1), Devices(1, 1, 1))
    assert inventory.take_dirty() == {"a": None}
    inventory.put(published("a", ["h100", "h100", "h100"]))
    assert counted(inventory) == (Devices(0, 1, 1, unfit=1), Devices(1, 2, 2)), "devices that come have it too"
    inventory.put_taint(TaintRule("r", taint, "other.example.com"))
    assert counted(inventory) == (Devices(1, 3, 3),)
    inventory.put_taint(TaintRule("all", taint))
    assert counted(inventory) == (Devices(0, 3, 3, unfit=1),)
    inventory.drop_taint("all")
    assert counted(inventory) == (Devices(1, 3, 3),)


def test_what_serves_any_number_of_claims_never_runs_out() -> None:
    inventory = Inventory()
    slice_ = published("a", ["h100"])
    inventory.put(replace(slice_, devices=(replace(slice_.devices[0], uncounted="several allocations"),)))
    inventory.require(GPU)
    inventory.hold([key("a", "h100-0")])
    assert counted(inventory) == (Devices(1, WHOLE, WHOLE),)


def test_selectors_that_fail_or_are_not_read_match_nothing_and_say_so() -> None:
    inventory = Inventory()
    inventory.put(published("a", ["h100"]))
    fails = inventory.require(DeviceRequirement("c", ("device.attributes['gpu.nvidia.com'].index < 4",)))
    unread = inventory.require(DeviceRequirement("c", ("device.driver.split('.')[0] == 'gpu'",)))
    late = inventory.require(DeviceRequirement("c", ("size(device.attributes) > 0",)))
    assert counted(inventory) == ()
    assert fails is not None
    assert unread is not None
    assert late is not None
    assert inventory.rules[fails].failed == ("no such key: index", key("a", "h100-0"))
    assert inventory.rules[unread].unread == "split()"
    assert inventory.rules[late].unread == "size() of a map"


def test_devices_that_come_while_requirements_are_evaluated_are_evaluated_too() -> None:
    inventory = Inventory()
    for node in "abc":
        inventory.put(published(node, ["h100"] * 64))
    inventory.require(GPU)
    steps = inventory.settle()
    next(steps)
    assert not inventory.settled
    inventory.put(published("d", ["h100"]))
    inventory.drop("b")
    inventory.require(LARGE)
    finish(steps)
    assert inventory.settled
    assert [inventory.on(inventory.on_node(node).values()) for node in "abcd"] == [
        (Devices(3, 64, 64),),
        (),
        (Devices(3, 64, 64),),
        (Devices(3, 1, 1),),
    ]


def test_a_requirement_that_nobody_needs_goes_when_there_are_too_many() -> None:
    inventory = Inventory()
    inventory.put(published("a", ["h100"]))
    others = [DeviceRequirement("c", (f"device.driver == 'd{number}'",)) for number in range(MOST_REQUIREMENTS - 1)]
    assert [inventory.require(requirement) for requirement in (GPU, *others)] == list(range(MOST_REQUIREMENTS))
    assert inventory.require(LARGE) is None
    assert inventory.require(GPU, in_use=0) == 0, "its answers are kept"
    assert counted(inventory) == (Devices(1, 1, 1),)
    assert inventory.require(LARGE, in_use=~1) == 0
    assert counted(inventory) == (Devices(1, 1, 1),)
    inventory.put(published("a", ["a100"]))
    assert counted(inventory) == ()


def test_devices_that_belong_to_no_node() -> None:
    inventory = Inventory()
    inventory.require(GPU)
    inventory.put(replace(published("a", ["h100"]), reach=Reach()))
    assert counted(inventory) == ()
    assert inventory.on(iter(inventory.shared[None].values())) == (Devices(1, 1, 1),)
    assert not inventory.belongs_to_one_node(1)
    inventory.put(published("b", ["h100"]))
    assert inventory.belongs_to_one_node(1)
    assert not inventory.belongs_to_one_node(2)
