"""The setting ``admission_fair_sharing``: how the past usage of LocalQueues is counted, in the words of Kueue."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from policies.quota.history import Sampling


class AdmissionFairSharing(BaseModel):
    """For ClusterQueues with ``admissionScope.admissionMode: UsageBasedAdmissionFairSharing``."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    usage_half_life_time_s: float = Field(
        default=0.0,
        ge=0,
        le=10 * 365 * 86_400,
        description="In so many seconds half of what a LocalQueue has used is forgotten. 0: past usage does not count, "
        "and ClusterQueues that order by it have a warning.",
    )
    usage_sampling_interval_s: float = Field(
        default=300.0,
        ge=1,
        le=86_400,
        description="How often what is used is added. A start counts for so long at once.",
    )
    resource_weights: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        default={},
        max_length=64,
        description="How much a unit of each resource counts: 1 for those that are not named.",
    )

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.usage_half_life_time_s, self.usage_sampling_interval_s, dict(self.resource_weights))
