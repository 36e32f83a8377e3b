"""People who look at the dashboard: ServiceAccounts with the rights of a tenant, and their tokens."""

from __future__ import annotations

from devcluster import Cluster


def add_tenant(cluster: Cluster, namespace: str) -> str:
    """Make the namespace, and an account that may read all of it. Returns a token of the account."""
    cluster.add_namespace(namespace)
    cluster.kubectl("create", "serviceaccount", "viewer", f"--namespace={namespace}")
    binding = ["viewer", "--clusterrole=view", f"--serviceaccount={namespace}:viewer", f"--namespace={namespace}"]
    cluster.kubectl("create", "rolebinding", *binding)
    return token_of(cluster, namespace, "viewer")


def token_of(cluster: Cluster, namespace: str, name: str) -> str:
    """Return a token of a ServiceAccount for the API server."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token: str = cluster.api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    return token
