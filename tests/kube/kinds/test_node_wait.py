"""A job is started without nodes: it states until when nodes are awaited, in place of the plan, which follows."""

from __future__ import annotations

from copy import deepcopy

import pytest

from extender.core.effects import StartJob
from extender.kube.keys import IN_VAIN, LED, NODE_LABELS, NODES, PLAN
from extender.kube.kinds.change import clean, lead, start, suspend
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.plan import in_vain_from, node_wait_from, node_wait_text, plan_from
from extender.kube.kinds.read import templates_of
from policies.model import InVain, NodeWait, Toleration
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read, started, stopped_again, stored
from tests.kube.kinds.test_hostile_jobs import MANIFESTS, kind_of

UNTIL = NodeWait(1_767_323_045.0, 3)
SPOT = Toleration("spot", "Exists", "", "NoSchedule")


def started_without_nodes(obj: Object, kind: Kind | None = None, **labels: str) -> Object:
    after, kind = deepcopy(obj), kind or kind_of(obj)
    job = read(kind, obj)
    flavors = {podset.name: {"cpu": "spot"} for podset in job.podsets.podsets}
    node_labels = dict.fromkeys(flavors, tuple(labels.items()))
    start(kind, after, StartJob(job, {}, 2, flavors, dict.fromkeys(flavors, (SPOT,)), UNTIL, node_labels, 900.0))
    return after


def test_until_when_is_read_as_it_was_written_and_is_no_plan() -> None:
    text = node_wait_text(UNTIL)
    assert text == "nodes are awaited until 2026-01-02T03:04:05Z, attempt 3"
    assert (node_wait_from(text), plan_from(text)) == (UNTIL, None)


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{}", '{"":"n0*2"}', "nodes are awaited until 2026-01-02T03:04:05Z", "x" * 100_000),
        *("nodes are awaited until 2026-01-02T03:04:05Z, attempt 0", "nodes are awaited until now, attempt 1"),
        *("nodes are awaited until 2026-13-02T03:04:05Z, attempt 1", "nodes are awaited until 2026-01-02, attempt 1"),
        "nodes are awaited until 2026-01-02T03:04:05Z, attempt " + "9" * 5000,
    ],
)
def test_what_nobody_can_have_written_says_nothing(text: str | None) -> None:
    assert node_wait_from(text) is None


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_it_is_started_without_nodes_and_given_back_as_its_author_wrote_it(manifest: str) -> None:
    obj = stored(manifest, **SUSPENDED)
    kind, after = kind_of(obj), started_without_nodes(obj)
    before, job = read(kind, obj), read(kind, after)
    assert (job.suspended, job.marked, job.plan, job.node_wait) == (False, True, None, UNTIL)
    assert (job.flavor_names, job.podsets) == (("spot",), before.podsets)
    for template, was in zip(templates_of(kind, after), templates_of(kind, obj), strict=True):
        metadata = template.pod["metadata"]
        assert NODES not in metadata["annotations"]
        assert LED not in (metadata.get("labels") or {})
        spec = {**was.pod.get("spec", {}), "tolerations": template.pod["spec"]["tolerations"]}
        assert template.pod["spec"] == spec
    other = stopped_again(kind, started(kind, obj))
    for template in templates_of(kind, other):
        (template.pod.get("metadata", {}).get("annotations") or {}).pop(NODES, None)
    assert stopped_again(kind, after) == other, "as after any other start"


def carried(kind: Kind) -> bool:
    """Whether Muster writes to the templates in the job object itself."""
    return kind.carry is None


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
@pytest.mark.parametrize("own", [{}, {"disk": "fast"}, {"pool": "spot"}], ids=["none", "others", "the same"])
def test_its_pods_ask_for_the_nodes_of_their_flavor_until_it_is_given_back(manifest: str, own: dict[str, str]) -> None:
    obj = stored(manifest, **SUSPENDED)
    kind = kind_of(obj)
    if not carried(kind):
        return
    for template in templates_of(kind, obj):
        if own:
            template.pod["spec"]["nodeSelector"] = dict(own)
    after = started_without_nodes(obj, pool="spot")
    assert read(kind, after).podsets == read(kind, obj).podsets, "after a restart it is known what its author wrote"
    for template in templates_of(kind, after):
        written = template.affinity
        assert template.pod["spec"].get("nodeSelector", {}) == (own | {"pool": "spot"} if written else own)
        by_policy = "" if written or "pool" in own else "pool=spot"
        assert template.pod["metadata"]["annotations"].get(NODE_LABELS, "") == by_policy
        assert template.pod["spec"].get("affinity") is None
    given_back = stopped_again(kind, after)
    for template in templates_of(kind, given_back):
        pod_annotations = (template.pod.get("metadata") or {}).get("annotations") or {}
        assert not pod_annotations.pop(NODE_LABELS, ""), "emptied, where its controller would keep it else"
    assert given_back == stopped_again(kind, started_without_nodes(obj)), "as after one that has brought none"


def test_a_label_that_somebody_has_changed_since_stays() -> None:
    obj = stored(MANIFESTS["Job"], **SUSPENDED)
    kind = kind_of(obj)
    after = started_without_nodes(obj, pool="spot", disk="fast")
    after["spec"]["template"]["spec"]["nodeSelector"]["pool"] = "owned"
    given_back = stopped_again(kind, after)
    assert given_back["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "owned"}


WARMUP = "workload.codeflare.dev.appwrapper/warmupGracePeriodDuration"


@pytest.mark.parametrize(
    ("own", "waits"),
    [
        *((None, "1200s"), ("10m", "1500s"), ("1h30m.5s", "6301s"), ("1ms", "901s")),
        *(("soon", "1200s"), ("-1s", "1200s"), ("", "1200s"), ("1s" * 100, "1200s")),
    ],
)
def test_its_controller_gives_its_pods_longer_to_run_until_it_is_given_back(own: str | None, waits: str) -> None:
    obj = stored(MANIFESTS["AppWrapper of several"], **SUSPENDED)
    obj["metadata"]["annotations"] = {} if own is None else {WARMUP: own}
    kind, after = kind_of(obj), started_without_nodes(obj)
    assert after["metadata"]["annotations"][WARMUP] == waits
    changed = deepcopy(after)
    changed["metadata"]["annotations"][WARMUP] = "20m"
    assert stopped_again(kind, changed)["metadata"]["annotations"][WARMUP] == "20m"
    assert stopped_again(kind, after)["metadata"].get("annotations", {}).get(WARMUP) == own
    assert started(kind, obj)["metadata"]["annotations"].get(WARMUP) == own, "with nodes it need not"


def test_what_would_stay_on_the_pods_is_left_to_the_policy() -> None:
    left = {
        name
        for name, manifest in MANIFESTS.items()
        for obj in [stored(manifest, **SUSPENDED)]
        if not all(template.affinity for template in templates_of(kind_of(obj), obj))
    }
    assert {"JobSet", "MPIJob"} <= left
    assert not {"Job", "PyTorchJob"} & left


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_how_long_it_rests_is_written_with_its_suspension_and_stays_until_it_is_started(manifest: str) -> None:
    obj = stored(manifest, **SUSPENDED)
    kind, after, rest = kind_of(obj), started_without_nodes(obj), InVain(1_767_323_045.0, 3)
    suspend(kind, after, in_vain=rest)
    after["status"] = SUSPENDED
    clean(kind, after)
    if kind.shown_in is not None:
        assert IN_VAIN not in after["metadata"].get("annotations", {})
        return
    message = after["metadata"]["annotations"][IN_VAIN]
    assert message == "no nodes came by attempt 3; none are asked for before 2026-01-02T03:04:05Z"
    job = read(kind, after)
    assert (job.in_vain, job.marked) == (rest, False)
    assert IN_VAIN not in started(kind, after)["metadata"]["annotations"]


@pytest.mark.parametrize("text", [None, "", "no nodes came", "no nodes came by attempt 0; none are asked for before"])
def test_a_rest_that_nobody_can_have_written_is_none(text: str | None) -> None:
    assert in_vain_from(text and f"{text} 2026-01-02T03:04:05Z") is None


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_its_plan_is_written_on_it_alone(manifest: str) -> None:
    obj = stored(manifest, **SUSPENDED)
    kind, before = kind_of(obj), started_without_nodes(obj)
    after, job = deepcopy(before), read(kind, before)
    plan = plan_for(job)
    lead(after, StartJob(job, plan, 2))
    assert (read(kind, after).plan, read(kind, after).node_wait) == (plan, None)
    after["metadata"]["annotations"][PLAN] = before["metadata"]["annotations"][PLAN]
    assert after == before
