"""The actions and views of a scenario on a cluster. Two stages implement them: a simulated one and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from extender.api.models import GangView
from extender.core.gate.advisory import Mode
from extender.core.gate.steering import SteeringMode
from policies.model import Pod

Object = dict[str, Any]
"""A Kubernetes object, as in its manifest."""

BIND_TIMEOUT_S = 8.0
LONGEST_BACKOFF_S = 3.0
"""Shorter than as shipped, so that a deadline is soon over. The hold has to be longer than any backoff."""
PRIORITIES = {"high": 1000}
"""Priority classes that every stage has."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How Muster runs; without ``muster`` there is a stock kube-scheduler and nothing else."""

    muster: bool = True
    steering: SteeringMode = SteeringMode.NOMINATE
    mode: Mode = Mode.ENFORCE

    def settings(self) -> dict[str, Any]:
        """The changes to the settings that ship."""
        return {"bind_timeout_s": BIND_TIMEOUT_S, "steering": str(self.steering), "mode": str(self.mode)}


class Stage(Protocol):
    """A namespace with nodes of its own. Every ``until`` waits for changes, and raises TimeoutError in the end."""

    @property
    def namespace(self) -> str: ...

    @property
    def cliques(self) -> Mapping[str, str]:
        """Node -> the clique it was added to, for nodes that were."""

    # Acts of users and operators.

    def add_nodes(self, count: int, gpus: int = 8, *, clique: str = "") -> list[str]:
        """Add ready nodes, in the NVLink clique of that name if one is given; returns their names."""

    def remove_node(self, name: str) -> None: ...

    def cordon(self, name: str, *, on: bool = True) -> None: ...

    def create(self, *pods: Object) -> None:
        """Create the pods one after the other, in that order. They can use the stage's nodes only."""

    def create_all(self, pods: Iterable[Object]) -> None:
        """Create the pods as fast as the API server takes them, in no certain order."""

    def create_until(self, pods: Iterable[Object], holds: Callable[[Pod], bool]) -> None:
        """The same, but return at the first change of a pod after which this holds for it."""

    def delete(self, *names: str) -> None:
        """Delete pods without grace."""

    def succeed(self, *names: str) -> None:
        """The containers of these bound pods end well; returns when they have."""

    def open_gate(self, name: str, gate: str) -> None:
        """Take the scheduling gate off the pod, as the client that has put it there does."""

    def set_group(self, name: str, min_member: int) -> None:
        """Create a PodGroup object, or edit the one that is there."""

    def remove_group(self, name: str) -> None: ...

    # Faults of processes.

    def kill_extender(self) -> None: ...

    def start_extender(self) -> None:
        """Returns when it is ready."""

    def kill_scheduler(self) -> None: ...

    def start_scheduler(self) -> None: ...

    def stop_scheduler_after(self, pods: int) -> None:
        """Let the next ``pods`` pods pass filter; kube-scheduler stands still at the one after them."""

    def let_scheduler_go_on(self) -> None: ...

    # Views.

    def pods(self) -> list[Pod]:
        """In no certain order."""

    def gangs(self) -> dict[str, GangView]:
        """The gangs as Muster reports them, by name; empty without Muster."""

    def held(self) -> int:
        """How many bind requests are held."""

    def filter_calls(self) -> int:
        """How often kube-scheduler has called filter since Muster was started."""

    def advised(self, verdict: str) -> int:
        """How often Muster, in advisory mode, would have said so."""

    def until(self, holds: Callable[[Sequence[Pod]], bool]) -> Sequence[Pod]:
        """Wait until the pods are so."""

    def until_told(self, gang: str, holds: Callable[[GangView], bool]) -> GangView:
        """Wait until Muster says so of the gang."""

    def until_held(self, holds: Callable[[int], bool]) -> None: ...
