"""Kubernetes' own PodGroups: those of Jobs that ask for a gang are reported to the core, and no others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import NativeGangGone, NativeGangSeen
from extender.kube.reading.identity import UnreadableError
from extender.kube.resources import NATIVE_GANGS
from policies.model import GroupKey

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def read(spec: Any, *owners: Any, **meta: Any) -> NativeGangSeen | None:
    named = {"name": "group", "namespace": "team", "uid": "g", "ownerReferences": list(owners), **meta}
    return NATIVE_GANGS[0].read(msgspec.Raw(msgspec.json.encode({"metadata": named, "spec": spec})))[1]


def test_a_gang_that_the_job_controller_has_made_is_told() -> None:
    seen = read(GANG, {**JOB, "kind": "Workload", "controller": False}, JOB)
    assert seen == NativeGangSeen(GroupKey("team", "group"), "g")
    assert [resource.gone(seen) for resource in NATIVE_GANGS] == [NativeGangGone(seen.key, "g")] * 2
    assert all(resource.optional and resource.dispensable for resource in NATIVE_GANGS)


@pytest.mark.parametrize(
    ("spec", "owner"),
    [
        ({"schedulingPolicy": {"basic": {}}}, JOB),
        ({"schedulingPolicy": None}, JOB),
        (None, JOB),
        (GANG, {**JOB, "kind": "JobSet"}),
        (GANG, {**JOB, "controller": False}),
    ],
)
def test_any_other_group_is_not(spec: Any, owner: Any) -> None:
    assert read(spec, owner) is None


def test_one_without_a_name_cannot_be_read() -> None:
    with pytest.raises(UnreadableError):
        read(GANG, JOB, name=None)
