"""The nouns of every decision: nodes, pods, gangs, jobs, queues, topology. All are immutable values.

Amounts are integers: cpu in millicores, everything else in its base unit (bytes, devices, pods).
"""

from policies.model.constraints import (
    HOSTNAME,
    UNCONSTRAINED,
    Constraints,
    HostPort,
    Labels,
    Preferred,
    Selector,
    Spread,
    Term,
)
from policies.model.duration import Basis, Duration, RunTerms
from policies.model.eviction import DisruptionBudget, EvictionTerms, Reservation, Victim
from policies.model.group import Controller, Dialect, GroupKey, GroupRef, Minima, Placement, PodGroup
from policies.model.node import CLIQUE, Node, Requests, Requirement, Selection, Taint, Terms, Toleration
from policies.model.pod import GANG_GATE, Pod, SlotKey, Stamp, stamped_group
from policies.model.topology import NO_LEVEL, Topology
from policies.model.workload import GangOwner, GroupJob, InVain, Job, NodeWait, Order, PlannedNodes, PodSet, PodSets

__all__ = [
    "CLIQUE",
    "GANG_GATE",
    "HOSTNAME",
    "NO_LEVEL",
    "UNCONSTRAINED",
    "Basis",
    "Constraints",
    "Controller",
    "Dialect",
    "DisruptionBudget",
    "Duration",
    "EvictionTerms",
    "GangOwner",
    "GroupJob",
    "GroupKey",
    "GroupRef",
    "HostPort",
    "InVain",
    "Job",
    "Labels",
    "Minima",
    "Node",
    "NodeWait",
    "Order",
    "Placement",
    "PlannedNodes",
    "Pod",
    "PodGroup",
    "PodSet",
    "PodSets",
    "Preferred",
    "Requests",
    "Requirement",
    "Reservation",
    "RunTerms",
    "Selection",
    "Selector",
    "SlotKey",
    "Spread",
    "Stamp",
    "Taint",
    "Term",
    "Terms",
    "Toleration",
    "Topology",
    "Victim",
    "stamped_group",
]
