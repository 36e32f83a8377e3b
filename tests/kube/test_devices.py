"""DeviceClasses as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import DeviceClassGone, DeviceClassSeen
from extender.kube.reading.identity import UnreadableError
from extender.kube.resources import DEVICE_CLASSES


def read(spec: Any, name: str | None = "gpu.example.com") -> DeviceClassSeen:
    raw = msgspec.Raw(msgspec.json.encode({"metadata": {"name": name, "uid": "u"}, "spec": spec}))
    _, found = DEVICE_CLASSES.read(raw)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("spec", "resource"),
    [
        ({"extendedResourceName": "nvidia.com/gpu", "selectors": []}, "nvidia.com/gpu"),
        ({}, ""),
        (None, ""),
        ({"extendedResourceName": None}, ""),
        ({"extendedResourceName": "a\nb"}, "'a\\nb'"),
    ],
)
def test_the_extended_resource_is_read(spec: Any, resource: str) -> None:
    assert read(spec) == DeviceClassSeen("gpu.example.com", resource)


def test_one_without_a_name_is_skipped() -> None:
    with pytest.raises(UnreadableError, match="DeviceClass has no name"):
        read({}, None)


def test_it_becomes_events_and_is_not_missed() -> None:
    seen = read({"extendedResourceName": "nvidia.com/gpu"})
    assert DEVICE_CLASSES.seen(seen) == seen
    assert DEVICE_CLASSES.gone(seen) == DeviceClassGone("gpu.example.com")
    assert DEVICE_CLASSES.dispensable
