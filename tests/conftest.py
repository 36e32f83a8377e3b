"""What holds for every test."""

from __future__ import annotations

import pytest

_LONG = ("tests/facts/", "tests/integration/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes come first, so that no worker has one left when the others have ended; and all facts
    together, so that a worker starts one control plane for them."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
