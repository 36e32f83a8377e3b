"""Metrics: named by convention, without names of people's objects, and counted from what happens to gangs."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from extender.core.effects import Milestone, Reached, RevokedFor
from extender.http.scrape import metrics_page
from extender.observe.metrics import Metrics, size_of
from policies.model import Dialect, GroupKey, GroupRef, PodSet, PodSets
from policies.preemption.allowed import Why
from tests.builders import cluster, gang, key
from tests.core.backfilling import AFTER_S, Backlog
from tests.core.compute_domains import in_domain, racks
from tests.core.devices import CLASS, claim, gpus, request, with_template
from tests.core.devices import template as claim_template
from tests.core.jobs import Controlled, job, template
from tests.core.script import Script
from tests.metrics import Described, described, used

DOCUMENT = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()


def value(metrics: Metrics, sample: str) -> float:
    lines = dict(line.rsplit(" ", 1) for line in metrics.render().decode().splitlines() if not line.startswith("#"))
    return float(lines[sample])


def reached(what: Milestone, *, size: int = 8, after_s: float = 1.0, cause: RevokedFor | None = None) -> Reached:
    return Reached(GroupKey("team", "train"), what, size, after_s, cause)


@pytest.mark.parametrize("metric", described().values(), ids=lambda metric: metric.name)
def test_names_follow_the_convention(metric: Described) -> None:
    assert re.fullmatch(r"muster_[a-z]+(_[a-z]+)*", metric.name)
    if metric.kind == "counter":
        assert metric.name.endswith("_total")
    if metric.kind == "histogram":
        assert metric.name.endswith("_seconds")
    assert metric.text.endswith("."), metric.text


@pytest.mark.parametrize("cause", RevokedFor)
def test_the_document_has_every_cause(cause: RevokedFor) -> None:
    assert f"\n- `{cause}`: " in DOCUMENT


def test_milestones_are_counted() -> None:
    metrics = Metrics(lambda: Script().core.state)
    metrics.reached(reached(Milestone.PLANNED))
    metrics.reached(reached(Milestone.FORGOTTEN, cause=RevokedFor.PLAN_DEADLINE))
    metrics.reached(reached(Milestone.FORGOTTEN, cause=RevokedFor.NODE_REFUSED))
    metrics.reached(reached(Milestone.RELEASED, after_s=2.0))
    metrics.reached(reached(Milestone.STARTED, size=16, after_s=40.0))
    metrics.reached(reached(Milestone.BROKEN))
    rules = (Why.RECLAIM, Why.RECLAIM, Why.IN_QUEUE)
    metrics.reached(replace(reached(Milestone.PREEMPTING), rules=rules))
    assert value(metrics, "muster_gang_plans_total") == 1
    assert value(metrics, 'muster_gang_replans_total{cause="node-refused"}') == 1
    assert value(metrics, 'muster_gang_deadlines_total{deadline="plan"}') == 1
    assert value(metrics, 'muster_gang_deadlines_total{deadline="hold"}') == 0, "known before it happens"
    assert value(metrics, "muster_gang_hold_seconds_sum") == 2
    assert value(metrics, 'muster_gang_wait_seconds_bucket{le="30.0",size="9-64"}') == 0
    assert value(metrics, 'muster_gang_wait_seconds_bucket{le="60.0",size="9-64"}') == 1
    assert value(metrics, "muster_gang_broken_releases_total") == 1
    assert value(metrics, 'muster_preemptions_total{outcome="begun"}') == 1
    assert value(metrics, 'muster_preemption_victims_total{reason="InCohortReclamation"}') == 2
    assert value(metrics, 'muster_preemption_victims_total{reason="InClusterQueue"}') == 1
    assert value(metrics, 'muster_preemption_victims_total{reason="LowerPriority"}') == 0


@pytest.mark.parametrize(
    ("members", "name"), [(0, "1"), (1, "1"), (2, "2-8"), (8, "2-8"), (9, "9-64"), (512, "65-512"), (4096, "513+")]
)
def test_gangs_are_counted_by_classes_of_sizes(members: int, name: str) -> None:
    assert size_of(members) == name


def test_the_oldest_waiting_gang_is_told_by_the_creation_of_its_first_pod_that_waits() -> None:
    running = [replace(pod, node=f"a-{at}", created=100) for at, pod in enumerate(gang("train", 2))]
    young = [replace(pod, created=900) for pod in gang("young", 9)]
    old = [replace(pod, created=400.0 + at) for at, pod in enumerate(gang("old", 9))]
    script = Script(*cluster("a: 3x8"), *running)
    metrics = Metrics(lambda: script.core.state, now=lambda: 1000.0)
    assert value(metrics, "muster_oldest_waiting_gang_seconds") == 0, "those that run do not wait"
    script.see(*young, *old)
    assert value(metrics, "muster_oldest_waiting_gang_seconds") == 600


def test_reserved_gpus_that_nobody_uses_are_counted_with_their_seconds() -> None:
    script = Backlog(*cluster("a: 2x8"))
    metrics = Metrics(lambda: script.core.state, now=lambda: script.now - script.core.state.process.wall_offset)
    first, second = script.start("first", 1), script.start("second", 1)
    big = script.wait("big", 2)
    script.advance(AFTER_S + 1)
    label = '{resource="nvidia.com/gpu"}'
    assert value(metrics, "muster_reserved_workloads") == 1
    assert value(metrics, f"muster_reserved_idle_gpus{label}") == 0, "all are in use"
    script.end(first)
    script.advance(100)
    assert value(metrics, f"muster_reserved_idle_gpus{label}") == 8
    assert value(metrics, f"muster_reserved_idle_gpu_seconds_total{label}") == pytest.approx(800, rel=0.01)
    script.end(second)
    script.run(big)
    ended_with = value(metrics, f"muster_reserved_idle_gpu_seconds_total{label}")
    script.advance(100)
    assert value(metrics, "muster_reserved_workloads") == 0
    assert value(metrics, f"muster_reserved_idle_gpus{label}") == 0
    assert value(metrics, f"muster_reserved_idle_gpu_seconds_total{label}") == ended_with


def test_a_suspended_job_waits_since_it_was_created_or_stopped() -> None:
    busy = [replace(pod, node=f"a-{at}") for at, pod in enumerate(gang("before", 2))]
    script = Script(*cluster("a: 2x8"), *busy)
    metrics = Metrics(lambda: script.core.state, now=lambda: script.now)

    def waits_s() -> int:
        return round(value(metrics, "muster_oldest_waiting_gang_seconds"))

    made = template(created=script.now - 600)
    train = Controlled(script, replace(job(2), podsets=PodSets(key("job"), (PodSet(made, 2, 2),)), held=True))
    assert waits_s() == 0, "its owner wants it to wait"
    train.show(held=False, problem="its pod template names another scheduler")
    assert waits_s() == 0, "it waits for its author"
    train.show(problem="")
    assert waits_s() == 600
    for pod in busy:
        script.gone(pod)
    train.settle()
    train.run()
    assert waits_s() == 0
    script.advance(1000)
    train.show(suspended=True, stopped=False)
    script.advance(50)
    assert waits_s() == 50


def test_devices_are_told_by_driver_and_what_claims_them() -> None:
    script = Script(*cluster("a: 3x0"))
    metrics = Metrics(lambda: script.core.state)
    assert "muster_devices" not in metrics.render().decode(), "there is no class"
    for event in (CLASS, *gpus("a-0", "a-1", count=2), claim_template(request())):
        script.feed(event)  # type: ignore[arg-type]
    running, promised = with_template("running", 1), with_template("promised", 2)
    script.see(running)
    node = script.planned(running[0])
    script.feed(claim("gpu", request(), pod=running[0], node=node, devices=("h100-0",)))
    script.run(running)
    script.see(promised, with_template("waiting", 2))
    assert value(metrics, 'muster_devices{driver="gpu.nvidia.com",state="allocated"}') == 1
    assert value(metrics, 'muster_devices{driver="gpu.nvidia.com",state="free"}') == 3
    assert value(metrics, 'muster_promised_devices{class="gpu.nvidia.com"}') == 2
    assert value(metrics, 'muster_device_gangs{state="NoRoom"}') == 1
    assert value(metrics, "muster_unreserved_allocations") == 0
    left = claim("gpu", request(), pod=running[0], node=node, devices=("h100-0",))
    script.feed(replace(left, claim=replace(left.claim, reserved_for=())))
    assert value(metrics, "muster_unreserved_allocations") == 1


def test_compute_domains_are_told_by_the_cliques_of_their_pods() -> None:
    script = racks("a: 2x4", "b: 2x4", domains=("idle", "together", "divided"))
    metrics = Metrics(lambda: script.core.state)
    together, divided = in_domain("together", 1), in_domain("divided", 2)
    script.see(replace(together[0], node="a-0"), replace(divided[0], node="a-1"), replace(divided[1], node="b-0"))
    for state in ("idle", "together", "divided"):
        assert value(metrics, f'muster_compute_domains{{state="{state}"}}') == 1


def test_gpus_are_told_by_use() -> None:
    nodes = cluster("a: 3x8")
    nodes[2] = replace(nodes[2], unschedulable=True)
    running = [replace(pod, node="a-0") for pod in gang("train", 2, gpus=3)]
    script = Script(*nodes, *running)
    metrics = Metrics(lambda: script.core.state)
    by_state = {state: value(metrics, f'muster_gpus{{state="{state}"}}') for state in ("used", "free", "closed")}
    assert by_state == {"used": 6, "free": 10, "closed": 8}


def test_no_name_of_anybodys_object_is_told() -> None:
    pods = gang("secret-project", 2)
    (odd,) = gang("odd", 1)
    odd = replace(odd, group=GroupRef("'hidden\\x1b'", Dialect.ANNOTATION, problem="the name is none"))
    script = Script(*cluster("secret-rack: 3x8"), *pods, odd)
    text = Metrics(lambda: script.core.state).render().decode()
    assert not re.search(r"secret|hidden|default/", text)


@pytest.mark.anyio
async def test_the_open_port_has_the_metrics_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with metrics_page(used(), listener), httpx.AsyncClient(base_url=url, trust_env=False) as client:
            page = await client.get("/metrics")
            assert "muster_gang_plans_total 1.0" in page.text
            assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
            for path in ("/gangs", "/topology", "/bind", "/", "/metrics/x", "/explain/a/b"):
                assert (await client.get(path)).status_code == 404
            assert (await client.post("/bind", content=b"{}")).status_code == 404
            assert (await client.post("/metrics", content=b"x" * 10_000)).status_code == 405
