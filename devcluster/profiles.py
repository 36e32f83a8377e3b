"""Profiles of a cluster: the bare control plane, or an API server with the admission of clouds and administrators.

The table in docs/pod-trials.md has the effects of the profile `cloud` on pods, and Muster's answers to them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devcluster import sidecar
from devcluster.admission import until_created_so
from devcluster.api import Api
from devcluster.certificates import KeyPair

Object = dict[str, Any]
StartServer = Callable[[str, Callable[[int, KeyPair], Sequence[str]]], tuple[int, str]]
"""Runs a server of webhooks and returns its port and the authority for its clients: ``Cluster.start_server``."""

INJECTED = {"devcluster.muster.dev/inject": "enabled"}
"""The label of namespaces whose pods get a sidecar."""
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TENANTS_TAINT = {"key": "devcluster.muster.dev/tenants", "value": "yes", "effect": "NoSchedule"}
NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"
_ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
WEBHOOK = "sidecar-webhook"
"""The name of its process."""
_CONDITIONS = ("not-ready", "unreachable", "memory-pressure")
_HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PLUGINS = "ExtendedResourceToleration,PodNodeSelector,PodTolerationRestriction,AlwaysPullImages"
DEFAULT_PRIORITY = 50


class Profile:
    """The control plane without any flag: this profile adds nothing."""

    flags: Mapping[str, Sequence[str]] = {}
    """Additional flags of the command line, by component."""
    audited = False
    selects_nodes = False
    """Whether a namespace may have a node selector for all of its pods."""

    def prepare(self, api: Api, start_server: StartServer) -> None:
        """Create the objects that the cluster has besides its components."""

    def taints(self, resources: Mapping[str, str]) -> list[Object]:
        """Return the taints of a node with these resources."""
        del resources
        return []

    def labels(self) -> dict[str, str]:
        """Return the labels of a namespace that an administrator creates for a team."""
        return {}

    def annotations(self, node_selector: str) -> dict[str, str]:
        """Return the annotations of such a namespace. ``node_selector``: of all of its pods, as in "pool=a"."""
        del node_selector
        return {}

    def furnish(self, api: Api, namespace: str) -> None:
        """Create the objects that such a namespace has."""


class Cloud(Profile):
    """Admission plugins, a mutating webhook, a default PriorityClass, limits and quotas in each namespace."""

    flags: Mapping[str, Sequence[str]] = {"kube-apiserver": [f"--enable-admission-plugins={PLUGINS}"]}
    audited = True
    selects_nodes = True

    def prepare(self, api: Api, start_server: StartServer) -> None:
        api.create(_CLASSES, {"metadata": {"name": "standard"}, "value": DEFAULT_PRIORITY, "globalDefault": True})
        _start_webhook(api, start_server)
        # Muster's own manifests go into this namespace.
        strict = {"pod-security.kubernetes.io/enforce": "restricted"}
        api.patch("/api/v1/namespaces/kube-system", {"metadata": {"labels": strict}})
        _limit(api, "kube-system")
        # Where a user of the devcluster is at home.
        api.patch(
            "/api/v1/namespaces/default", {"metadata": {"labels": self.labels(), "annotations": self.annotations("")}}
        )
        self.furnish(api, "default")
        pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        until_created_so(api, "/api/v1/namespaces/default/pods", pod, _is_as_in_a_cloud)

    def taints(self, resources: Mapping[str, str]) -> list[Object]:
        return [TENANTS_TAINT, *([GPU_TAINT] if "nvidia.com/gpu" in resources else [])]

    def labels(self) -> dict[str, str]:
        levels = {"enforce": "baseline", "warn": "restricted"}
        return INJECTED | {f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()}

    def annotations(self, node_selector: str) -> dict[str, str]:
        tolerated = {"key": TENANTS_TAINT["key"], "operator": "Exists", "effect": "NoSchedule"}
        # The plugins' own tolerations are checked against the whitelist, too.
        added = ("nvidia.com/gpu", *(f"node.kubernetes.io/{key}" for key in _CONDITIONS))
        allowed = [tolerated, *({"key": key, "operator": "Exists"} for key in added)]
        return {
            _TOLERATIONS: json.dumps([tolerated]),
            _ALLOWED: json.dumps(allowed),
            **({NODE_SELECTOR: node_selector} if node_selector else {}),
        }

    def furnish(self, api: Api, namespace: str) -> None:
        _limit(api, namespace)
        api.patch(f"/api/v1/namespaces/{namespace}/serviceaccounts/default", {"automountServiceAccountToken": False})


PROFILES: dict[str, type[Profile]] = {"plain": Profile, "cloud": Cloud}


def _is_as_in_a_cloud(pod: Object) -> bool:
    """Whether all that changes over time has done its part: the webhook, the LimitRange, and the PriorityClass."""
    main = pod["spec"]["containers"][0]
    return "initContainers" in pod["spec"] and "limits" in main["resources"] and pod["spec"]["priority"] != 0


def _limit(api: Api, namespace: str) -> None:
    """Defaults for containers that say nothing, and a quota; returns when the quota admits pods."""
    path = f"/api/v1/namespaces/{namespace}"
    limits = {
        "type": "Container",
        "defaultRequest": {"cpu": "250m", "memory": "256Mi"},
        "default": {"cpu": "64", "memory": "256Gi"},
    }
    api.create(f"{path}/limitranges", {"metadata": {"name": "defaults"}, "spec": {"limits": [limits]}})
    hard = {"pods": "500", "cpu": "2k", "memory": "4Ti", "requests.nvidia.com/gpu": "1k"}
    api.create(f"{path}/resourcequotas", {"metadata": {"name": "team"}, "spec": {"hard": hard}})
    api.wait_for(f"{path}/resourcequotas/team", lambda quota: bool(quota and quota.get("status", {}).get("hard")))


def _start_webhook(api: Api, start_server: StartServer) -> None:
    """Start the server that injects sidecars, and have the API server ask it."""

    def argv(port: int, pair: KeyPair) -> list[str]:
        return [sys.executable, "-I", sidecar.__file__, str(port), str(pair.certificate), str(pair.key)]

    port, trusted = start_server(WEBHOOK, argv)
    hook = {
        "name": "sidecar.devcluster.muster.dev",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": trusted},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": INJECTED},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    api.create(_HOOKS, {"metadata": {"name": "sidecar"}, "webhooks": [hook]})
