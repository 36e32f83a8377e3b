"""Another scheduler, which knows nothing of what gangs demand of other pods, binds pods beside them."""

from __future__ import annotations

from collections.abc import Callable

from policies.model import Constraints, HostPort, Requirement, Term
from tests.simulation.object_faults import bind_foreign
from tests.simulation.trouble import Trouble

_MEMBERS = (Requirement("tier", "In", ("train",)),)


def foreign_port(trouble: Trouble) -> None:
    bind_foreign(trouble, constraints=Constraints(ports=(HostPort(29500),)))


def foreign_aversion(trouble: Trouble) -> None:
    apart = Term("kubernetes.io/hostname", _MEMBERS, ("default",))
    bind_foreign(trouble, constraints=Constraints(anti_affinity=(apart,)))


def foreign_data(trouble: Trouble) -> None:
    bind_foreign(trouble, labels=(("app", "data"),))


def foreign_member(trouble: Trouble) -> None:
    """It counts for the spread of gangs, and for what keeps away from them."""
    bind_foreign(trouble, labels=(("tier", "train"),))


RELATION_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "a foreign pod takes a port": foreign_port,
    "a foreign pod keeps members away": foreign_aversion,
    "a foreign data pod is bound": foreign_data,
    "a foreign pod counts as a member": foreign_member,
}
