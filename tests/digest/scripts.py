"""A pytest plugin: `-p tests.digest.scripts --digests FILE` writes down the digests of the effects of each test."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.digest.effects import recorded

_PROPERTY = "digests of effects"
_found: dict[str, list[str]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--digests", type=Path, help="write the digests of the effects of each test into this file")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the effects of a test's cores, in its fixtures too. The report takes them to the process that writes."""
    with recorded() as streams:
        item.user_properties.append((_PROPERTY, streams))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace the records by their digests."""
    report = yield
    report.user_properties = [
        (name, [stream.digest for stream in value.values()] if name == _PROPERTY and isinstance(value, dict) else value)
        for name, value in item.user_properties
    ]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the digests of a test that has ended."""
    if report.when != "teardown":
        return
    for name, digests in report.user_properties:
        if name == _PROPERTY and isinstance(digests, list) and digests:
            _found[report.nodeid] = digests


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write them down, in the one process that has all of them."""
    path: Path | None = session.config.getoption("--digests")
    if path is not None and not hasattr(session.config, "workerinput"):
        path.write_text(json.dumps(_found, sort_keys=True))
