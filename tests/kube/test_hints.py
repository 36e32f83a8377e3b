"""Keys that nothing reads are named, with the key that was meant."""

from __future__ import annotations

import pytest

from extender.kube import keys
from extender.kube.dialects.unread_keys import hint_of
from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from extender.kube.reading.constraints import WOKEN
from extender.kube.reading.objects import Meta, OwnerReference
from extender.kube.reading.reserved import RESERVATIONS
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import started, stored

GANG = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}


def hint(annotations: dict[str, str], labels: dict[str, str] | None = None) -> str | None:
    return hint_of(Meta(annotations=annotations, labels=labels))


@pytest.mark.parametrize(
    ("said", "key", "instead"),
    [
        ({"muster.dev/podgroup": "train"}, "muster.dev/podgroup", "write muster.dev/pod-group"),
        (
            GANG | {"muster.dev/require-topology": "clique"},
            "muster.dev/require-topology",
            "muster.dev/required-topology",
        ),
        (GANG | {"muster.dev/minMember": "2"}, "muster.dev/minMember", "write muster.dev/min-member"),
        (GANG | {"muster.dev/zzz": "2"}, "muster.dev/zzz", "write one of muster.dev/pod-group, "),
        ({"muster.dev/min-member": "2"}, "muster.dev/min-member", "add muster.dev/pod-group"),
        (
            {"scheduling.volcano.sh/group-min-member": "2"},
            "scheduling.volcano.sh/group-min-member",
            "write muster.dev/min-member",
        ),
        (
            {"hivedscheduler.microsoft.com/pod-scheduling-spec": "{}"},
            "hivedscheduler.microsoft.com/pod-scheduling-spec",
            "write muster.dev/pod-group",
        ),
        (
            {"gang.scheduling.koordinator.sh/network-topology-spec": "{}"},
            "gang.scheduling.koordinator.sh/network-topology-spec",
            "write muster.dev/required-topology",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_told_with_the_right_one(said: dict[str, str], key: str, instead: str) -> None:
    for message in (hint(said), hint({}, said)):
        assert message is not None
        assert message.startswith(f"{key} ")
        assert instead in message
        assert message.endswith("in the pod template, and create the pods again")


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        ({}, {"app": "web"}),
        (GANG, {}),
        (GANG | {"muster.dev/slice-size": "2", "muster.dev/release": "u", "muster.dev/rank": "0"}, {}),
        ({"muster.dev/required-topology": "clique"}, {"scheduling.x-k8s.io/pod-group": "train"}),
        (GANG | {"scheduling.k8s.io/group-name": "train"}, {}),
        ({"pod-group-name": "train"}, {"scheduling.x-k8s.io/pod-group": "train"}),
        ({}, {"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/managed": "true"}),
        ({}, {"kueue.x-k8s.io/pod-group-name": "train", "muster.dev/required-topology": "clique"}),
        ({"gang.scheduling.koordinator.sh/name": "train", "gang.scheduling.koordinator.sh/min-available": "2"}, {}),
        (GANG | {"kai.scheduler/segment-size": "2", "kueue.x-k8s.io/podset-required-topology": "rack"}, {}),
    ],
)
def test_what_somebody_reads_needs_no_hint(annotations: dict[str, str], labels: dict[str, str]) -> None:
    assert hint(annotations, labels) is None


def test_a_pod_with_thousands_of_keys_costs_one_look_at_each() -> None:
    many = {f"muster.dev/{'x' * 40}{at}": "" for at in range(10_000)}
    message = hint(many)
    assert message is not None
    assert len(message) < 400


def test_a_minimum_on_a_pod_that_is_in_the_gang_of_its_owner_belongs_on_that() -> None:
    made_by = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="web", uid="uid", controller=True)
    meta = Meta(
        annotations={"muster.dev/gang": "true", "muster.dev/required-topology": "clique"}, owner_references=[made_by]
    )
    assert hint_of(meta) is None
    meta.labels = {"muster.dev/min-member": "2"}
    message = hint_of(meta)
    assert message is not None
    assert message.endswith("write it on that object instead of in the pod template, and create the pods again")


@pytest.mark.parametrize("said", ["True", "yes", "1"])
def test_a_gang_by_a_word_that_is_neither_true_nor_false_is_told(said: str) -> None:
    expected = f"muster.dev/gang is '{said}' and does not count: write true or false in the pod template"
    assert hint({}, {"muster.dev/gang": said}) == expected
    assert hint({"muster.dev/gang": said}) == expected


@pytest.mark.parametrize(
    "key", [WOKEN, *RESERVATIONS, *(value for value in vars(keys).values() if str(value).startswith("muster.dev/"))]
)
def test_what_muster_itself_writes_on_pods_and_their_templates_is_no_mistake_of_their_author(key: str) -> None:
    assert hint(GANG, {key: "true"}) is None


@pytest.mark.parametrize(
    ("key", "instead"),
    [("holds", "muster.dev/hold"), ("queue", "muster.dev/queue-name"), ("zzz", "one of muster.dev/gang, ")],
)
def test_a_key_of_a_job_that_nothing_reads_is_told_with_one_for_jobs(key: str, instead: str) -> None:
    obj = stored(INDEXED)
    obj["metadata"]["annotations"] = {f"muster.dev/{key}": "true"}
    message = Reader().read(JOB, obj).hint or ""
    assert message.startswith(f"muster.dev/{key} means nothing to Muster: write {instead}")


def test_what_muster_writes_on_a_job_is_no_mistake_of_its_author() -> None:
    obj = started(JOB, stored(INDEXED))
    obj["metadata"]["annotations"] |= {
        "muster.dev/evicted-at": "2026-01-02T03:04:05Z",
        **dict.fromkeys(RESERVATIONS, "{}"),
    }
    assert Reader().read(JOB, obj).hint is None
