"""A pod that is seen again: changed fields of the decoded ones are read, and an unchanged pod is not converted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from extender.kube import recent
from extender.kube.convert import pod_from, spec_fields
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import Meta, PodObject, PodSpec
from extender.kube.recent import pod_sent, read_listed, read_pod
from policies.model import Pod
from tests.kube.whole_pods import (
    PORTS,
    SPREAD,
    WHOLE,
    Path,
    changed,
    leaves,
)

VERSION: Path = ("metadata", "resourceVersion")
SAME_POD: set[Path] = {
    VERSION,
    # The name of a volume counts where a claim is named after it.
    ("spec", "volumes", 0, "name"),
    # It counts if it is "Always".
    ("spec", "containers", 0, "restartPolicy"),
    ("spec", "initContainers", 0, "restartPolicy"),
    # They count where it is.
    ("spec", "initContainers", 0, "ports"),
    *(("spec", "initContainers", 0, "ports", at, field) for at, port in enumerate(PORTS) for field in port),
    *(("spec", "initContainers", 0, "ports", at) for at in range(len(PORTS))),
    # It counts in the template of a job. A pod is read by the claim that is made of it.
    *(path for path in leaves(WHOLE) if "volumeClaimTemplate" in path),
}
"""Another text there makes no other Pod of this one."""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    recent._seen.clear()
    recent._known_specs.clear()
    yield
    recent._seen.clear()


def raw(pod: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(pod).encode())


def sent(pod: dict[str, Any], version: str = "9") -> Pod:
    """The pod as kube-scheduler sends it, at a version that has not been seen."""
    later = deepcopy(pod)
    later["metadata"]["resourceVersion"] = version
    converted = pod_sent(raw(later))
    assert converted is not None
    return converted


def afresh(pod: dict[str, Any]) -> Pod:
    return pod_from(msgspec.convert(pod, PodObject))


def structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for argument in get_args(kind):
        yield from structs(argument)


def unsaid(kind: type[msgspec.Struct], documents: list[Any], path: str = "") -> Iterator[str]:
    """The fields of the struct that none of the documents has."""
    hints = get_type_hints(kind)
    for name, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        values = [document[key] for document in documents if key in document]
        if not values:
            yield f"{path}.{key}"
        inner = [item for value in values for item in (value if isinstance(value, list) else [value])]
        for struct in structs(hints[name]):
            yield from unsaid(struct, inner, f"{path}.{key}")


def test_the_whole_pod_has_every_field_that_is_decoded() -> None:
    assert list(unsaid(PodObject, [WHOLE])) == []


@pytest.mark.parametrize("path", list(leaves(WHOLE)), ids=lambda path: ".".join(map(str, path)))
def test_a_change_of_any_field_is_seen(path: Path) -> None:
    shown = path in SAME_POD
    for pod in changed(path):
        try:
            wanted = afresh(pod)
        except (msgspec.ValidationError, ValueError):
            with pytest.raises((msgspec.ValidationError, ValueError)):
                read_pod(raw(pod))
            shown = True
            continue
        for before, after in ((WHOLE, pod), (pod, WHOLE)):
            recent._seen.clear()
            read_pod(raw(before))
            assert sent(after) == afresh(after)
            assert read_pod(raw(after))[1] == afresh(after)
        shown = shown or wanted != afresh(WHOLE)
    assert shown, "another Pod is made of one of them, or the comparisons above show nothing"


def test_what_is_the_same_but_for_its_version_is_not_converted_again() -> None:
    _, first = read_pod(raw(WHOLE))
    again = deepcopy(WHOLE)
    again["metadata"] |= {"resourceVersion": "8", "managedFields": [{"manager": "kubelet"}]}
    again["status"]["containerStatuses"] = [{"ready": True}]
    meta, second = read_pod(raw(again))
    assert second is first
    assert meta.resource_version == "8", "the version itself is not lost"


def test_what_a_caller_sends_is_not_remembered() -> None:
    read_pod(raw(WHOLE))
    forged = deepcopy(WHOLE)
    forged["spec"]["priority"] = 9
    assert sent(forged).priority == 9
    assert read_pod(raw(WHOLE))[1].priority == 3
    stranger = deepcopy(WHOLE)
    stranger["metadata"]["uid"] = "v"
    sent(stranger)
    assert list(recent._seen) == ["u"]


def test_of_a_pod_that_is_sent_as_it_was_seen_only_the_version_is_read() -> None:
    _, first = read_pod(raw(WHOLE))
    version = WHOLE["metadata"]["resourceVersion"]
    forged = deepcopy(WHOLE)
    forged["spec"]["priority"] = 9
    assert sent(forged, version) is first
    again = deepcopy(WHOLE)
    again["metadata"]["resourceVersion"] = "8"
    read_pod(raw(again))
    assert sent(forged, "8") is first
    assert sent(forged, version).priority == 9, "an earlier version may have been another pod"
    assert sent(forged, "").priority == 9
    assert pod_sent(msgspec.Raw(b"null")) is None


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_of_a_list_those_that_run_are_not_remembered(phase: str) -> None:
    listed = deepcopy(WHOLE)
    listed["status"]["phase"] = phase
    meta, pod = read_listed(raw(listed))
    assert (meta.uid, pod) == (listed["metadata"]["uid"], afresh(listed))
    assert [*recent._seen] == ([] if phase == "Running" else [pod.uid])
    assert read_pod(raw(listed))[1] == pod
    assert [*recent._seen] == [pod.uid], "a change of it may be followed by others"


def test_so_many_bytes_of_pods_are_remembered_and_no_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [deepcopy(WHOLE) for _ in range(2000)]
    for number, pod in enumerate(pods):
        pod["metadata"]["uid"] = f"u{number:04}"
        read_pod(raw(pod))
    assert list(recent._seen) == [f"u{number:04}" for number in range(2000)], "all that are on their way at once"
    size = len(raw(pods[0]))
    monkeypatch.setattr(recent, "MOST_BYTES", 10 * size)
    read_pod(raw(pods[7]))
    assert list(recent._seen) == [*(f"u{number:04}" for number in range(1991, 2000)), "u0007"]
    read_pod(raw(pods[7]))
    assert len(list(recent._seen)) == 10, "one that is seen again is counted once"
    large = deepcopy(WHOLE)
    large["metadata"] |= {"uid": "large", "annotations": {"note": "x" * recent.LARGEST}}
    assert read_pod(raw(large))[1] == afresh(large)
    assert "large" not in recent._seen


def member(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of a job, whose pods differ in their names, their indexes and the names of their tokens' volumes."""
    pod: dict[str, Any] = {"metadata": {"name": name, "namespace": "team", "uid": name, "labels": {"index": name}}}
    gpu = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    pod["spec"] = {"containers": [gpu], "volumes": [{"name": f"token-{name}"}], **spec}
    return pod


def test_what_the_pods_of_a_job_ask_for_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    converted = []

    def counted(meta: Meta, spec: PodSpec) -> dict[str, Any]:
        converted.append(meta.name)
        return spec_fields(meta, spec)

    monkeypatch.setattr(recent, "spec_fields", counted)
    for name in ("a", "b", "c"):
        pod = member(name, nodeName=f"n-{name}")
        assert read_pod(raw(pod))[1] == afresh(pod)
    assert converted == ["a"]
    for number in range(recent.MOST_SPECS + 1):
        read_pod(raw(member("d", priority=number)))
    assert len(recent._known_specs) == recent.MOST_SPECS
    read_pod(raw(member("e", schedulerName="x" * recent.LONGEST_SPEC)))
    assert len(recent._known_specs) == recent.MOST_SPECS, "no long one is kept"


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "data", "ephemeral": {}}]},
        {"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["index"]}]},
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["index"]}
                    ]
                }
            }
        },
    ],
    ids=["a claim of its own", "spread", "affinity"],
)
def test_what_a_pod_asks_for_by_its_own_name_or_labels_is_its_own(spec: dict[str, Any]) -> None:
    pods = [read_pod(raw(member(name, **spec)))[1] for name in ("a", "b")]
    assert pods == [afresh(member(name, **spec)) for name in ("a", "b")]
    assert (pods[0].claims, pods[0].constraints) != (pods[1].claims, pods[1].constraints)


def test_of_a_spec_that_cannot_be_read_each_pod_is_told() -> None:
    for name in ("a", "b"):
        with pytest.raises(UnreadableError, match=f"team/{name}"):
            read_pod(raw(member(name, overhead={"cpu": "much"})))
