"""Every answer of the API, field by field: docs/api.md has the same tables.

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
    """When a waiting gang is expected to start, by what is known of how long running workloads take."""

    start: datetime = Field(description="The start.", examples=["2026-11-21T14:20:00Z"])
    earliest: datetime = Field(
        description="Begin of the span in which nine of ten such starts came.", examples=["2026-11-21T14:05:00Z"]
    )
    latest: datetime = Field(description="End of that span.", examples=["2026-11-21T16:40:00Z"])
    as_of: datetime = Field(description="When this was worked out.", examples=["2026-11-21T12:00:00Z"])
    after: str = Field(
        default="",
        description="Workload after whose end it starts, as NAMESPACE/NAME; else empty.",
        examples=["team-a/llm-3"],
    )
    rests_on: str = Field(
        default="",
        description="How the duration of that workload is known, in words.",
        examples=["its author's estimate of 6 h"],
    )


class ProfileLoad(BaseModel):
    """The utilisation of MIG instances of one profile."""

    gpus: int = Field(description="Instances that have been measured.", examples=[2])
    percent: float = Field(description="The mean of their utilisation.", examples=[54.2])


class UtilisationView(BaseModel):
    """How busy GPUs are, by DCGM exporter: the mean of the last time, as long as the setting `idle_after_s` says.

    GPUs count that were measured for all of that time, by the same pod.
    """

    percent: float = Field(description="The mean over its GPUs.", examples=[3.1])
    gpus: int = Field(description="GPUs, or MIG instances, that have been measured.", examples=[16])
    idle_gpus: int = Field(
        description="Of these, GPUs of gangs that leave them idle: all its members run and have been measured, and the "
        "mean is below the setting `idle_below_percent`.",
        examples=[16],
    )
    window_s: int = Field(description="How long that time is, in seconds.", examples=[1800])
    mig: dict[str, ProfileLoad] = Field(
        default={}, description="MIG instances, by profile.", examples=[{"1g.10gb": {"gpus": 2, "percent": 54.2}}]
    )


class NodeLoad(BaseModel):
    """The utilisation of a node."""

    node: str = Field(description="Name of the node.", examples=["node-1"])
    utilisation: UtilisationView = Field(description="That of its GPUs, also of those that no pod has.")


class UtilisationReport(BaseModel):
    """Where utilisation is known from, and that of each node."""

    on: bool = Field(description="Whether the setting prometheus_url names a Prometheus.", examples=[True])
    problem: str = Field(
        description="Why utilisation is not known; else empty. Not stable: do not parse it.",
        examples=["no answer from http://prometheus:9090: ConnectError"],
    )
    ago_s: float | None = Field(
        description="Seconds since the last measurements came; null before the first.", examples=[12.5]
    )
    window_s: int = Field(description="Seconds over which means are taken, the setting idle_after_s.", examples=[1800])
    below_percent: float = Field(
        description="The utilisation below which a gang is idle, the setting idle_below_percent.", examples=[10.0]
    )
    gpus: int = Field(description="GPUs, and MIG instances, that have been measured.", examples=[144])
    nodes: list[NodeLoad] = Field(description="The nodes with such GPUs, by name.")


class MemberView(BaseModel):
    """A pod of a gang."""

    name: str = Field(description="Name of the pod.", examples=["train-0"])
    uid: str = Field(
        description="UID of the pod.",
        examples=["0b1c6f5e-8f0e-4d2e-9f0e-3a0f5d1f6a11"],
    )
    node: str | None = Field(description="Node that it is bound to, or planned for.", examples=["node-1"])
    state: str = Field(
        description="Waiting, Gated, Placed, Held, Binding or Bound; of a pod that has ended, its phase.",
        examples=["Bound"],
    )


class GangView(BaseModel):
    """A gang, or a job that is admitted as one, and why it is where it is."""

    namespace: str = Field(description="Namespace of its pods.", examples=["team-a"])
    name: str = Field(description="Name of the gang; of a job, its kind and name.", examples=["job-train"])
    state: str = Field(description="Reason code: docs/waiting.md lists them.", examples=["NoRoom"])
    message: str = Field(
        description="The reason in words, with the current numbers. Not stable: do not parse it.",
        examples=["1 of 2 members fit at once"],
    )
    for_s: float = Field(description="Seconds since it got this reason code.", examples=[72.5])
    min_member: int | None = Field(
        description="Pods that start together; null while nothing says how many.", examples=[2]
    )
    members: int = Field(description="Pods that exist and have not ended.", examples=[2])
    bound: int = Field(description="Members that have a node.", examples=[0])
    held: int = Field(description="Members whose bind request waits for the rest of the gang.", examples=[0])
    waiting: int = Field(description="Members without a node and without a plan for one.", examples=[2])
    waiting_on_nodes: dict[str, float] = Field(
        default={},
        description="Nodes that kube-scheduler refused, and the seconds until each is tried again.",
        examples=[{"node-3": 12.5}],
    )
    pods: list[MemberView] = Field(description="Its members.")
    story: list[tuple[float, str]] = Field(
        description="What happened to it, oldest first: seconds ago, and the event in words.",
        examples=[[[72.5, "NoRoom: 1 of 2 members fit at once"]]],
    )
    status: Status = Field(
        default="",
        description="Where it stands, in one word: docs/waiting.md lists them. Empty where Muster was not asked.",
        examples=["PENDING"],
    )
    status_for_s: float = Field(default=0.0, description="Seconds since it got this status.", examples=[72.5])
    statuses: list[tuple[float, Status]] = Field(
        default=[],
        description="Its last 16 changes of status, oldest first: seconds ago, and the status that it got.",
        examples=[[[72.5, "PENDING"]]],
    )
    objects: list[str] = Field(
        default=[],
        description="What makes its pods, and its PodGroup, each as KIND/NAME in lower case.",
        examples=[["job/train"]],
    )
    expected: ExpectedStart | None = Field(
        default=None, description="When it is expected to start; null unless it waits for room or quota, or if unknown."
    )
    utilisation: UtilisationView | None = Field(
        default=None, description="How busy its GPUs are; null if that is not known, or not yet."
    )


class PlaceView(BaseModel):
    """A place where members are, or are planned to go."""

    name: str = Field(description="A domain of the nearest level, or a node that is in none.", examples=["clique-a"])
    members: int = Field(description="Members there.", examples=[2])


class DomainRoom(BaseModel):
    """The room that a domain has for a gang that waits."""

    name: str = Field(description="Name of the domain.", examples=["clique-a"])
    nodes: int = Field(description="Nodes in it.", examples=[18])
    free: int = Field(description="Members that fit there now.", examples=[1])
    want: int = Field(description="Members that it would have to take.", examples=[2])
    closed: int = Field(description="Nodes with room that the gang cannot use.", examples=[0])
    held_by: list[str] = Field(description="Workloads that have room there.", examples=[["team-b/eval (2 nodes)"]])
    reason: str = Field(description="The same in words.", examples=["1 node short; held by team-b/eval (2 nodes)"])


class VictimView(BaseModel):
    """A workload that is evicted for a waiting gang, or would be if preemption were on."""

    name: str = Field(description="Name of the workload, or `pod NAMESPACE/NAME`.", examples=["team-b/eval"])
    told: str = Field(
        description="The reason that the victim is given.",
        examples=["preempted by team-a/job-train, which has priority 10 and lacked room"],
    )


class Explanation(BaseModel):
    """Why a gang waits or where it runs, and what would make it start."""

    gang: GangView = Field(description="The gang as in the list of gangs.")
    asks: list[str] = Field(
        description="What its members ask for, role by role.", examples=[["2 x 8 nvidia.com/gpu, required clique"]]
    )
    to_be_made: str = Field(
        default="",
        description="The pods of a job that has none yet, in words; else empty.",
        examples=["suspended: 2 pods of 8 GPUs are made when it starts"],
    )
    places: list[PlaceView] = Field(description="Where its members are or are planned to go.")
    level: str | None = Field(
        default=None, description="Label key of the level whose domains are listed.", examples=["nvidia.com/gpu.clique"]
    )
    required: bool = Field(
        default=False, description="Whether one domain has to hold the gang; else it may be divided.", examples=[True]
    )
    domains: list[DomainRoom] = Field(default=[], description="The domains with most room first; at most 64.")
    domains_in_all: int = Field(default=0, description="Number of domains of that level.", examples=[14])
    remedies: list[str] = Field(
        description="What would make it start, in words.", examples=[["1 more node with 8 GPUs free in clique a"]]
    )
    preemption: str = Field(
        default="",
        description="Whether other workloads are evicted for it, or would be; empty where that does not matter.",
        examples=["preemption is off; on, 1 workload would be evicted for it"],
    )
    victims: list[VictimView] = Field(default=[], description="Those workloads.")
    expected_start: str = Field(
        default="",
        description="When it is expected to start and what that rests on, in words; empty unless it waits for room or "
        "quota.",
        examples=["expected 14:20 UTC (between 14:05 and 16:40), after team-a/llm-3 ends"],
    )


class PodMove(BaseModel):
    """A pod that would get a node, or another one."""

    pod: str = Field(description="Name of the pod.", examples=["llm-3-0"])
    before: str = Field(default="", description="Node that it has; empty if it waits.", examples=["node-7"])
    after: str = Field(description="Node that it would get.", examples=["node-2"])


class MoveView(BaseModel):
    """A restartable workload that would have to move."""

    workload: str = Field(description="The workload, as NAMESPACE/NAME.", examples=["team-a/job-llm-3"])
    devices: int = Field(description="GPUs and other devices that it has.", examples=[16])
    pods: list[PodMove] = Field(description="Its pods.")
    lost_s: float = Field(
        description="Seconds of work that it would repeat, since its last checkpoint or its start.", examples=[1800]
    )
    lost_device_hours: float = Field(description="The same, times its devices, in hours.", examples=[8.0])
    checkpointed: bool = Field(
        default=False, description="Whether it says when it last wrote a checkpoint: muster.dev/checkpointed-at."
    )


class DefragView(BaseModel):
    """Which running workloads would have to move so that a waiting gang has room. Nothing is moved."""

    namespace: str = Field(description="Namespace of the gang.", examples=["team-a"])
    name: str = Field(description="Name of the gang; of a job, its kind and name.", examples=["job-train"])
    why_not: str = Field(
        default="",
        description="Why no moves would help, in words; empty if some would.",
        examples=["it has room now, and starts by itself"],
    )
    moves: list[MoveView] = Field(
        default=[], description="The moves in their order: each goes to room that is free when its turn comes."
    )
    pods: list[PodMove] = Field(default=[], description="The pods of the gang, which starts after the moves.")


class QuotaView(BaseModel):
    """Quota of one flavor and resource. Amounts of cpu are in millicores, of everything else in its base unit."""

    flavor: str = Field(description="Name of the ResourceFlavor.", examples=["a100"])
    resource: str = Field(description="Name of the resource.", examples=["nvidia.com/gpu"])
    nominal: int = Field(description="Its own quota; of a cohort, with all that is in it.", examples=[32])
    used: int = Field(description="Used by admitted workloads.", examples=[24])
    borrowed: int = Field(description="Used beyond its own quota.", examples=[0])
    lent: int = Field(description="Of its own quota, what others use and it could not have back now.", examples=[8])
    most: int | None = Field(
        default=None,
        description="Of a ClusterQueue, the most that it may use with all that it may borrow; null without a limit.",
        examples=[48],
    )


class WaitingView(BaseModel):
    """A workload that waits in a queue."""

    namespace: str = Field(description="Namespace of the workload.", examples=["team-a"])
    name: str = Field(description="Name of the workload, as in the list of gangs.", examples=["job-train"])
    state: str = Field(description="Reason code: docs/waiting.md lists them.", examples=["NoQuota"])
    message: str = Field(description="The reason in words. Not stable: do not parse it.", examples=["lacks 8 GPUs"])
    for_s: float = Field(description="Seconds since it got this reason code.", examples=[72.5])
    position: int = Field(default=0, description="Its place among those that wait in the queue, from 1.", examples=[1])


class QueueView(BaseModel):
    """A Cohort, ClusterQueue or LocalQueue."""

    kind: str = Field(description="Cohort, ClusterQueue or LocalQueue.", examples=["ClusterQueue"])
    namespace: str = Field(description="Of a LocalQueue, its namespace; else empty.", examples=[""])
    name: str = Field(description="Name of the object.", examples=["team-a-queue"])
    parent: str = Field(
        description="The cohort that it is in, or the ClusterQueue that a LocalQueue points to; empty for none.",
        examples=["research"],
    )
    reserving: int = Field(description="Workloads that have quota.", examples=[3])
    admitted: int = Field(description="Workloads that have quota and nodes.", examples=[3])
    pending: int = Field(description="Workloads that wait.", examples=[1])
    quotas: list[QuotaView] = Field(description="Its quota by flavor and resource; of a LocalQueue, what it uses.")
    share: int | None = Field(
        description="With fair sharing, its weighted share in thousandths; else null.", examples=[750]
    )
    waiting: list[WaitingView] = Field(
        description="Of a ClusterQueue, the first 100 workloads that wait, in their order."
    )
    problems: list[str] = Field(description="Why it admits nothing.", examples=[["there is no ResourceFlavor h100"]])
    warnings: list[str] = Field(description="What is wrong with it besides.", examples=[[]])
    utilisation: UtilisationView | None = Field(
        default=None, description="Of a ClusterQueue, how busy the GPUs of its gangs are; null if that is not known."
    )


class DomainView(BaseModel):
    """A domain of a level."""

    name: str = Field(description="Value of the level's label.", examples=["clique-a"])
    nodes: int = Field(description="Nodes in it.", examples=[18])
    inside: str | None = Field(
        description="Its domain of the next level farther out; null for none.", examples=["block-1"]
    )


class LevelView(BaseModel):
    """A level of the topology."""

    name: str = Field(description="Short name of the level.", examples=["clique"])
    key: str = Field(description="Key of its label on nodes.", examples=["nvidia.com/gpu.clique"])
    domains: list[DomainView] = Field(description="Its domains, by name.")
    outside: int = Field(description="Nodes without the label.", examples=[0])
    contradictions: list[str] = Field(
        description="Domains whose nodes are in two domains of a level farther out.", examples=[[]]
    )


class TopologyView(BaseModel):
    """The levels in force."""

    configured: bool = Field(
        description="Whether the setting topology_levels names them; else they are detected by labels.",
        examples=[False],
    )
    levels: list[LevelView] = Field(description="The levels, nearest first.")


class DeviceStock(BaseModel):
    """Devices of a domain that drivers publish (DRA), by what pods ask for. Where no pod asks for them: by driver."""

    name: str = Field(
        description="DeviceClass, with what else pods ask of a device; or the driver.", examples=["gpu.nvidia.com"]
    )
    devices: int = Field(description="Devices of its nodes.", examples=[72])
    free: int = Field(description="Devices that no claim has and no gang is promised.", examples=[8])
    promised: int = Field(description="Devices that gangs are promised, and that no claim has yet.", examples=[0])
    used: int = Field(description="Devices that a claim has.", examples=[64])


class ComputeDomainView(BaseModel):
    """A ComputeDomain of NVIDIA's driver, and the workloads that have its channels."""

    namespace: str = Field(description="Namespace of the object.", examples=["team-a"])
    name: str = Field(description="Name of the object.", examples=["train"])
    uid: str = Field(description="Its UID, with which the driver labels nodes.", examples=["5f1c9a3e"])
    num_nodes: int = Field(description="What its spec says; 0 for any number.", examples=[0])
    members: int = Field(description="Pods that have, or are to have, a channel of it.", examples=[16])
    workloads: list[str] = Field(
        description="Gangs, and pods without a gang, with a channel of it, as NAMESPACE/NAME.",
        examples=[["team-a/job-train"]],
    )
    nodes: int = Field(description="Nodes that the driver has prepared for it.", examples=[16])
    cliques: list[str] = Field(description="The NVLink domains of these nodes.", examples=[["clique-a"]])
    problems: list[str] = Field(description="What is odd about it.", examples=[[]])


class DomainStock(BaseModel):
    """The nodes and GPUs of a domain; the nodes in no domain of a level are an entry without a name."""

    level: str = Field(description="Short name of the level.", examples=["clique"])
    name: str = Field(description="Name of the domain; empty for nodes without the label.", examples=["clique-a"])
    inside: str | None = Field(
        description="Its domain of the next level farther out; null for none.", examples=["block-1"]
    )
    nodes: int = Field(description="Nodes in it.", examples=[18])
    open: int = Field(description="Nodes that are ready and not cordoned.", examples=[18])
    whole: int = Field(description="Open nodes all of whose GPUs are free.", examples=[4])
    gpus: int = Field(description="GPUs of its nodes.", examples=[144])
    free_gpus: int = Field(description="GPUs that are free on open nodes.", examples=[32])
    gangs: list[str] = Field(
        description="Gangs with bound or planned members there, as NAMESPACE/NAME.", examples=[["team-a/job-train"]]
    )
    devices: list[DeviceStock] = Field(default=[], description="Devices of its nodes that drivers publish (DRA).")


class DifferenceView(BaseModel):
    """A fact about an object that would be different after a restart."""

    kind: str = Field(
        description="claims, room, quota, members, pending or statuses: docs/self-repair.md.", examples=["claims"]
    )
    object: str = Field(description="The object, for people.", examples=["pod team-a/train-0"])
    running: str = Field(
        description="What is known of it, in words.", examples=["bound on node-1 with 1 cpu, 8 nvidia.com/gpu"]
    )
    rebuilt: str = Field(description="What a restart would know, in words.", examples=["no room"])


class VerifyView(BaseModel):
    """The self-check: what the last round found, and whether one is under way."""

    rounds: int = Field(description="Rounds that have ended since the process began.", examples=[12])
    under_way: bool = Field(description="Whether a round is under way or about to begin.", examples=[False])
    confirming: bool = Field(
        description="Whether the first check of this round has found differences, and a second one confirms them.",
        examples=[False],
    )
    progress: float = Field(description="Share of the check under way that is done, 0 to 1.", examples=[0.0])
    every_s: float = Field(description="Seconds between two rounds, the setting verify_every_s.", examples=[600.0])
    restarts: int = Field(description="Starts of a new core because of differences.", examples=[0])
    problem: str = Field(description="Why the last round has no result; empty if it has one.", examples=[""])
    ago_s: float | None = Field(
        description="Seconds since the last round ended; null before the first.", examples=[72.5]
    )
    seconds: float = Field(description="Seconds that its last check took.", examples=[4.2])
    differences: list[DifferenceView] = Field(description="Differences that two checks of it found.")
    unconfirmed: int = Field(
        description="Differences that only one check of it found: what was compared has changed in between.",
        examples=[0],
    )
    compared: dict[str, int] = Field(
        description="How many facts of each kind were compared.", examples=[{"claims": 4096, "room": 512}]
    )
    left_out: dict[str, int] = Field(
        description="How many workloads were left out, by the reason in words. Not stable: do not parse it.",
        examples=[{"its members are promised nodes": 2}],
    )


class Problem(BaseModel):
    """Why a request was not answered (RFC 9457), with the content type application/problem+json."""

    type: str = Field(
        default=BY_STATUS,
        description=f"`{NO_SUCH_GANG}`, or `{BY_STATUS}`: then the status says all.",
        examples=[NO_SUCH_GANG],
    )
    title: str = Field(description="The HTTP status in words.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(
        description="The problem in a sentence, for people.", examples=["there is no gang team-a/job-train"]
    )
