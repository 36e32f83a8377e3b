"""The nouns every decision is made of: nodes, pods, pod groups. All are immutable values.

Amounts are integers: cpu in millicores, everything else in its base unit (bytes, devices, pods).
"""

from policies.model.group import Dialect, GroupKey, GroupRef, Placement, PodGroup
from policies.model.node import CLIQUE, Node, Requests, Requirement, Selection, Taint, Toleration
from policies.model.pod import GANG_GATE, Controller, Pod, SlotKey, Stamp
from policies.model.topology import NO_LEVEL, Topology
from policies.model.workload import Job, PlannedNodes, PodSet, PodSets

__all__ = [
    "CLIQUE",
    "GANG_GATE",
    "NO_LEVEL",
    "Controller",
    "Dialect",
    "GroupKey",
    "GroupRef",
    "Job",
    "Node",
    "Placement",
    "PlannedNodes",
    "Pod",
    "PodGroup",
    "PodSet",
    "PodSets",
    "Requests",
    "Requirement",
    "Selection",
    "SlotKey",
    "Stamp",
    "Taint",
    "Toleration",
    "Topology",
]
