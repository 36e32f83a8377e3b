"""On a real API server: the extender's allowed writes on an AppWrapper, whose components stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds
from devcluster.muster import install
from extender.core.effects import StartJob
from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.change import clean, merge_patch, start, suspend
from policies.model import NodeWait, Toleration
from tests.integration.extender import MERGE, Extender
from tests.integration.spoilt import check_refused, spoilt
from tests.integration.team import Team
from tests.kube.kinds.appwrappers import MIXED
from tests.kube.kinds.jobs import plan_for, read

SPOT = Toleration("spot", "Equal", "true", "NoSchedule")
WARMUP = "workload.codeflare.dev.appwrapper/warmupGracePeriodDuration"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_crds(running, "appwrapper")
        yield running


def path_of(team: Team) -> str:
    return APP_WRAPPER.path_of(team.name, "mixed")


def created(team: Team, **meta: Any) -> Object:
    obj = yaml.safe_load(MIXED)
    obj["metadata"] |= meta
    return team.api.create(path_of(team).rpartition("/")[0], obj)


def start_of(obj: Object, *tolerations: Toleration) -> Object:
    """The AppWrapper as Muster starts it; ``tolerations``: those of its flavor."""
    after, job = deepcopy(obj), read(APP_WRAPPER, obj)
    plan = plan_for(job)
    flavors = {name: {"cpu": "spot"} for name in plan} if tolerations else {}
    start(APP_WRAPPER, after, StartJob(job, plan, job.podsets.minimum, flavors, dict.fromkeys(plan, tolerations)))
    return after


def give_back(team: Team, extender: Extender) -> Object:
    """Suspend the AppWrapper as Muster does, and remove Muster's marks; returns the object."""
    for change in (suspend, clean):
        before = team.api.get(path_of(team))
        after = deepcopy(before)
        change(APP_WRAPPER, after)
        extender.patch(path_of(team), merge_patch(before, after))
    return team.api.get(path_of(team))


@pytest.mark.parametrize("tolerations", [(), (SPOT,)])
def test_it_is_started_suspended_and_given_back(
    team: Team, extender: Extender, tolerations: tuple[Toleration, ...]
) -> None:
    written = created(team)
    started = start_of(written, *tolerations)
    extender.patch(path_of(team), merge_patch(written, started))
    assert team.api.get(path_of(team))["spec"] == started["spec"]
    assert ("podSetInfos" in str(started["spec"]), "'tolerations'" in str(started["spec"])) == (True, bool(tolerations))
    given_back = give_back(team, extender)
    assert given_back["spec"] == written["spec"]
    assert "annotations" not in given_back["metadata"]


@pytest.mark.parametrize("own", [{}, {WARMUP: "10m"}], ids=["its default", "its own"])
def test_while_it_awaits_nodes_its_controller_is_told_to_wait_longer(
    team: Team, extender: Extender, own: dict[str, str]
) -> None:
    before = created(team, annotations=own)
    longer = start_of(before)
    longer["metadata"]["annotations"][WARMUP] = "24h"
    check_refused(team, extender, path_of(team), [longer])
    job, after = read(APP_WRAPPER, before), deepcopy(before)
    flavors, labels = {name: {"cpu": "spot"} for name in plan_for(job)}, dict.fromkeys(plan_for(job), (("a", "b"),))
    start(APP_WRAPPER, after, StartJob(job, {}, 3, flavors, {}, NodeWait(1.8e9, 1), labels, 900.0))
    extender.patch(path_of(team), merge_patch(before, after))
    wrapper_annotations = team.api.get(path_of(team))["metadata"]["annotations"]
    assert wrapper_annotations[WARMUP] == ("1500s" if own else "1200s")
    given_back = give_back(team, extender)
    assert (given_back["spec"], given_back["metadata"].get("annotations", {})) == (before["spec"], own)


def test_what_others_have_said_for_its_pods_stays(team: Team, extender: Extender) -> None:
    before = created(team)
    changed = deepcopy(before)
    changed["spec"]["components"][1]["podSetInfos"] = [
        {"labels": {"a": "b"}, "annotations": {"c": "d"}, "tolerations": [{"key": "own", "operator": "Exists"}]}
    ]
    before = team.api.patch(path_of(team), merge_patch(before, changed))
    started = start_of(before, SPOT)
    extender.patch(path_of(team), merge_patch(before, started))
    less = deepcopy(started)
    del less["spec"]["components"][1]["podSetInfos"][0]["tolerations"][0]
    extender.refused("PATCH", path_of(team), merge_patch(started, less), MERGE)
    for field in ("labels", "annotations"):
        after = deepcopy(started)
        after["spec"]["components"][1]["podSetInfos"][0][field].pop("a" if field == "labels" else "c")
        extender.refused("PATCH", path_of(team), merge_patch(started, after), MERGE)


INFO = "components.1.podSetInfos.0"
POD = "components.1.template.spec.template"
CHANGES: list[tuple[str, Object]] = [
    ("", {"managedBy": "somebody.else/controller"}),
    ("components.1", {"annotations": {"a": "b"}}),
    ("components.1", {"podSets": [{"path": "template.spec.template"}]}),
    ("components.1.template", {"kind": "CronJob"}),
    ("components.1.template.spec", {"parallelism": 2}),
    (f"{POD}.spec", {"serviceAccountName": "admin"}),
    (f"{POD}.spec.containers.0", {"image": "miner"}),
    (f"{POD}.metadata.annotations", {"muster.dev/workload": "uid"}),
    ("components.2.template.metadata", {"namespace": "kube-system"}),
    (INFO, {"labels": {"app": "other"}}),
    (INFO, {"nodeSelector": {"disk": "fast"}}),
    (INFO, {"tolerations": [{"operator": "Exists"}]}),
    (INFO, {"schedulingGates": [{"name": "muster.dev/gang"}]}),
    (f"{INFO}.annotations", {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}),
]


def test_nothing_else_of_it_can_be_changed(team: Team, extender: Extender) -> None:
    before = created(team)
    more, fewer, turned, renamed = (start_of(before) for _ in range(4))
    more["spec"]["components"].append({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}})
    fewer["spec"]["components"].pop()
    turned["spec"]["components"].reverse()
    renamed["metadata"]["labels"]["app"] = "other"
    changed = [spoilt(start_of(before), path, change) for path, change in CHANGES]
    check_refused(team, extender, path_of(team), [*changed, more, fewer, turned, renamed])


def test_one_that_does_not_ask_for_muster_is_left_alone(team: Team, extender: Extender) -> None:
    before = created(team, labels={})
    check_refused(team, extender, path_of(team), [start_of(before)])
