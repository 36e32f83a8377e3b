"""The control plane for all facts, a namespace for each, and slow facts with `make facts` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devcluster import Cluster
from devcluster.scheduler import Scheduler
from tests.facts.place import Place
from tests.facts.recorder import Recorder, fact_of


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _recorder(config) is None:
        for item in items:
            if item.get_closest_marker("slow_fact"):
                item.add_marker(pytest.mark.skip(reason="a slow fact: make facts"))


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """The control plane is audited: the requests of the controllers to the API server can be counted."""
    with Cluster(audited=True) as running:
        yield running


@pytest.fixture(scope="package")
def scheduler(cluster: Cluster) -> Scheduler:
    """The stock kube-scheduler."""
    return cluster.start_scheduler()


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    """A namespace of one fact; its objects are gone after it."""
    with Place(cluster) as opened:
        yield opened


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[..., None]:
    """measured(name=value): a figure for the document. `make facts` writes it down."""
    recorder, known = _recorder(request.config), fact_of(request.node)
    assert known is not None, "only facts have figures"

    def note(**figures: float | str) -> None:
        if recorder is not None:
            recorder.figures.setdefault(known.id, {}).update(figures)

    return note


def _recorder(config: pytest.Config) -> Recorder | None:
    return next((plugin for plugin in config.pluginmanager.get_plugins() if isinstance(plugin, Recorder)), None)
