"""The messages between the extender and the dashboard, in both directions, over the one connection between them.

Both ends are of one release: fields may change from release to release. Texts have their mentions still marked
(``policies.model.mentions``): the dashboard renders them for each reader. Times that are "seconds ago" count back from
``Update.views_as_of``.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from extender.api.models import DeviceStock, Explanation, GangView, QueueView, TopologyView, UtilisationView

FEED_PATH = "/feed"
"""The path of the dashboard's WebSocket for the extender."""


class NodeWorkload(BaseModel):
    """A workload with room on a node."""

    namespace: str
    name: str = Field(description="Name of the gang, or `pod NAME` of a pod without a gang.")
    gpus: int = Field(description="GPUs that it has there.")
    promised: bool = Field(default=False, description="Whether it is yet to be bound there.")


class NodeView(BaseModel):
    """A node: where it is, how many GPUs it has, and which workloads have them."""

    name: str
    domains: dict[str, str] = Field(default={}, description="Short name of a level -> its domain, nearest first.")
    open: bool = Field(default=True, description="Whether it is ready and not cordoned.")
    gpus: int = 0
    used: int = Field(default=0, description="GPUs of bound pods.")
    promised: int = Field(default=0, description="GPUs that planned workloads are promised.")
    reserved: int = Field(default=0, description="GPUs kept for replacements, preemptors and reservations.")
    free: int = 0
    workloads: list[NodeWorkload] = Field(default=[], description="Those with GPUs of it.")
    devices: list[DeviceStock] = Field(default=[], description="Its devices that drivers publish (DRA).")
    problems: list[str] = Field(default=[], description="What is wrong with it, in words.")


class Load(BaseModel):
    """How busy the GPUs of a gang or a node are."""

    namespace: str = Field(default="", description="Empty for a node.")
    name: str
    utilisation: UtilisationView | None = Field(default=None, description="None: not known any more.")


class Happening(BaseModel):
    """A start or an eviction."""

    at: float = Field(description="Seconds since 1970.")
    kind: str = Field(description="start or eviction.")
    waited_s: float = Field(default=0.0, description="Of a start, how long the workload waited.")


class Update(BaseModel):
    """Changes since the last update. The first one of a connection has everything.

    Views are as of one instant, that of the connection, so that a view changes only when its workload does.
    """

    number: int = Field(description="Counts the updates of a connection from 0: a gap means that one was lost.")
    as_of: float = Field(description="When it was made, in seconds since 1970.")
    views_as_of: float = Field(description="When the connection began. Seconds in views count back from there.")
    whole: bool = Field(default=False, description="Whether all that was known before is dropped.")
    more: bool = Field(default=False, description="Whether it goes on in the next one, which follows at once.")
    gangs: list[GangView] = []
    gone_gangs: list[tuple[str, str]] = []
    nodes: list[NodeView] = []
    gone_nodes: list[str] = []
    gang_loads: list[Load] = Field(default=[], description="Apart from the gangs: a measurement changes most of them.")
    node_loads: list[Load] = []
    queues: list[QueueView] | None = Field(default=None, description="All of them, if any has changed.")
    topology: TopologyView | None = None
    happenings: list[Happening] = []


class Question(BaseModel):
    """A request of the dashboard for the explanation of one gang."""

    number: int
    namespace: str
    name: str


class Answer(BaseModel):
    """The answer to a question, with the explanation; None: there is no such gang."""

    answers: int = Field(description="The number of the question: updates have no such field.")
    explanation: Explanation | None = None
    failed: str = Field(default="", description="Why there is none, if it could not be made.")
