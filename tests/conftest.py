"""Fixtures and settings for every test."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest

_LONG = ("tests/facts/", "tests/integration/")


def pytest_configure() -> None:
    """Let SIGINT end what tests start. A shell that starts pytest in the background has it ignored, by children too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes come first, so that no worker has one left when the others have ended; and all facts
    together, so that a worker starts one control plane for them."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates of hostile texts in logs and failures: a worker that has to report one would end."""
    report = yield
    report.sections = [(name, _encodable(text)) for name, text in report.sections]
    if report.failed and report.longreprtext != (text := _encodable(report.longreprtext)):
        report.longrepr = text
    return report


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
