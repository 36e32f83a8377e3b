"""When `muster release` writes nothing, and what it says of what it may not write."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from extender.kube.queues.protection import NODES
from tests.kube.fake_api import refused
from tests.releasing import BINDINGS, JOBS, PATH, PODS, Cluster, lease, listed, pod, stopped


def test_while_a_muster_leads_nothing_is_written(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped())
    now = datetime.now(UTC)
    cluster.leases = [lease(now), lease(now + timedelta(seconds=2))]
    done, api = cluster.release("--yes")
    assert (done.exit_code, api.bodies("PATCH")) == (2, [])
    assert "Muster is still running (muster-0_1 renews its Lease)" in done.output
    shown = cluster.release()[0]
    assert shown.exit_code == 0, "it may be looked at"
    assert "nothing was written, and --yes would be refused: Muster is still running" in shown.output
    assert "--yes does it" not in shown.output
    assert len(cluster.release("--yes", "--force")[1].bodies("PATCH")) == 1


def test_a_lease_that_nobody_renews_is_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped())
    cluster.leases = [lease(datetime.now(UTC) - timedelta(seconds=13))]
    done, api = cluster.release("--yes")
    assert done.exit_code == 0, done.output
    assert len(api.bodies("PATCH")) == 1


@pytest.mark.parametrize("policy", ["muster-gang-gate", "muster-gang-owners", "muster-jobs", "muster-job-pods"])
def test_while_a_policy_would_undo_it_nothing_is_written(tmp_path: Path, policy: str) -> None:
    cluster = Cluster(tmp_path, stopped())
    cluster.answers["GET", BINDINGS] = listed({"metadata": {"name": policy}}, {"metadata": {"name": "other"}})
    done, api = cluster.release("--yes")
    assert (done.exit_code, api.bodies("PATCH")) == (2, [])
    assert f"admission policies of Muster are in force: {policy}" in done.output


def test_a_refused_write_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, stopped(), pods=(pod("a", gated=True),))
    cluster.answers["PATCH", PATH] = refused(403, "Forbidden", "you may not")
    done, api = cluster.release("--yes", "-o", "json")
    assert done.exit_code == 1
    job, one = json.loads(done.stdout)["objects"]
    assert "you may not" in job["failed"]
    assert "failed" not in one
    assert len(api.bodies("PATCH")) == 2


@pytest.mark.parametrize("path", [JOBS, PODS, NODES])
def test_a_kind_that_may_not_be_listed_is_told_and_the_others_go_on(tmp_path: Path, path: str) -> None:
    cluster = Cluster(tmp_path, stopped(), pods=(pod("a", gated=True),))
    cluster.answers["GET", path] = refused(403, "Forbidden", "you may not list these")
    done, api = cluster.release("--yes")
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert f"left alone, cannot be read: all {path.rpartition('/')[2]}: 403 Forbidden: you may not list these" in said
    assert len(api.bodies("PATCH")) == (2 if path == NODES else 1)


def test_a_cluster_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.answers["GET", JOBS] = refused(401, "Unauthorized", "who are you?")
    done, _ = cluster.release()
    assert done.exit_code == 2
    assert "who are you?" in done.output
