"""A kind of the settings, which Muster has no code for, with a controller of its own: all of its pods run, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from extender.cli.main import main
from policies.model import CLIQUE
from tests.integration.managed import Managed
from tests.integration.own_kind import EXAMPLE, MANIFEST, SETTING, controller, install_kind, kind
from tests.integration.test_owners_with_muster import open_only

pytestmark = pytest.mark.xdist_group("own-kind")

ALIKE: Object = SETTING | {
    "podsets": [{key: podset[key] for key in podset if key != "index_label"} for podset in SETTING["podsets"]]
}
"""The same, without the label that tells the workers apart."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> Iterator[RunningMuster]:
    running = start_muster(cluster, {"job_kinds": [SETTING]}, manifests=EXAMPLE)
    install_gate(cluster)
    install_job_admission(cluster)
    install_kind(cluster)
    for clique in "bc":
        cluster.add_nodes(5, prefix=clique, labels={CLIQUE: clique})
    with controller(cluster.api):
        yield running


@pytest.mark.parametrize("setting", [SETTING, ALIKE], ids=["with an index", "without an index"])
def test_all_of_its_pods_run_in_one_clique_or_none(cluster: Cluster, muster: RunningMuster, setting: Object) -> None:
    muster.restart_extender({"job_kinds": [setting]})
    # Enough for all, but in no clique.
    open_only(cluster, "b-0", "b-1", "b-2", "c-0", "c-1", "c-2")
    managed = Managed(cluster, MANIFEST, [kind(setting)])
    managed.until_noted("NoRoom")
    assert (managed.now().suspended, managed.pods()) == (True, [])
    written = managed.as_written()
    open_only(cluster)
    first = managed.until_running(5)
    managed.check_nodes(first)
    assert len({pod.node[0] for pod in first if pod.node}) == 1
    managed.suspend()
    second = managed.until_running(5, but=frozenset(pod.uid for pod in first))
    managed.check_nodes(second)
    managed.suspend(hold="true")
    managed.until(managed.is_clean)
    assert managed.as_written() == written
    managed.delete()


def test_it_is_started_over_when_a_node_is_gone(cluster: Cluster, muster: RunningMuster) -> None:
    muster.restart_extender()
    managed = Managed(cluster, MANIFEST, [kind()])
    first = managed.until_running(5)
    lost = next(pod.node for pod in first if pod.series == "1-worker")
    cluster.api.delete(f"/api/v1/nodes/{lost}")
    second = managed.until_running(5, but=frozenset(pod.uid for pod in first))
    assert lost not in {pod.node for pod in second}
    managed.check_nodes(second)
    managed.delete()


def test_one_that_has_ended_is_left_with_no_plan(cluster: Cluster, muster: RunningMuster) -> None:
    managed = Managed(cluster, MANIFEST, [kind()])
    for pod in managed.until_running(5):
        managed.succeed(pod)
    managed.say({"conditions": [{"type": "Complete", "status": "True"}]})
    managed.until(lambda obj: not any(key.startswith("muster.dev/") for key in obj["metadata"].get("annotations", {})))
    managed.delete()


def test_the_doctor_finds_nothing_wrong_with_it_and_what_is_missing(cluster: Cluster, muster: RunningMuster) -> None:
    def codes() -> set[str]:
        argv = ["doctor", f"--kubeconfig={cluster.kubeconfig}", f"--url={muster.url}", "-o", "json"]
        result = CliRunner().invoke(main, [*argv, f"--config={EXAMPLE / 'muster.yaml'}"])
        return {finding["code"] for finding in json.loads(result.stdout)["findings"]}

    of_kinds = {"KindNotServed", "KindUnguarded", "MissingRight"}
    assert codes() & of_kinds == set()
    cluster.kubectl("delete", "validatingadmissionpolicy", "muster-extender-simulations")
    assert codes() & of_kinds == {"KindUnguarded"}
    cluster.kubectl("apply", "--server-side", "-f", str(EXAMPLE / "extender-policy.yaml"))


def test_a_kind_that_is_not_installed_is_passed_over(cluster: Cluster, muster: RunningMuster) -> None:
    missing = {**SETTING, "kind": "Nothing", "plural": "nothings"}
    muster.restart_extender({"job_kinds": [SETTING, missing]})
    managed = Managed(cluster, MANIFEST, [kind()])
    managed.until_running(5)
    managed.delete()
    assert "nothings" not in muster.extender.tail(10_000)
