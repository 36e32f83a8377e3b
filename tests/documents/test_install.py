"""docs/install.md names the components that there are, and versions that agree with the manifests."""

from __future__ import annotations

import re

import pytest
import yaml

from devcluster.binaries import kubernetes_version
from tests.documents.pages import PAGES, ROOT, blocks

INSTALL = (ROOT / "docs" / "install.md").read_text()
COMPONENTS = {path.name for path in (ROOT / "manifests" / "components").iterdir()}


def test_every_component_is_listed_and_no_other() -> None:
    table = INSTALL.partition("| component |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == COMPONENTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_components_that_are_named_exist(page: object) -> None:
    text = (ROOT / str(page)).read_text()
    named = {*re.findall(r"manifests/components/([\w-]+)", text), *re.findall(r"component `([\w-]+)`", text)}
    named |= set(re.findall(r"`([\w-]+-roles?)`", text))
    assert named <= COMPONENTS


def test_what_an_overlay_names_is_in_the_checkout_beside_it() -> None:
    shown = [
        candidate
        for page in PAGES
        for candidate in blocks(page)
        if candidate.language == "yaml" and "manifests/" in candidate.text
    ]
    assert len(shown) >= 2
    for block in shown:
        overlay = yaml.safe_load(block.text)
        for path in [*overlay.get("resources", ()), *overlay.get("components", ())]:
            assert path.startswith("muster/"), f"{block.page}:{block.line}"
            assert (ROOT / path.removeprefix("muster/") / "kustomization.yaml").is_file(), path


def test_the_versions_are_those_that_are_tested() -> None:
    version = kubernetes_version()
    deployment = yaml.safe_load((ROOT / "manifests" / "base" / "deployment.yaml").read_text())
    images = [
        container["image"].partition("@")[0] for container in deployment["spec"]["template"]["spec"]["containers"]
    ]
    assert f"registry.k8s.io/kube-scheduler:{version}" in images
    assert f"newTag: {version}" in INSTALL
    assert f"every test runs on {version.removeprefix('v')}" in INSTALL
