"""The go.mod files of devcluster's controllers pin the same modules, so that Go compiles these once for all of them."""

import re
from itertools import groupby
from pathlib import Path

import pytest

CONTROLLERS = Path(__file__).parents[1] / "devcluster" / "controllers"

# The projects themselves, and modules that some of them know only by an interface that has changed since.
OF_PROJECTS = re.compile(
    r"github\.com/(kubeflow|project-codeflare|ray-project|open-policy-agent)/"
    r"|sigs\.k8s\.io/(kueue|jobset|lws|scheduler-plugins|gateway-api|controller-runtime)$|volcano\.sh/"
)


def pinned(controller: str) -> dict[str, str]:
    """Module -> version, as its go.mod requires it."""
    text = (CONTROLLERS / controller / "go.mod").read_text()
    return dict(re.findall(r"^(?:require )?\t?(\S+) (v\S+?)(?: // indirect)?$", text, re.MULTILINE))


def minor(controller: str) -> str:
    """The minor version of the Kubernetes whose libraries it is compiled with: `0.36`."""
    return ".".join(pinned(controller)["k8s.io/client-go"].lstrip("v").split(".")[:2])


def groups() -> list[list[str]]:
    """The controllers by Kubernetes minor version, where there are several."""
    names = sorted((path.parent.name for path in CONTROLLERS.glob("*/go.mod")), key=lambda name: (minor(name), name))
    return [group for _, same_minor in groupby(names, minor) if len(group := list(same_minor)) > 1]


@pytest.mark.parametrize("group", groups(), ids="+".join)
def test_controllers_of_one_kubernetes_version_pin_the_same_versions(group: list[str]) -> None:
    """Go compiles a package again for each version of any module below it: one that differs costs minutes."""
    everything = {name: pinned(name) for name in group}
    for module in sorted({module for pins in everything.values() for module in pins if not OF_PROJECTS.match(module)}):
        versions = {name: pins[module] for name, pins in everything.items() if module in pins}
        assert len(set(versions.values())) == 1, (
            f"{module}: {versions}. Run `go get {module}@HIGHEST` in the folders of the others."
        )


def test_most_controllers_share_what_they_are_compiled_with() -> None:
    assert [len(group) for group in groups()] == [5, 3]
