"""Pods that are created slowly while the first ones are held at bind."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.flags import restarted, without
from tests.facts.holder import Holder
from tests.facts.place import Place, cpu_s, until

SIZES = (512, 512, 512, 512, 1000)
OTHERS = 20
CREATED_S = 400.0
NAME = "holding-scheduler"


def memory_mib(pid: int) -> int:
    """The resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) // 1024


def metric(scheduler: Scheduler, name: str) -> int:
    """The value of one line of /metrics."""
    return int(
        float(next(line for line in scheduler.metrics().splitlines() if line.startswith(name)).rpartition(" ")[2])
    )


def others_bound(place: Place, wave: str) -> float:
    """Pods that the extender binds at once, one after the other: the median of the seconds to their Binding."""
    took = []
    for number in range(OTHERS):
        name = f"{wave}-{number}"
        container = {"name": "main", "image": "serve"}
        spec = {"schedulerName": NAME, "nodeSelector": {"fact": place.namespace}, "containers": [container]}
        began = time.monotonic()
        place.api.create(place.pods, {"metadata": {"name": name}, "spec": spec})
        place.api.wait_for(f"{place.pods}/{name}", lambda pod: pod is not None and "nodeName" in pod["spec"])
        took.append(time.monotonic() - began)
    return round(statistics.median(took), 3)


def configuration(holder: Holder) -> Object:
    """A configuration with one profile, and the extender for every pod: extenders are global to a kube-scheduler."""
    return {
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": NAME}],
        "extenders": [holder.entry("600s")],
    }


@fact(
    "slow.held",
    "Four Jobs of 512 and one of 1,000 pods at kube-controller-manager's default of 20 requests a second, every bind "
    "held by an extender with `httpTimeout: 600s`; then kube-scheduler is killed and started again; then all are "
    "bound.",
    result="All {pods} pods existed after {created_s} s and {held} binds were held, the oldest that long: 600 s is "
    "accepted. kube-scheduler: {rss_before} MiB and {goroutines_before} goroutines before, {rss_held} MiB and "
    "{goroutines_held} with all held, {cpu_ms} ms of CPU per held pod; no bind was asked twice. Other pods were bound "
    "in {others_before} s (median) before, in {others_held} s beside the held ones. Killed: every held connection was "
    "cut, nothing was bound; the new process asked for all {pods} binds again within {again_s} s.",
    consequence="Holds cost connections and a few goroutines each, not time: nothing breaks while a gang is created "
    "slowly. The hold's deadline follows the rate of creation; `httpTimeout` has to exceed the whole creation.",
    slow=True,
)
@pytest.mark.timeout(1200)
def test_thousands_held(cluster: Cluster, place: Place, measured: Callable[..., None]) -> None:
    pods = sum(SIZES)
    place.add_nodes(pods // 8 + 5)
    with Holder(cluster.api, "gang-") as holder:
        scheduler = cluster.start_scheduler(configuration(holder), name=NAME)
        place.afterwards(lambda: [process.kill() for process in cluster.processes if process.name.startswith(NAME)])
        measured(pods=pods, others_before=others_bound(place, "before"))
        measured(rss_before=memory_mib(scheduler.pid), goroutines_before=metric(scheduler, "go_goroutines "))
        busy = cpu_s(cluster, NAME)
        with restarted(
            cluster, "kube-controller-manager", lambda argv: without(argv, "--kube-api-qps", "--kube-api-burst")
        ):
            began = time.monotonic()
            for number, size in enumerate(SIZES):
                place.create_job(f"gang-{number}", slots=size, template=gang_member())
            until(lambda: holder.held, lambda held: held == pods, CREATED_S)
            measured(created_s=round(time.monotonic() - began))
        measured(cpu_ms=round((cpu_s(cluster, NAME) - busy) / pods * 1000, 1))
        measured(rss_held=memory_mib(scheduler.pid), goroutines_held=metric(scheduler, "go_goroutines "))
        measured(others_held=others_bound(place, "beside"), held=holder.held)
        assert (holder.held, holder.asked, holder.cut) == (pods, pods, 0)

        scheduler.kill()
        until(lambda: holder.held, lambda held: held == 0)
        assert holder.cut == pods
        assert not [pod for pod in gang(place) if "nodeName" in pod["spec"]]
        began = time.monotonic()
        cluster.start_scheduler(configuration(holder), name=f"{NAME}-again")
        until(lambda: holder.held, lambda held: held == pods, CREATED_S)
        measured(again_s=round(time.monotonic() - began))
        assert holder.asked == 2 * pods

        holder.settle()
        place.api.wait_for(
            place.pods, lambda seen: sum("nodeName" in pod["spec"] for pod in seen) == pods + 2 * OTHERS, CREATED_S
        )


def gang_member() -> Object:
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"spec": {"schedulerName": NAME, "containers": [container]}}


def gang(place: Place) -> list[Object]:
    """The pods of the Jobs."""
    return place.api.list(place.pods, labelSelector="job-name")
