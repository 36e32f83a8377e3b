"""Types of settings whose values need checks, and settings with parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from extender.core.limits import Elasticity
from policies.quota.history import Sampling

NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""The name of an object in Kubernetes."""


def _bare_host(name: str) -> str:
    if not name or "/" in name or ":" in name:
        raise ValueError(f"{name!r} is not a name alone: leave out scheme and port. Addresses need not be named")
    return name


Text = Annotated[str, Field(min_length=1)]
HostName = Annotated[str, AfterValidator(_bare_host)]
DASHBOARD_AUDIENCE = "muster-dashboard"
"""The audience of the tokens with which the extender connects to the dashboard."""
File = Annotated[Path | None, BeforeValidator(lambda value: None if value == "" else value)]
"""A path; a variable that is set to nothing names no file."""


class AdmissionFairSharing(BaseModel):
    """How the past usage of LocalQueues is counted, in Kueue's words.

    It concerns ClusterQueues with ``admissionScope.admissionMode: UsageBasedAdmissionFairSharing``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    usage_half_life_time_s: float = Field(
        default=0.0,
        ge=0,
        le=10 * 365 * 86_400,
        description="Seconds in which half of a LocalQueue's past use is forgotten. 0: past use does not count, and "
        "ClusterQueues that order by it have a warning.",
    )
    usage_sampling_interval_s: float = Field(
        default=300.0,
        ge=1,
        le=86_400,
        description="How often use is added. A start counts for one interval at once.",
    )
    resource_weights: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        default={},
        max_length=64,
        description="How much a unit of each resource counts; 1 for the others.",
    )

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.usage_half_life_time_s, self.usage_sampling_interval_s, dict(self.resource_weights))


class Elastic(BaseModel):
    """Flavors whose nodes are made on request. Without any flavor no nodes are requested."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    flavors: tuple[Text, ...] = Field(
        default=(), description="ResourceFlavors for whose nodes Muster asks (docs/elastic.md)."
    )
    provisioning_class: str = Field(
        default="best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        pattern=NAME,
        max_length=253,
        description="The provisioningClassName of the ProvisioningRequests.",
    )
    timeout_s: float = Field(
        default=900.0, ge=60, le=86_400, description="How long nodes may take to come before Muster pauses."
    )

    @property
    def limits(self) -> Elasticity:
        return Elasticity(frozenset(self.flavors), self.timeout_s)


NO_FLAVORS = Elastic()
