"""Every answer of the API, field by field: docs/api.md has the same lists.

Field names are public. A later version may add a field, with a default, so that a client reads older answers; it
removes and renames none.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, WithJsonSchema

VERSION = "1"
PREFIX = f"/api/v{VERSION}"
PROBLEM = "application/problem+json"
"""The content type of a Problem."""
BY_STATUS, NO_SUCH_GANG = "about:blank", "urn:muster:no-such-gang"
"""The types of problems."""
STATUSES = ("PENDING", "PLANNED", "STARTING", "HOLDING", "RELEASING", "PARTIAL", "RUNNING", "STOPPING", "ENDED")
Status = Annotated[str, WithJsonSchema({"type": "string", "enum": [*STATUSES]})]
"""The client accepts any text: a later Muster may have more statuses, and an earlier one has none."""


class ExpectedStart(BaseModel):
    """The expected start of a waiting gang, by what is known of how long running workloads take."""

    start: datetime = Field(description="The expected start.", examples=["2026-11-21T14:20:00Z"])
    earliest: datetime = Field(
        description="Begin of the span in which nine of ten such starts came.", examples=["2026-11-21T14:05:00Z"]
    )
    latest: datetime = Field(description="End of that span.", examples=["2026-11-21T16:40:00Z"])
    as_of: datetime = Field(description="When this was worked out.", examples=["2026-11-21T12:00:00Z"])
    after: str = Field(
        default="",
        description="Workload after whose end it starts, as NAMESPACE/NAME.",
        examples=["team-a/llm-3"],
    )
    rests_on: str = Field(
        default="",
        description="How the duration of that workload is known, in words.",
        examples=["its author's estimate of 6 h"],
    )


class ProfileLoad(BaseModel):
    """The utilisation of MIG instances of one profile."""

    gpus: int = Field(description="Measured instances.", examples=[2])
    percent: float = Field(description="Their mean utilisation.", examples=[54.2])


class UtilisationView(BaseModel):
    """How busy GPUs are, by DCGM exporter: the mean over `window_s`.

    Only GPUs count that were measured for all of that time, and whose pod did not change.
    """

    percent: float = Field(description="Mean utilisation.", examples=[3.1])
    gpus: int = Field(description="Measured GPUs and MIG instances.", examples=[16])
    idle_gpus: int = Field(
        description="Of these, GPUs of idle gangs: all members run and have been measured, and the mean is below "
        "`idle_below_percent`.",
        examples=[16],
    )
    window_s: int = Field(description="The setting `idle_after_s`.", examples=[1800])
    mig: dict[str, ProfileLoad] = Field(
        default={}, description="MIG instances by profile.", examples=[{"1g.10gb": {"gpus": 2, "percent": 54.2}}]
    )


class NodeLoad(BaseModel):
    """The utilisation of a node."""

    node: str = Field(description="Its name.", examples=["node-1"])
    utilisation: UtilisationView = Field(description="That of all its GPUs, with or without pods.")


class UtilisationReport(BaseModel):
    """The utilisation of each node, and the source that it is known from."""

    on: bool = Field(description="Whether `prometheus_url` is set.", examples=[True])
    problem: str = Field(
        description="Why utilisation is not known, in words.",
        examples=["no answer from http://prometheus:9090: ConnectError"],
    )
    ago_s: float | None = Field(
        description="Seconds since the last measurements; null before the first.", examples=[12.5]
    )
    window_s: int = Field(description="The setting `idle_after_s`, over which means are taken.", examples=[1800])
    below_percent: float = Field(description="The setting `idle_below_percent`.", examples=[10.0])
    gpus: int = Field(description="Measured GPUs and MIG instances.", examples=[144])
    nodes: list[NodeLoad] = Field(description="Nodes with such GPUs, by name.")


class MemberView(BaseModel):
    """A pod of a gang."""

    name: str = Field(description="Its name.", examples=["train-0"])
    uid: str = Field(
        description="Its UID.",
        examples=["0b1c6f5e-8f0e-4d2e-9f0e-3a0f5d1f6a11"],
    )
    node: str | None = Field(description="Node that it is bound to or planned for.", examples=["node-1"])
    state: str = Field(
        description="Waiting, Gated, Placed, Held, Binding or Bound; the phase of an ended pod.",
        examples=["Bound"],
    )


class GangView(BaseModel):
    """A gang, or a job that is admitted as one."""

    namespace: str = Field(description="Its namespace.", examples=["team-a"])
    name: str = Field(description="Its name; of a job, with its kind.", examples=["job-train"])
    state: str = Field(description="Reason code (docs/waiting.md).", examples=["NoRoom"])
    message: str = Field(
        description="The reason in words.",
        examples=["1 of 2 members fit at once"],
    )
    for_s: float = Field(description="Seconds since the reason code changed.", examples=[72.5])
    min_member: int | None = Field(description="Pods that start together; null while unknown.", examples=[2])
    members: int = Field(description="Pods that exist and have not ended.", examples=[2])
    bound: int = Field(description="Members with a node.", examples=[0])
    held: int = Field(description="Members whose bind waits for the rest of the gang.", examples=[0])
    waiting: int = Field(description="Members with neither a node nor a plan.", examples=[2])
    waiting_on_nodes: dict[str, float] = Field(
        default={},
        description="Nodes that kube-scheduler refused, and the seconds until each is tried again.",
        examples=[{"node-3": 12.5}],
    )
    pods: list[MemberView] = Field(description="The members.")
    story: list[tuple[float, str]] = Field(
        description="Seconds ago and event, oldest first.",
        examples=[[[72.5, "NoRoom: 1 of 2 members fit at once"]]],
    )
    status: Status = Field(
        default="",
        description="Where it stands, in one word (docs/waiting.md).",
        examples=["PENDING"],
    )
    status_for_s: float = Field(default=0.0, description="Seconds since the status changed.", examples=[72.5])
    statuses: list[tuple[float, Status]] = Field(
        default=[],
        description="Seconds ago and new status of the last 16 changes, oldest first.",
        examples=[[[72.5, "PENDING"]]],
    )
    objects: list[str] = Field(
        default=[],
        description="The makers of its pods, and its PodGroup, as KIND/NAME in lower case.",
        examples=[["job/train"]],
    )
    expected: ExpectedStart | None = Field(
        default=None, description="Expected start; null if it waits for neither room nor quota, or if unknown."
    )
    utilisation: UtilisationView | None = Field(default=None, description="How busy its GPUs are; null if unknown.")


class PlaceView(BaseModel):
    """A place of members."""

    name: str = Field(description="Domain of the nearest level, or a node in none.", examples=["clique-a"])
    members: int = Field(description="Members there.", examples=[2])


class DomainRoom(BaseModel):
    """The room that a domain has for a gang that waits."""

    name: str = Field(description="Its name.", examples=["clique-a"])
    nodes: int = Field(description="Its nodes.", examples=[18])
    free: int = Field(description="Members that fit now.", examples=[1])
    want: int = Field(description="Members that it would have to take.", examples=[2])
    closed: int = Field(description="Nodes with room that the gang cannot use.", examples=[0])
    held_by: list[str] = Field(description="Workloads with room there.", examples=[["team-b/eval (2 nodes)"]])
    reason: str = Field(description="The same in words.", examples=["1 node short; held by team-b/eval (2 nodes)"])


class VictimView(BaseModel):
    """A workload that is evicted for a waiting gang, or would be if preemption were on."""

    name: str = Field(description="NAMESPACE/NAME, or `pod NAMESPACE/NAME`.", examples=["team-b/eval"])
    told: str = Field(
        description="The reason that the victim gets.",
        examples=["preempted by team-a/job-train, which has priority 10 and lacked room"],
    )


class ComputeDomainView(BaseModel):
    """A ComputeDomain of NVIDIA's driver."""

    namespace: str = Field(description="Its namespace.", examples=["team-a"])
    name: str = Field(description="Its name.", examples=["train"])
    uid: str = Field(description="Its UID, with which the driver labels nodes.", examples=["5f1c9a3e"])
    num_nodes: int = Field(description="`spec.numNodes`; 0 for any number.", examples=[0])
    members: int = Field(description="Pods that have or get a channel of it.", examples=[16])
    workloads: list[str] = Field(
        description="Gangs and single pods with a channel, as NAMESPACE/NAME.",
        examples=[["team-a/job-train"]],
    )
    nodes: int = Field(description="Nodes that the driver has prepared.", examples=[16])
    cliques: list[str] = Field(description="NVLink domains of these nodes.", examples=[["clique-a"]])
    problems: list[str] = Field(description="What is wrong with it.", examples=[[]])


class Explanation(BaseModel):
    """Why a gang waits or where it runs, and what would make it start."""

    gang: GangView = Field(description="As in the list of gangs.")
    asks: list[str] = Field(
        description="What its members ask for, by role.", examples=[["2 x 8 nvidia.com/gpu, required clique"]]
    )
    to_be_made: str = Field(
        default="",
        description="The pods of a job that has none yet, in words.",
        examples=["suspended: 2 pods of 8 GPUs are made when it starts"],
    )
    places: list[PlaceView] = Field(description="Where its members are or are planned.")
    level: str | None = Field(
        default=None, description="Label key of the level of `domains`.", examples=["nvidia.com/gpu.clique"]
    )
    required: bool = Field(default=False, description="Whether one domain has to hold the gang.", examples=[True])
    domains: list[DomainRoom] = Field(default=[], description="Up to 64 domains, most room first.")
    domains_in_all: int = Field(default=0, description="Number of domains of that level.", examples=[14])
    remedies: list[str] = Field(
        description="What would make it start, in words.", examples=[["1 more node with 8 GPUs free in clique a"]]
    )
    preemption: str = Field(
        default="",
        description="Whether others are or would be evicted for it; empty where that does not matter.",
        examples=["preemption is off; on, 1 workload would be evicted for it"],
    )
    victims: list[VictimView] = Field(default=[], description="Those workloads.")
    compute_domains: list[ComputeDomainView] = Field(
        default=[], description="ComputeDomains of which its pods have, or are to have, a channel."
    )
    expected_start: str = Field(
        default="",
        description="`gang.expected` in words.",
        examples=["expected 14:20 UTC (between 14:05 and 16:40), after team-a/llm-3 ends"],
    )


class PodMove(BaseModel):
    """A pod that would get a node, or another one."""

    pod: str = Field(description="Its name.", examples=["llm-3-0"])
    before: str = Field(default="", description="Its node; empty if it waits.", examples=["node-7"])
    after: str = Field(description="The node that it would get.", examples=["node-2"])


class MoveView(BaseModel):
    """A restartable workload that would have to move."""

    workload: str = Field(description="Its name, as NAMESPACE/NAME.", examples=["team-a/job-llm-3"])
    devices: int = Field(description="Its GPUs and other devices.", examples=[16])
    pods: list[PodMove] = Field(description="Its pods.")
    lost_s: float = Field(
        description="Seconds of work to repeat since its last checkpoint or its start.", examples=[1800]
    )
    lost_device_hours: float = Field(description="The same in hours, times its devices.", examples=[8.0])
    checkpointed: bool = Field(default=False, description="Whether it has the key muster.dev/checkpointed-at.")


class DefragView(BaseModel):
    """The running workloads that would have to move so that a waiting gang has room. Nothing is moved."""

    namespace: str = Field(description="Namespace of the gang.", examples=["team-a"])
    name: str = Field(description="Name of the gang.", examples=["job-train"])
    why_not: str = Field(
        default="",
        description="Why no moves would help, in words.",
        examples=["it has room now, and starts by itself"],
    )
    moves: list[MoveView] = Field(
        default=[], description="The moves in order: each goes to room that is free at that time."
    )
    pods: list[PodMove] = Field(default=[], description="The pods of the gang, which starts after the moves.")


class QuotaView(BaseModel):
    """Quota of one flavor and resource. Amounts of cpu are in millicores, of everything else in its base unit."""

    flavor: str = Field(description="Its ResourceFlavor.", examples=["a100"])
    resource: str = Field(description="Its resource.", examples=["nvidia.com/gpu"])
    nominal: int = Field(description="Its own quota; of a cohort, with all that is in it.", examples=[32])
    used: int = Field(description="Used by admitted workloads.", examples=[24])
    borrowed: int = Field(description="Used beyond its own quota.", examples=[0])
    lent: int = Field(description="Of its own quota, what others use and it could not have back now.", examples=[8])
    most: int | None = Field(
        default=None,
        description="The most that a ClusterQueue may use, borrowing included; null without a limit.",
        examples=[48],
    )


class WaitingView(BaseModel):
    """A workload that waits in a queue."""

    namespace: str = Field(description="Its namespace.", examples=["team-a"])
    name: str = Field(description="Its name, as in the list of gangs.", examples=["job-train"])
    state: str = Field(description="Reason code.", examples=["NoQuota"])
    message: str = Field(description="The reason in words.", examples=["lacks 8 GPUs"])
    for_s: float = Field(description="Seconds since the reason code changed.", examples=[72.5])
    position: int = Field(default=0, description="Its place in the line, from 1.", examples=[1])


class QueueView(BaseModel):
    """A Cohort, ClusterQueue or LocalQueue."""

    kind: str = Field(description="Which of the three.", examples=["ClusterQueue"])
    namespace: str = Field(description="Namespace of a LocalQueue.", examples=[""])
    name: str = Field(description="Its name.", examples=["team-a-queue"])
    parent: str = Field(
        description="Its cohort; of a LocalQueue, its ClusterQueue.",
        examples=["research"],
    )
    reserving: int = Field(description="Workloads with quota.", examples=[3])
    admitted: int = Field(description="Workloads with quota and nodes.", examples=[3])
    pending: int = Field(description="Workloads that wait.", examples=[1])
    quotas: list[QuotaView] = Field(description="Quota by flavor and resource; of a LocalQueue, its use.")
    share: int | None = Field(description="Weighted share in thousandths; null without fair sharing.", examples=[750])
    waiting: list[WaitingView] = Field(description="Of a ClusterQueue, the first 100 workloads that wait, in order.")
    problems: list[str] = Field(description="Why it admits nothing.", examples=[["there is no ResourceFlavor h100"]])
    warnings: list[str] = Field(description="Other mistakes in it.", examples=[[]])
    utilisation: UtilisationView | None = Field(
        default=None, description="How busy the GPUs of a ClusterQueue's gangs are; null if unknown."
    )


class DomainView(BaseModel):
    """A domain of a level."""

    name: str = Field(description="Value of the level's label.", examples=["clique-a"])
    nodes: int = Field(description="Its nodes.", examples=[18])
    inside: str | None = Field(description="Its domain of the next level farther out.", examples=["block-1"])


class LevelView(BaseModel):
    """A level of the topology."""

    name: str = Field(description="Its short name.", examples=["clique"])
    key: str = Field(description="Key of its label on nodes.", examples=["nvidia.com/gpu.clique"])
    domains: list[DomainView] = Field(description="Its domains, by name.")
    outside: int = Field(description="Nodes without the label.", examples=[0])
    contradictions: list[str] = Field(
        description="Domains whose nodes are in two domains of a level farther out.", examples=[[]]
    )


class TopologyView(BaseModel):
    """The levels in force."""

    configured: bool = Field(
        description="Whether `topology_levels` is set; else levels are detected by labels.",
        examples=[False],
    )
    levels: list[LevelView] = Field(description="The levels, nearest first.")


class DeviceStock(BaseModel):
    """Devices of a domain that drivers publish (DRA), by what pods ask for, else by driver."""

    name: str = Field(
        description="DeviceClass, with what else pods ask of a device; or the driver.", examples=["gpu.nvidia.com"]
    )
    devices: int = Field(description="All devices.", examples=[72])
    free: int = Field(description="Devices neither claimed nor promised.", examples=[8])
    promised: int = Field(description="Devices promised to gangs and not yet claimed.", examples=[0])
    used: int = Field(description="Claimed devices.", examples=[64])


class DomainStock(BaseModel):
    """The nodes and GPUs of a domain. Nodes in no domain are an entry without a name."""

    level: str = Field(description="Short name of the level.", examples=["clique"])
    name: str = Field(description="Its name; empty for nodes without the label.", examples=["clique-a"])
    inside: str | None = Field(description="Its domain of the next level farther out.", examples=["block-1"])
    nodes: int = Field(description="Its nodes.", examples=[18])
    open: int = Field(description="Nodes that are ready and not cordoned.", examples=[18])
    whole: int = Field(description="Open nodes all of whose GPUs are free.", examples=[4])
    gpus: int = Field(description="GPUs of its nodes.", examples=[144])
    free_gpus: int = Field(description="Free GPUs of open nodes.", examples=[32])
    gangs: list[str] = Field(
        description="Gangs with bound or planned members, as NAMESPACE/NAME.", examples=[["team-a/job-train"]]
    )
    devices: list[DeviceStock] = Field(default=[], description="Devices that drivers publish (DRA).")


class DifferenceView(BaseModel):
    """A fact about an object that would be different after a restart."""

    kind: str = Field(description="What differs (docs/self-repair.md).", examples=["claims"])
    object: str = Field(description="The object, for people.", examples=["pod team-a/train-0"])
    running: str = Field(
        description="What is known of it now, in words.", examples=["bound on node-1 with 1 cpu, 8 nvidia.com/gpu"]
    )
    rebuilt: str = Field(description="What a restart would know, in words.", examples=["no room"])


class VerifyView(BaseModel):
    """The self-check: its last round, and whether one is under way."""

    rounds: int = Field(description="Ended rounds since the process began.", examples=[12])
    under_way: bool = Field(description="Whether a round runs or is about to begin.", examples=[False])
    confirming: bool = Field(
        description="Whether its first check found differences, and a second one runs.",
        examples=[False],
    )
    progress: float = Field(description="Done share of the running check, 0 to 1.", examples=[0.0])
    every_s: float = Field(description="The setting `verify_every_s`.", examples=[600.0])
    restarts: int = Field(description="Starts of a new core because of differences.", examples=[0])
    problem: str = Field(description="Why the last round has no result.", examples=[""])
    ago_s: float | None = Field(
        description="Seconds since the last round ended; null before the first.", examples=[72.5]
    )
    seconds: float = Field(description="Seconds that its last check took.", examples=[4.2])
    differences: list[DifferenceView] = Field(description="Differences that both checks found.")
    unconfirmed: int = Field(
        description="Differences that one check found: the objects changed in between.",
        examples=[0],
    )
    compared: dict[str, int] = Field(description="Compared facts, by kind.", examples=[{"claims": 4096, "room": 512}])
    left_out: dict[str, int] = Field(
        description="Workloads that were left out, by the reason in words.",
        examples=[{"its members are promised nodes": 2}],
    )


class Problem(BaseModel):
    """Why a request was not answered (RFC 9457, `application/problem+json`)."""

    type: str = Field(
        default=BY_STATUS,
        description=f"`{NO_SUCH_GANG}`, or `{BY_STATUS}`: then the status says all.",
        examples=[NO_SUCH_GANG],
    )
    title: str = Field(description="The HTTP status in words.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(description="The problem in a sentence.", examples=["there is no gang team-a/job-train"])
