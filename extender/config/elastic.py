"""The setting ``elastic``: flavors whose nodes are made when somebody asks for them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from extender.config.values import NAME, Text
from extender.core.limits import Elasticity


class Elastic(BaseModel):
    """Without any flavor nobody asks for nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    flavors: tuple[Text, ...] = Field(default=(), description="ResourceFlavors, by name. None: no nodes are asked for.")
    provisioning_class: str = Field(
        default="best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        pattern=NAME,
        max_length=253,
        description="The provisioningClassName of the ProvisioningRequests.",
    )
    timeout_s: float = Field(
        default=900.0, ge=60, le=86_400, description="So long may nodes take to come; then it is given up for a while."
    )

    @property
    def limits(self) -> Elasticity:
        return Elasticity(frozenset(self.flavors), self.timeout_s)


NO_FLAVORS = Elastic()
