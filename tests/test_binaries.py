"""The Go modules from which the devcluster builds its programs."""

from __future__ import annotations

import re

import pytest

from devcluster.binaries import KUBERNETES, PACKAGES, REFERENCE, minors


def tools(minor: str) -> set[str]:
    """The packages that the module of a minor version builds."""
    listed = re.search(r"^tool \((.*?)\)", (KUBERNETES / minor / "go.mod").read_text(), re.MULTILINE | re.DOTALL)
    assert listed
    return set(listed[1].split())


@pytest.mark.parametrize("minor", minors())
def test_every_program_is_a_tool_of_its_module_or_of_the_newest(minor: str) -> None:
    own = tools(minor)
    assert own | tools(REFERENCE) == set(PACKAGES.values())
    assert {package for package in PACKAGES.values() if package.startswith("k8s.io/kubernetes")} <= own


def test_the_reference_is_the_newest() -> None:
    assert minors()[0] == REFERENCE
