"""The pages on other schedulers: each pod that they show is read as the gang that it claims to be."""

from __future__ import annotations

import re

import msgspec
import pytest
import yaml

from extender.kube.convert import pod_from
from extender.kube.reading.objects import PodObject
from policies.model import Dialect, Pod
from tests.documents.pages import ROOT, blocks

PAGES = [ROOT / "docs" / f"{name}.md" for name in ("migrate", "migrate-volcano", "migrate-kueue")]


def shown() -> list[Pod]:
    pods = []
    for block in [block for page in PAGES for block in blocks(page)]:
        if block.language == "yaml":
            pod = yaml.safe_load(block.text)
            pod["metadata"] |= {"namespace": "team", "uid": "1"}
            pods.append(pod_from(msgspec.convert(pod, PodObject)))
    return pods


def test_the_page_names_every_policy_that_names_musters_scheduler() -> None:
    components = ROOT / "manifests" / "components"
    naming = {
        str(path.relative_to(components)): path.read_text().count("spec.schedulerName in ['muster']")
        for path in components.rglob("*.yaml")
    }
    rows = re.findall(r"^ *\| `([\w/-]+\.yaml)`(, twice)? \|", PAGES[1].read_text(), re.MULTILINE)
    assert {path: 2 if twice else 1 for path, twice in rows} == {path: count for path, count in naming.items() if count}
    others = re.compile(r"schedulerName [=!]= 'muster'")
    assert not [path for path in components.rglob("*.yaml") if others.search(path.read_text())]


@pytest.mark.parametrize(
    ("pod", "dialect", "min_member", "required"),
    [
        (pod, *expected)
        for pod, expected in zip(
            shown(),
            [
                (Dialect.COSCHEDULING, None, None),
                (Dialect.ANNOTATION, 2, None),
                (Dialect.KOORDINATOR, 2, None),
                (Dialect.YUNIKORN, None, None),
                (Dialect.KAI, None, None),
                (Dialect.VOLCANO, None, None),
                (Dialect.KUEUE, 2, "clique"),
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
