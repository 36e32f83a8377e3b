"""A real API server accepts what ships: the manifests, the CRD and the examples."""

from devcluster import Cluster
from devcluster.muster import MANIFESTS, install


def test_the_api_server_accepts_every_manifest() -> None:
    with Cluster() as cluster:
        install(cluster)
        install(cluster)  # and once more: an upgrade applies what is there
        dry_run = ("--dry-run=server", "--validate=strict")
        applied = cluster.kubectl("apply", *dry_run, "-k", str(MANIFESTS / "base"))
        assert "deployment.apps/muster created" in applied
        cluster.kubectl("create", *dry_run, "-f", str(MANIFESTS / "examples"))

        secret = "/api/v1/namespaces/kube-system/secrets/muster-extender-token"  # noqa: S105 - its address
        filled = cluster.api.wait_for(secret, lambda found: found is not None and "token" in found.get("data", {}))
        assert {"token", "ca.crt", "namespace"} <= set(filled["data"])
