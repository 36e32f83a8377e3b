"""A scenario: a cluster, jobs and assumptions in one YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from extender.config.reading import NOT_YAML, RefusedYamlError, parse_yaml
from extender.simulation.replay.arrivals import LONGEST_S, Arrival
from extender.simulation.replay.course import Terms
from extender.simulation.replay.shape import InputError, Pool, pool_of, pools_from
from policies.words import twice

_TERMS = Terms()
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_REWORDED = {
    "extra_forbidden": "nothing is called that here",
    "model_type": "should be names with values, like {name: value}",
    "list_type": "should be a list",
    "string_pattern_mismatch": "should be of lower-case letters, digits and dashes",
    "missing": "is missing",
}
"""Replacements for pydantic's messages, by type of error."""

Seconds = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Jobs, and where and how they run.

    ``pools``: empty if the command line decides.
    ``left_out``: sentences on parts of the input that are no jobs.
    """

    title: str
    arrivals: list[Arrival]
    pools: list[Pool]
    terms: Terms
    left_out: tuple[str, ...] = ()


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_yes_or_no(cls, values: Any) -> Any:
        """Refuse truth values: YAML reads yes, no, on and off as such, and pydantic reads those as 1 and 0."""
        if isinstance(values, dict) and (wrong := [name for name, value in values.items() if isinstance(value, bool)]):
            raise ValueError(f"{wrong[0]} is {str(values[wrong[0]]).lower()}, which is neither a number nor a name")
        return values


class _PoolEntry(_Strict):
    name: str = Field("", pattern=f"^({_NAME})?$")
    nodes: int = Field(ge=1, le=100_000)
    platform: str = ""
    gpus: int | None = Field(None, ge=0, le=1024)
    clique: int = Field(0, ge=0)
    labels: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> _PoolEntry:
        if self.platform and (self.gpus is not None or self.clique):
            raise ValueError("a pool of a platform has the GPUs and cliques of that platform")
        if not self.platform and self.gpus is None:
            raise ValueError("it needs gpus or a platform")
        return self

    def pool(self) -> Pool:
        """The pool. Raises InputError for an unknown platform."""
        labels = tuple(sorted(self.labels.items()))
        if self.platform:
            return pool_of(self.platform, self.nodes, self.name, labels)
        return Pool(self.nodes, self.gpus or 0, self.clique, self.name, labels)


class _JobEntry(_Strict):
    """A job of the file; ``copies`` of it are submitted at intervals of ``every_s`` seconds."""

    name: str = Field(pattern=f"^{_NAME}$", max_length=200)
    submit_s: Seconds = 0.0
    pods: int = Field(ge=1, le=100_000)
    gpus: int = Field(ge=1, le=1024)
    duration_s: Seconds = Field(gt=0)
    priority: int = Field(0, ge=-(2**31), le=2**31)
    min_member: int = Field(0, ge=0)
    queue: str = Field("", pattern=f"^({_NAME})?$", max_length=200)
    namespace: str = Field("default", pattern=f"^{_NAME}$", max_length=63)
    priority_class: str = ""
    copies: int = Field(1, ge=1, le=100_000)
    every_s: Seconds = 0.0

    @model_validator(mode="after")
    def _possible(self) -> _JobEntry:
        if self.min_member > self.pods:
            raise ValueError(f"min_member {self.min_member} is more than its {self.pods} pods")
        if self.submit_s + self.copies * self.every_s > LONGEST_S:
            raise ValueError(f"{self.copies} copies every {self.every_s:g} s would arrive over more than 300 years")
        return self


class _File(_Strict):
    cluster: list[_PoolEntry] = []
    start_s: Seconds = _TERMS.start_s
    give_up_s: Seconds | None = Field(_TERMS.give_up_s, gt=0)
    until_s: Seconds | None = Field(None, gt=0)
    checkpoint_s: Seconds | None = Field(None, gt=0)
    jobs: list[_JobEntry] = Field(min_length=1)

    @model_validator(mode="after")
    def _ends(self) -> _File:
        if self.give_up_s is None and self.until_s is None:
            raise ValueError("jobs that never give up can hold GPUs for ever: then until_s has to be given")
        return self


def read_scenario(text: str, name: str, classes: Mapping[str, int]) -> Scenario:
    """Read a scenario. Raises InputError that lists all faults line by line.

    ``classes``: values of the WorkloadPriorityClasses by name.
    """
    values = _read(text)
    line = values.pop("cluster") if isinstance(values.get("cluster"), str) else ""
    try:
        file = _File.model_validate(values)
    except ValidationError as error:
        lines = (
            f"{'.'.join(map(str, fault['loc'])) or 'scenario'}: "
            + _REWORDED.get(fault["type"], fault["msg"].removeprefix("Value error, "))
            for fault in error.errors()
        )
        raise InputError("the scenario cannot be used:\n" + "\n".join(lines)) from None
    arrivals = [arrival for entry in file.jobs for arrival in _copies(entry, classes)]
    if (called := twice(arrival.name for arrival in arrivals)) is not None:
        raise InputError(f"two jobs of the scenario are called {called}")
    pools = pools_from(line) if line else [entry.pool() for entry in file.cluster]
    terms = Terms(file.start_s, file.give_up_s, until_s=file.until_s, checkpoint_s=file.checkpoint_s)
    return Scenario(f"Scenario {name}", sorted(arrivals, key=lambda arrival: arrival.submit_s), pools, terms)


def _read(text: str) -> dict[Any, Any]:
    try:
        values = parse_yaml(text)
    except RefusedYamlError as error:
        raise InputError(f"the scenario cannot be used: {error}") from None
    except NOT_YAML as error:
        raise InputError(f"the scenario is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise InputError("the scenario is not a mapping of names to values (docs/simulate.md shows one)")
    return values


def _copies(entry: _JobEntry, classes: Mapping[str, int]) -> list[Arrival]:
    if entry.priority_class and entry.priority_class not in classes:
        raise InputError(f"job {entry.name}: there is no WorkloadPriorityClass {entry.priority_class} in --queues")
    priority = classes.get(entry.priority_class, entry.priority)
    names = [entry.name] if entry.copies == 1 else [f"{entry.name}-{number}" for number in range(entry.copies)]
    return [
        Arrival(
            name,
            entry.submit_s + number * entry.every_s,
            entry.pods,
            entry.gpus,
            entry.duration_s,
            priority,
            entry.min_member,
            entry.queue,
            entry.namespace,
        )
        for number, name in enumerate(names)
    ]
