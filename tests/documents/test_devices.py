"""docs/devices.md names a test for each form of request, and each form that the API has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.documents.pages import ROOT

PAGE = (ROOT / "docs" / "devices.md").read_text()
ROWS = re.findall(r"^\| (.+) \| (.*\*\*.+\*\*.*) \| (.+) \|$", PAGE, re.MULTILINE)
VERDICTS = {"counted", "passed through", "refused"}
HERE = "tests/core/test_device_claims.py"
FORMS = (
    *("exactly", "firstAvailable", "allocationMode: All", "adminAccess", "tolerations", "capacity", "constraints"),
    *("template", "several pods", "allocated", "extendedResourceName", "deviceclass.resource.kubernetes.io/CLASS"),
    *("MIG", "several nodes", "shared counters", "selector", "serve several claims", "does not exist"),
)


def named_in(cell: str) -> Iterator[tuple[str, str]]:
    """The file and the name of each test in a cell."""
    for named in re.findall(r"`([^`]+)`", cell):
        path, _, name = named.rpartition("::")
        yield path or HERE, name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_form_has_a_verdict_and_a_test_that_exists(row: tuple[str, str, str]) -> None:
    _, verdict, cell = row
    assert {*re.findall(r"\*\*(.+?)\*\*", verdict)} <= VERDICTS
    found = list(named_in(cell))
    assert found
    for path, name in found:
        assert f"\ndef {name}(" in (ROOT / path).read_text(), f"{path} has no test {name}"


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_api_is_in_the_table(form: str) -> None:
    assert any(form in request for request, _, _ in ROWS)
