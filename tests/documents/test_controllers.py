"""The pages of facts against the controllers of other projects that are pinned."""

import re

import pytest

from devcluster.controllers import CATALOGUE, Controller
from tests.documents.pages import ROOT

FACTS = (ROOT / "docs" / "controller-facts.md").read_text()
BUILT = (ROOT / "tests" / "facts" / "README.md").read_text()
UNMEASURED = {
    name: (ROOT / "docs" / page).read_text().splitlines()
    for name, page in (("kueue", "kueue.md"), ("trainer-2.1", "kinds.md"))
}
"""Controllers with which no facts are measured, and their pages."""


def test_every_controller_is_listed_and_no_other() -> None:
    table = BUILT.partition("## Real controllers")[2].partition("\n\n#")[0]
    assert set(re.findall(r"^\| `([\w.-]+)` \|", table, re.MULTILINE)) == set(CATALOGUE)


@pytest.mark.parametrize("controller", CATALOGUE.values(), ids=CATALOGUE)
def test_the_versions_are_those_that_are_pinned(controller: Controller) -> None:
    assert f"| `{controller.name}` | {controller.version}" in BUILT
    headings = UNMEASURED.get(controller.name) or re.findall(r"^## .*$", FACTS, re.MULTILINE)
    assert any(controller.version in heading for heading in headings)
