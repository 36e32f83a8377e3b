"""docs/migrate.md: every pod that it shows is read as the gang that it claims to be."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from extender.kube.convert import pod_from
from extender.kube.reading.objects import PodObject
from policies.model import Dialect, Pod
from tests.documents.pages import ROOT, blocks

PAGE = ROOT / "docs" / "migrate.md"


def shown() -> list[Pod]:
    found = []
    for block in blocks(PAGE):
        if block.language == "yaml":
            pod = yaml.safe_load(block.text)
            pod["metadata"] |= {"namespace": "team", "uid": "1"}
            found.append(pod_from(msgspec.convert(pod, PodObject)))
    return found


@pytest.mark.parametrize(
    ("pod", "dialect", "min_member", "required"),
    [
        (pod, *said)
        for pod, said in zip(
            shown(),
            [
                (Dialect.COSCHEDULING, None, None),
                (Dialect.VOLCANO, None, None),
                (Dialect.ANNOTATION, 2, None),
                (Dialect.KUEUE, 2, "clique"),
                (Dialect.KOORDINATOR, 2, None),
                (Dialect.YUNIKORN, None, None),
                (Dialect.KAI, None, None),
            ],
            strict=True,
        )
    ],
)
def test_a_pod_is_the_gang_that_the_page_says(
    pod: Pod, dialect: Dialect, min_member: int | None, required: str | None
) -> None:
    assert pod.group is not None
    assert pod.group.problem is None
    assert (pod.group.name, pod.group.dialect, pod.group.min_member) == ("train", dialect, min_member)
    assert (pod.topology.required, pod.scheduler) == (required, "muster")
    assert dict(pod.requests)["nvidia.com/gpu"] == 8
