"""A scenario: a cluster, jobs and assumptions in one YAML file."""

from __future__ import annotations

from dataclasses import dataclass

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from extender.simulate.arrivals import Arrival
from extender.simulate.course import Terms
from extender.simulate.shape import InputError, Pool, pools_from

_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the file says; ``pools`` is empty if it leaves the cluster to the command line."""

    arrivals: list[Arrival]
    pools: list[Pool]
    terms: Terms


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _PoolPart(_Part):
    name: str = Field("", pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")
    nodes: int = Field(ge=1, le=100_000)
    gpus: int = Field(ge=0, le=1024)
    clique: int = Field(0, ge=0)


class _JobPart(_Part):
    """``copies`` of a job are submitted ``every_s`` seconds."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    submit_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    pods: int = Field(ge=1, le=100_000)
    gpus: int = Field(ge=1, le=1024)
    duration_s: float = Field(gt=0, allow_inf_nan=False)
    priority: int = 0
    min_member: int = Field(0, ge=0)
    copies: int = Field(1, ge=1, le=100_000)
    every_s: float = Field(0.0, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _possible(self) -> _JobPart:
        if self.min_member > self.pods:
            raise ValueError(f"min_member {self.min_member} is more than its {self.pods} pods")
        return self


class _File(_Part):
    cluster: str | list[_PoolPart] = ""
    start_s: float = Field(_TERMS.start_s, ge=0, allow_inf_nan=False)
    give_up_s: float | None = Field(_TERMS.give_up_s, gt=0, allow_inf_nan=False)
    until_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    jobs: list[_JobPart] = Field(min_length=1)

    @model_validator(mode="after")
    def _ends(self) -> _File:
        if self.give_up_s is None and self.until_s is None:
            raise ValueError("jobs that never give up can hold GPUs for ever: then until_s has to be given")
        return self


def read_scenario(text: str) -> Scenario:
    """Raises InputError, with everything that is wrong, line by line."""
    try:
        values = yaml.safe_load(text) or {}
        if not isinstance(values, dict):
            raise InputError("the scenario is not a mapping of names to values")
        file = _File.model_validate(values)
    except yaml.YAMLError as error:
        raise InputError(f"the scenario is not YAML: {error}") from None
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, one['loc'])) or 'scenario'}: {one['msg']}" for one in error.errors())
        raise InputError("the scenario cannot be used:\n" + "\n".join(lines)) from None
    arrivals = [one for part in file.jobs for one in _copies(part)]
    if twice := _twice([one.name for one in arrivals]):
        raise InputError(f"two jobs of the scenario are called {twice}")
    cluster = file.cluster
    pools = [Pool(one.nodes, one.gpus, one.clique, one.name) for one in cluster] if isinstance(cluster, list) else []
    if isinstance(cluster, str) and cluster:
        pools = pools_from(cluster)
    terms = Terms(start_s=file.start_s, give_up_s=file.give_up_s, until_s=file.until_s)
    return Scenario(sorted(arrivals, key=lambda one: one.submit_s), pools, terms)


def _copies(part: _JobPart) -> list[Arrival]:
    names = [part.name] if part.copies == 1 else [f"{part.name}-{number}" for number in range(part.copies)]
    return [
        Arrival(
            name,
            part.submit_s + number * part.every_s,
            part.pods,
            part.gpus,
            part.duration_s,
            part.priority,
            part.min_member,
        )
        for number, name in enumerate(names)
    ]


def _twice(names: list[str]) -> str | None:
    seen: dict[str, None] = {}
    for name in names:
        if name in seen:
            return name
        seen[name] = None
    return None
