"""A component of the control plane that runs with other flags for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from devcluster import Cluster


@contextmanager
def restarted(cluster: Cluster, name: str, change: Callable[[list[str]], list[str]]) -> Iterator[None]:
    """Restart the component with the changed command line, and with its usual one at the end."""
    usual = cluster.process(name)
    as_usual = usual.request
    usual.kill()
    usual.request = {**as_usual, "argv": change(list(as_usual["argv"]))}
    other = cluster.again(usual)
    try:
        yield
    finally:
        other.kill()
        other.request = as_usual
        cluster.again(other)


def without(argv: list[str], *flags: str) -> list[str]:
    """The command line with these flags at their defaults."""
    return [word for word in argv if not word.startswith(tuple(f"{flag}=" for flag in flags))]
