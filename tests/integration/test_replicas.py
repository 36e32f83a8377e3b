"""Two full replicas, each a kube-scheduler and an extender under a host name of its own, as in two pods.

The Lease is shorter than as shipped, so that no test waits long for it to run out. Whatever happens to the leader,
the other replica goes on, no gang is bound in part in the end, and no pod is lost.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import httpx
import pytest

from benchmarks.faults.scene import WHOLE, Scene
from devcluster import Cluster, ClusterError
from devcluster.muster import RunningMuster, start_muster
from devcluster.proxy import Proxy, Write

pytestmark = pytest.mark.xdist_group("replicas")
SIZE = 32
AT_ONCE = 4
MIDDLE = SIZE // 2
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster"
SHORT = {
    "leaderElection": {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"},
    "podMaxBackoffSeconds": 3,
}


class Replica:
    """A kube-scheduler and an extender, whose writes pass a proxy that can be struck at."""

    def __init__(self, cluster: Cluster, host: str, proxy: Proxy) -> None:
        self.host = host
        self.proxy = proxy
        settings = {"bind_timeout_s": 8, "writes_at_once": AT_ONCE}
        self.muster: RunningMuster = start_muster(cluster, settings, SHORT, hostname=host, server=proxy.url)

    @property
    def leads(self) -> bool:
        return "muster_leader 1.0" in httpx.get(f"{self.muster.url}/metrics", trust_env=False).text

    def signal(self, number: int) -> None:
        for process in (self.muster.extender, self.muster.scheduler):
            process.signal(number)

    def kill(self) -> None:
        for process in (self.muster.extender, self.muster.scheduler):
            process.kill()

    def restore(self) -> None:
        """Start all ended processes again, as the kubelet does."""
        self.signal(signal.SIGCONT)
        if not self.muster.extender.running:
            self.muster.restart_extender()
        if not self.muster.scheduler.running:
            self.muster.restart_scheduler()


class Pair:
    """The leader, the standby, and a scene that asks the leader."""

    def __init__(self, cluster: Cluster, replicas: list[Replica]) -> None:
        self._cluster = cluster
        self._replicas = {replica.host: replica for replica in replicas}
        self.leader = self._elected()
        [self.other] = [replica for replica in replicas if replica is not self.leader]
        self.scene = Scene(cluster, self.leader.muster)
        self.scene.wait_leads()

    def _elected(self, *, other_than: str = "") -> Replica:
        def host(lease: dict[str, dict[str, str]] | None) -> str:
            return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "").rpartition("_")[0]

        known = self._replicas.keys() - {other_than}
        return self._replicas[host(self._cluster.api.wait_for(LEASE, lambda lease: host(lease) in known))]

    def wait_takeover(self) -> None:
        """The other one leads, and the scene asks it from now on."""
        assert self._elected(other_than=self.leader.host) is self.other
        self.scene.muster = self.other.muster
        self.scene.wait_leads()

    def wait_either(self) -> None:
        """Wait until one of them leads; the scene asks it from now on."""
        every = self._replicas.values()
        [leader] = self.scene.wait(
            lambda: [replica for replica in every if replica.leads], lambda leading: len(leading) == 1
        )
        self.scene.muster = leader.muster

    def strike(self, number: int, action: Callable[[], object], *, after: bool = True) -> None:
        """Start a gang, and let this action happen at its release, at the Binding of that number."""
        self.leader.proxy.strike(Write.BIND, number, action, after=after)
        self.scene.add_nodes(SIZE // 8)
        self.scene.create(self.scene.members("train", SIZE))
        assert self.leader.proxy.struck.wait(60)


@pytest.fixture(scope="module")
def replicas(cluster: Cluster) -> Iterator[list[Replica]]:
    with ExitStack() as stack:
        try:
            yield [Replica(cluster, host, stack.enter_context(cluster.proxy())) for host in ("pod-a", "pod-b")]
        except ClusterError as error:
            if "own host name" in str(error):
                pytest.skip(str(error))
            raise


@pytest.fixture
def pair(cluster: Cluster, replicas: list[Replica]) -> Iterator[Pair]:
    for replica in replicas:
        replica.restore()
    pair = Pair(cluster, replicas)
    with pair.scene:
        yield pair
        for replica in replicas:
            replica.restore()


def test_one_leads_and_the_other_is_ready_turns_callers_away_and_writes_nothing(pair: Pair) -> None:
    pair.scene.add_nodes(1)
    pair.scene.create(pair.scene.members("train", 8))
    assert pair.scene.settle({"train": WHOLE}) == []
    assert (pair.leader.leads, pair.other.leads) == (True, False)
    ready = httpx.get(f"{pair.other.muster.url}/readyz", trust_env=False)
    assert (ready.status_code, ready.text) == (200, "ok, standing by\n")
    binding = {"PodName": "p", "PodNamespace": "default", "PodUID": "p", "Node": "n"}
    refusal = httpx.post(f"{pair.other.muster.url}/bind", json=binding, trust_env=False).json()["Error"]
    assert "stands by" in refusal
    assert not pair.other.proxy.writes


def test_the_leader_is_killed_in_a_release_and_the_other_goes_on_with_gangs_in_every_state(pair: Pair) -> None:
    pair.scene.add_nodes(1)
    pair.scene.create(pair.scene.members("runs", 8))
    pair.scene.wait_bound("runs", 8)
    pair.scene.create(pair.scene.members("short", 5)[:4])
    pair.scene.create(pair.scene.members("large", 6, gpus=8))
    pair.strike(MIDDLE, pair.leader.kill)
    assert 0 < len(pair.scene.bound("train")) < SIZE
    pair.wait_takeover()
    ends = {"runs": WHOLE, "short": "MembersMissing", "large": "NoRoom", "train": WHOLE}
    assert pair.scene.settle(ends) == []
    marks = [pod["metadata"]["annotations"] for pod in pair.scene.pods()]
    assert len({mark["muster.dev/release"] for mark in marks if mark["muster.dev/pod-group"] == "train"}) == 1


def test_only_the_extender_of_the_leader_dies_and_comes_back_where_it_was(pair: Pair) -> None:
    """The kube-scheduler of the leader keeps its Lease: the other one never acts."""
    pair.strike(MIDDLE, pair.leader.muster.extender.kill, after=False)
    pair.leader.muster.restart_extender()
    assert pair.scene.settle({"train": WHOLE}) == []
    assert not pair.other.leads


def test_only_the_kube_scheduler_of_the_leader_dies_and_its_extender_acts_no_more(pair: Pair) -> None:
    """kube-scheduler is killed when nothing is bound yet: the release ends, because no call waits for it."""
    pair.strike(1, pair.leader.muster.scheduler.kill, after=False)
    pair.wait_takeover()
    assert not pair.leader.leads
    assert pair.scene.settle({"train": WHOLE}) == []


def test_a_leader_that_stood_still_past_its_lease_lands_no_more_than_was_in_flight(pair: Pair) -> None:
    """Both its processes stop in the middle of a release, and continue when the other has long completed the gang."""
    old = pair.leader
    pair.strike(MIDDLE, lambda: old.signal(signal.SIGSTOP))
    assert 0 < len(pair.scene.bound("train")) < SIZE
    pair.wait_takeover()
    assert pair.scene.settle({"train": WHOLE}) == []
    nodes, sent = placed(pair.scene), old.proxy.writes.total()
    old.signal(signal.SIGCONT)
    Scene(pair.scene.cluster, old.muster).wait_leads(leads=False)
    old.muster.scheduler.wait(30)
    pair.scene.create(pair.scene.members("next", 8, gpus=8))
    assert pair.scene.settle({"train": WHOLE, "next": "NoRoom"}) == []
    assert old.proxy.writes.total() - sent <= AT_ONCE
    assert {name: node for name, node in placed(pair.scene).items() if node} == nodes


def test_an_extender_that_stands_still_alone_loses_the_lead_with_its_kube_scheduler(pair: Pair) -> None:
    old = pair.leader
    pair.strike(MIDDLE, lambda: old.muster.extender.signal(signal.SIGSTOP))
    old.muster.scheduler.kill()
    pair.wait_takeover()
    assert pair.scene.settle({"train": WHOLE}) == []
    nodes, sent = placed(pair.scene), old.proxy.writes.total()
    old.muster.extender.signal(signal.SIGCONT)
    Scene(pair.scene.cluster, old.muster).wait_leads(leads=False)
    assert old.proxy.writes.total() - sent <= AT_ONCE
    assert placed(pair.scene) == nodes


def test_a_rolling_update_hands_the_lead_over_in_the_middle_of_a_release(pair: Pair) -> None:
    """The leader is stopped as the kubelet stops a pod: its kube-scheduler gives the Lease up."""
    pair.strike(MIDDLE, partial(pair.leader.signal, signal.SIGTERM))
    pair.wait_takeover()
    assert pair.scene.settle({"train": WHOLE}) == []


def test_both_lose_the_api_server_for_longer_than_the_lease_and_whoever_leads_then_goes_on(
    cluster: Cluster, pair: Pair
) -> None:
    server = cluster.process("kube-apiserver")
    pair.strike(MIDDLE, server.kill)
    pair.leader.muster.scheduler.wait(60)  # it could not renew, and gives up
    assert pair.leader.muster.extender.running
    cluster.again(server)
    pair.leader.muster.restart_scheduler()
    pair.wait_either()
    assert pair.scene.settle({"train": WHOLE}) == []


def placed(scene: Scene) -> dict[str, str]:
    """Pod -> node."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in scene.pods()}
