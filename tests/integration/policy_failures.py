"""How often the expressions of admission policies have failed, as the API server counts it."""

from __future__ import annotations

import re

from devcluster import Cluster

_CHECKS = re.compile(r"^apiserver_\w+_admission_policy_check_total\{(.*)\} (\d+)", re.MULTILINE)


def policy_failures(cluster: Cluster) -> dict[str, int]:
    """Return the failures that the API server of a cluster counts."""
    return failures_in(cluster.kubectl("get", "--raw", "/metrics"))


def failures_in(metrics: str) -> dict[str, int]:
    """Return the failures of each policy that fails open, and of each mutating one. A request that is refused because
    a policy has failed says so itself, also while the API server lacks the schema of a new kind."""
    failures: dict[str, int] = {}
    for labels, count in _CHECKS.findall(metrics):
        values = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        # A validation that is false counts as a failure, too, but then it does not allow the request.
        if values["error_type"] != "no_error" and values.get("enforcement_action", "allow") == "allow":
            failures[values["policy"]] = failures.get(values["policy"], 0) + int(count)
    return failures
