"""The remedies of ``muster explain`` are true: each sentence is followed, and the workload starts.

Each cause has a scene. The test checks the reason and the first remedy. Then it follows every sentence, each in a
scene of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from extender.core.events import ClaimSeen, GroupSeen, NamespaceGone, NamespaceSeen
from extender.core.limits import Limits
from policies.model import (
    CLIQUE,
    Constraints,
    HostPort,
    Job,
    Node,
    Pod,
    Requirement,
    RunTerms,
    Selection,
    Spread,
    Taint,
    Term,
    Topology,
)
from policies.model.devices import ClaimUse
from policies.model.queues import VOLCANO, LocalQueue, QueueObject, Quota, Stop, Strategy, VolcanoQueue
from tests.builders import GPU, busy, cluster, coscheduled, gang, node, podgroup, requests
from tests.core.jobs import Controlled, job
from tests.core.owned import owned, owner, told
from tests.core.preempting import Cluster
from tests.core.queues import FLAVOR, cluster_queue, flavor, in_queue, show, sort
from tests.core.script import Script
from tests.core.test_job_names import TAKEN_B, named
from tests.explaining import CLIQUE_ONLY, DATA, HOST, TRAIN, running
from tests.following import Scene, fewer, follow

GPUS, BLUE = Taint("nvidia.com/gpu", "present", "NoSchedule"), Taint("team", "blue", "NoSchedule")


def scene(*facts: Any, limits: Limits | None = None, **gang_facts: Any) -> Scene:
    """A gang called ``wait`` among these nodes and pods: two whole nodes, unless it is said otherwise."""
    size, gpus = gang_facts.pop("size", 2), gang_facts.pop("gpus", 8)
    pods = gang("wait", size, gpus=gpus, **gang_facts)
    script = Script(*facts, limits=limits)
    script.see(pods)
    script.advance(0.5)
    return Scene(script, pods=pods)


def queued(
    *things: QueueObject, nodes: list[Node] | None = None, before: list[Pod] | None = None, **gang_facts: Any
) -> Scene:
    """The gang in queue ``team``, after others that run."""
    script = Script(*(cluster("a: 8x8") if nodes is None else nodes))
    show(script, *things)
    for pod in before or []:
        script.see(pod)
    if before:
        script.run(before)
    pods = in_queue("wait", gang_facts.pop("size", 2), gang_facts.pop("queue", "team"), **gang_facts)
    script.see(pods)
    script.advance(0.5)
    return Scene(script, pods=pods)


def job_scene(seen: Job, *nodes: Node, things: tuple[QueueObject, ...] = (), name: str = "job") -> Scene:
    script = Script(*nodes)
    if things:
        show(script, *things)
    controlled = Controlled(script, seen)
    controlled.wait(0.5)
    return Scene(script, name, job=controlled)


def asking(**asked: Any) -> dict[str, Any]:
    return {"gpus": 1, "labels": (("app", "train"),), "constraints": Constraints(**asked)}


def labelled(text: str, **labels: str) -> list[Node]:
    return [replace(cluster_node, labels={**cluster_node.labels, **labels}) for cluster_node in cluster(text)]


def selecting(**labels: str) -> dict[str, Any]:
    return {"selection": Selection(node_selector=tuple(labels.items()))}


def pinned(name: str) -> Selection:
    return Selection(affinity=((Requirement("metadata.name", "In", (name,), is_field=True),),))


def with_other(**facts: Any) -> list[Pod]:
    """The members of a gang, of which the last one differs."""
    *most, last = gang("wait", 2)
    return [*most, replace(last, **facts)]


def contrary() -> Scene:
    script = Script(*cluster("a: 2x8"), *with_other(priority=5))
    return Scene(script, pods=with_other(priority=5))


def short_of_members() -> Scene:
    pods = gang("wait", 3)
    return Scene(Script(*cluster("a: 4x8"), *pods[:2]), pods=pods)


def without_size() -> Scene:
    pods = [replace(pod, group=pod.group._replace(min_member=None)) for pod in gang("wait", 2) if pod.group]
    return Scene(Script(*cluster("a: 2x8"), *pods), pods=pods)


def without_object() -> Scene:
    return Scene(Script(*cluster("a: 2x8"), *coscheduled("wait", 2)[1]), pods=coscheduled("wait", 2)[1])


def with_object_of_no_size() -> Scene:
    group, pods = coscheduled("wait", 2)
    return Scene(Script(*cluster("a: 2x8"), replace(group, min_member=0), *pods), pods=pods)


def unbound_claims() -> Scene:
    return scene(*cluster("a: 2x8"), claims=("data",))


def bind_claims(there: Scene) -> None:
    there.script.feed(ClaimSeen("default", "data", bound=True))
    there.settle(0.5)


def in_turn() -> Scene:
    """The first one of a StrictFIFO queue asks for more than is free."""
    things = flavor("gpus"), cluster_queue("team", {"gpus": 24}, strategy=Strategy.STRICT)
    script = Script(*cluster("a: 8x8"))
    show(script, *things)
    first = in_queue("first", 2)
    script.see(first)
    script.run(first)
    script.see(in_queue("big", 2, created=1.0), in_queue("wait", 1, created=2.0))
    script.advance(0.5)
    return Scene(script, pods=in_queue("wait", 1, created=2.0))


def start_the_first(there: Scene) -> None:
    there.end("default/first")
    big = [pod for pod in there.script.pods.values() if pod.name.startswith("big")]
    there.settle(0.5)
    there.script.run(big)


def own_pod_left() -> Scene:
    """A job whose suspended predecessor has a pod on a deleted node."""
    script = Script(*cluster("a: 5x8"), limits=Limits(node_loss_s=2))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 32}))
    train = Controlled(script, replace(job(4), queue="team"))
    pods = train.run()
    lost = script.pods[pods[0].uid]
    script.drop(lost.node or "")
    train.wait(4)
    for pod in pods[1:]:
        del train.pods[pod.uid]
        script.gone(script.pods[pod.uid])
    del train.pods[lost.uid]
    script.change(lost, deleting=True)
    train.show(stopped=True)
    train.wait(4)
    train.starts.clear()
    return Scene(script, "job", job=train)


def own_pods_leave() -> Scene:
    """The pods of a gang are replaced, and the old ones have yet to end."""
    script = Script(*cluster("a: 2x8"))
    old = gang("wait", 2)
    script.see(old)
    script.run(old)
    for pod in old:
        script.change(script.pods[pod.uid], deleting=True)
    new = gang("wait", 2, life="again")
    script.see(new)
    script.advance(0.5)
    return Scene(script, pods=new)


def not_taken_up() -> Scene:
    """kube-scheduler does not carry a plan out in time."""
    there = scene(*cluster("a: 2x8"), limits=Limits(plan_s=5))
    there.settle(5.1)
    return there


def started_by_others() -> Scene:
    return job_scene(replace(job(2), suspended=False, stopped=False, running=True), *cluster("a: 2x8"))


def on_a_silent_node() -> Scene:
    """A job is suspended, and a pod of it is on a node that does not answer."""
    script = Script(*cluster("a: 1x8", "b: 2x8"))
    train = Controlled(script, job(1))
    (pod,) = train.run()
    node_of = script.pods[pod.uid].node or ""
    script.see(replace(script.core.state.claims.nodes[node_of], ready=False))
    train.show(suspended=True)
    script.change(script.pods[pod.uid], deleting=True)
    train.wait(1)
    train.starts.clear()
    return Scene(script, "job", job=train)


def delete_its_node(there: Scene) -> None:
    """The control plane removes the pods of a Node that is deleted."""
    assert there.job is not None
    (pod,) = there.script.pods.values()
    there.script.drop(pod.node or "")
    there.script.gone(pod)
    there.job.pods.clear()
    there.job.show(stopped=True)


def of_two_shapes() -> Scene:
    pods = [replace(pod, requests=requests(8, cpu=1 + at)) for at, pod in enumerate(gang("wait", 2))]
    script = Script(*cluster("a: 2x8"), limits=Limits(shapes=1))
    script.see(pods)
    return Scene(script, pods=pods)


def before_victims_have_gone() -> Scene:
    """Preemption is on, and the victims have yet to end."""
    script = Cluster(*cluster("a: 2x8"))
    low = gang("low", 2)
    script.see(low)
    script.run(low)
    high = gang("wait", 2, priority=10)
    script.see(high)
    script.advance(1)
    return Scene(script, pods=high)


def of_its_flavor(there: Scene) -> None:
    there.script.see(*labelled("b: 2x8", **{FLAVOR: "h100"}))
    there.recreate(lambda pod: replace(pod, selection=Selection()))


def remove_own(there: Scene) -> None:
    there.script.gone(*[pod for pod in there.script.pods.values() if pod.deleting])


def growing() -> Scene:
    """An owner of three pods that run wants five."""
    script = Script(*cluster("a: 3x8"))
    told(script, owner(3))
    first = [owned(number) for number in range(3)]
    script.see(first)
    script.run(first)
    told(script, owner(5))
    more = [owned(number) for number in (3, 4)]
    script.see(more)
    script.advance(0.5)
    return Scene(script, "statefulset-web", pods=more)


def ending() -> Scene:
    script = Script(*cluster("a: 2x8"))
    script.feed(NamespaceSeen("default", (), terminating=True))
    script.see(gang("wait", 2))
    script.advance(0.5)
    return Scene(script, pods=gang("wait", 2))


def made_anew(there: Scene) -> None:
    there.script.gone(*list(there.script.pods.values()))
    there.script.feed(NamespaceGone("default"))
    there.script.feed(NamespaceSeen("default", ()))
    there.script.see(there.pods)


def two_of_a_name() -> Scene:
    script = Script(*cluster("a: 4x8"))
    first = Controlled(script, named("a", created=1))
    second = Controlled(script, named("b", created=2))
    first.run()
    script.advance(2)
    there = Scene(script, TAKEN_B, job=second)
    there.others = first  # type: ignore[attr-defined]
    return there


def free_the_name(there: Scene) -> None:
    first: Controlled = there.others  # type: ignore[attr-defined]
    first.delete()
    first.gone()
    there.name = "shared"


def recreated(**facts: Any) -> Callable[[Scene], None]:
    """The pods are created again with these facts."""
    return lambda there: there.recreate(lambda pod: replace(pod, **facts))


def sized(there: Scene) -> None:
    there.recreate(lambda pod: replace(pod, group=pod.group and pod.group._replace(min_member=2)))


def more_pods(there: Scene) -> None:
    there.script.see(there.pods[2:])


def object_made(there: Scene) -> None:
    there.script.feed(GroupSeen(podgroup("wait", 2)))


def shown(**facts: Any) -> Callable[[Scene], None]:
    def change(there: Scene) -> None:
        assert there.job is not None
        there.job.show(**facts)

    return change


@dataclass(frozen=True)
class Cause:
    """A cause.

    ``says``: a part of the reason.
    ``advice``: the first remedy.
    ``does``: follows that remedy, if this takes more than a change of the named object.
    """

    name: str
    make: Callable[[], Scene]
    code: str
    says: str
    advice: str
    does: Callable[[Scene], None] | None = None


TEAM = flavor("gpus"), cluster_queue("team", {"gpus": 16})


def first_in_queue() -> list[Pod]:
    return in_queue("first", 1)


CAUSES = [
    # Nodes.
    Cause(
        "others have the nodes", lambda: scene(*cluster("a: 2x8"), *running("first", "a-0")), "NoRoom",
        "1 of 2 nodes have room", "wait for default/first to finish: that frees enough in the cluster",
    ),
    Cause(
        "no node is free", lambda: scene(*cluster("a: 2x8"), *busy("a-0", 8)), "NoRoom",
        "1 of 2 nodes have room", "wait for pod default/busy-a-0 to finish: that frees enough in the cluster",
    ),
    Cause(
        "taint", lambda: scene(*(node(f"a-{at}", taints=(GPUS,)) for at in range(4))), "NoRoom",
        "4 nodes have taint nvidia.com/gpu=present:NoSchedule",
        "add a toleration of nvidia.com/gpu=present:NoSchedule to its pods, or take the taint off: it would fit now, "
        "on 2 nodes",
    ),
    Cause(
        "two taints", lambda: scene(node("a", taints=(GPUS,)), node("b", taints=(BLUE,))), "NoRoom",
        "1 node has taint team=blue:NoSchedule",
        "add a toleration of nvidia.com/gpu=present:NoSchedule, team=blue:NoSchedule to its pods, or take the taint "
        "off: it would fit now, on 2 nodes",
    ),
    Cause(
        "cordoned", lambda: scene(*cluster("a: 1x8"), node("b", unschedulable=True)), "NoRoom",
        "1 node is cordoned (b)", "put 1 node with room back in service (enough): b (cordoned)",
    ),
    Cause(
        "not ready", lambda: scene(*cluster("a: 1x8"), node("b", ready=False), node("c", ready=False)), "NoRoom",
        "2 nodes are not ready (b, c)", "put 1 node with room back in service (enough): b (not ready)",
    ),
    Cause(
        "tainted and cordoned", lambda: scene(node("a", taints=(GPUS,)), node("b", unschedulable=True)), "NoRoom",
        "1 node is cordoned (b)",
        "put b back in service and add a toleration of nvidia.com/gpu=present:NoSchedule to its pods: it would fit now",
    ),
    Cause(
        "node selector", lambda: scene(*cluster("a: 3x8"), **selecting(pool="blue")), "NoRoom",
        "3 nodes do not have label pool=blue", "label a-0 and a-1 with pool=blue: it would fit there now",
    ),
    Cause(
        "node selector of another value", lambda: scene(*labelled("a: 3x8", pool="red"), **selecting(pool="blue")),
        "NoRoom", "3 nodes do not have label pool=blue",
        "add or label nodes that match the node selector pool=blue of its pods: no node does",
        lambda there: there.script.see(*labelled("a: 3x8", pool="blue")),
    ),
    Cause(
        "required node affinity",
        lambda: scene(
            *labelled("a: 2x8", zone="a"), *labelled("b: 1x8", zone="b"),
            selection=Selection(affinity=((Requirement("zone", "In", ("b", "c")),),)),
        ), "NoRoom", "2 nodes do not match its required node affinity (zone in (b, c))",
        "add nodes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)",
    ),
    Cause(
        "pods pinned to a full node",
        lambda: scene(*cluster("a: 2x8"), *busy("a-1", 8), gpus=4, selection=pinned("a-1")),
        "NoRoom", "does not match its required node affinity (metadata.name=a-1)",
        "delete wait-0 and wait-1 and create new pods, as no pod can be unpinned from its nodes: it would fit now, on "
        "1 node",
    ),
    Cause(
        "pods pinned to a node that is gone", lambda: scene(*cluster("a: 2x8"), gpus=4, selection=pinned("gone")),
        "NoRoom", "do not match its required node affinity (metadata.name=gone)",
        "delete wait-0 and wait-1 and create new pods: the nodes are gone, and no pod can be unpinned from its nodes",
    ),
    Cause(
        "required clique", lambda: scene(*cluster("a: 2x8", "b: 2x8"), *running("first", "a-0"), *busy("b-1", 8),
                                         topology=CLIQUE_ONLY), "NoRoom",
        "2 cliques, best has 1 free node (a); 1 node short",
        "use preferred-topology instead of required-topology: it would fit now, on 2 nodes",
    ),
    Cause(
        "larger than every clique", lambda: scene(*cluster("a: 3x8", "b: 2x8"), size=4, topology=CLIQUE_ONLY),
        "NoRoom", "even empty, the largest clique fits 3 of 4",
        "require a wider level or use fewer pods: even empty, the largest clique fits 3 of 4 (8 GPUs each)",
    ),
    Cause(
        "larger than the cluster", lambda: scene(*cluster("a: 3x8"), size=4), "NoRoom",
        "even empty, the nodes that match fit 3 of 4",
        "add nodes or use fewer pods: even empty, the nodes that match fit 3 of 4 (8 GPUs each)",
    ),
    Cause(
        "pods larger than a node", lambda: scene(*cluster("a: 3x8"), gpus=16), "NoRoom",
        "even empty, no node is large enough: at most 8 nvidia.com/gpu",
        "use smaller pods or add larger nodes: even empty, no node that matches has 16 nvidia.com/gpu",
    ),
    Cause(
        "host port", lambda: scene(*cluster("a: 1x8"), **asking(ports=(HostPort(29500),))), "NoRoom",
        "1 node left for 2 members with port 29500", "do without host ports: it would fit now, on 1 node",
    ),
    Cause(
        "pod affinity", lambda: scene(*cluster("a: 2x8"), **asking(affinity=(Term(HOST, DATA, ("default",)),))),
        "NoRoom", "no pod near that its affinity asks for",
        "make the pod affinity preferred instead of required: it would fit now, on 1 node",
    ),
    Cause(
        "pod anti-affinity",
        lambda: scene(*cluster("a: 2x8"), **asking(anti_affinity=(Term(CLIQUE, TRAIN, ("default",)),))), "NoRoom",
        "2 nodes left for 2 members with",
        "make the pod anti-affinity preferred instead of required: it would fit now, on 1 node",
    ),
    Cause(
        "topology spread", lambda: scene(*cluster("a: 2x8"), size=3, **asking(spread=(Spread(CLIQUE, 1, TRAIN, 4),))),
        "NoRoom", "minDomains is 4",
        "let the topology spread be ScheduleAnyway instead of DoNotSchedule: it would fit now, on 1 node",
    ),
    Cause(
        "a running gang that grows", growing, "Running", "3 of 5 run; 2 wait for room",
        "2 more nodes with 8 GPUs free in the cluster",
    ),
    # Flavors and quota.
    Cause(
        "labels of the flavor",
        lambda: queued(sort("h100"), cluster_queue("team", {"h100": 64}), nodes=cluster("a: 4x8")), "NoRoom",
        "4 nodes do not have the labels of its flavor (nvidia.com/flavor=h100)",
        "label a-0 and a-1 with nvidia.com/flavor=h100: it would fit there now",
    ),
    Cause(
        "labels of the flavor of a job",
        lambda: job_scene(replace(job(2), queue="team"), *cluster("a: 4x8"),
                          things=(sort("h100"), cluster_queue("team", {"h100": 64}))), "NoRoom",
        "4 nodes do not have the labels of its flavor (nvidia.com/flavor=h100)",
        "label a-0 and a-1 with nvidia.com/flavor=h100: it would fit there now",
    ),
    Cause(
        "two flavors without room",
        lambda: queued(sort("h100"), sort("a100"), cluster_queue("team", {"h100": 64, "a100": 64}),
                       nodes=[*labelled("a: 1x8", **{FLAVOR: "h100"}), *labelled("b: 1x8", **{FLAVOR: "a100"})]),
        "NoRoom", "flavor h100: 1 of 2 members fit at once",
        "with flavor h100: add nodes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)",
    ),
    Cause(
        "a flavor without room beside one without quota",
        lambda: queued(sort("h100"), sort("a100"), cluster_queue("team", {"h100": 64, "a100": 8}),
                       nodes=[*labelled("a: 1x8", **{FLAVOR: "h100"}), *labelled("b: 4x8", **{FLAVOR: "a100"})]),
        "NoRoom", "flavor h100: 1 of 2 members fit at once",
        "add nodes or use fewer pods: even empty, the nodes that match fit 1 of 2 (8 GPUs each)",
    ),
    Cause(
        "others use the quota", lambda: queued(*TEAM, before=first_in_queue()), "NoQuota",
        "8 of 16 nvidia.com/gpu are left; it is used by default/first (8)",
        "wait for default/first to finish: that frees enough quota of ClusterQueue team",
    ),
    Cause(
        "larger than its queue", lambda: queued(*TEAM, size=4), "NoQuota",
        "the queue can have 16 nvidia.com/gpu at most",
        "it can never start in ClusterQueue team as that is (32 nvidia.com/gpu wanted, 16 at most): raise nominalQuota "
        "of flavor gpus in ClusterQueue team to 32 nvidia.com/gpu, or make it smaller",
    ),
    Cause(
        "a job larger than its queue",
        lambda: job_scene(replace(job(4), queue="team"), *cluster("a: 8x8"), things=TEAM), "NoQuota",
        "the queue can have 16 nvidia.com/gpu at most",
        "it can never start in ClusterQueue team as that is (32 nvidia.com/gpu wanted, 16 at most): raise nominalQuota "
        "of flavor gpus in ClusterQueue team to 32 nvidia.com/gpu, or make it smaller",
    ),
    Cause(
        "borrowing limit",
        lambda: queued(flavor("gpus"), cluster_queue("lends", {"gpus": 64}, cohort="all"),
                       cluster_queue("team", {"gpus": Quota(8, borrowing=0)}, cohort="all")), "NoQuota",
        "the queue can have 8 nvidia.com/gpu at most",
        "it can never start in ClusterQueue team as that is (16 nvidia.com/gpu wanted, 8 at most): raise nominalQuota "
        "of flavor gpus in ClusterQueue team to 16 nvidia.com/gpu, or borrowingLimit of flavor gpus in ClusterQueue "
        "team to 8 nvidia.com/gpu, or make it smaller",
    ),
    Cause(
        "others of its cohort have borrowed",
        lambda: queued(flavor("gpus"), cluster_queue("team", {"gpus": 16}, cohort="all"),
                       cluster_queue("other", {"gpus": 0}, cohort="all"), before=in_queue("first", 1, "other")),
        "NoQuota", "it is used by default/first (8)",
        "wait for default/first to finish: that frees enough quota of ClusterQueue team",
    ),
    Cause(
        "no flavor for its pods",
        lambda: queued(sort("h100"), cluster_queue("team", {"h100": 64}), **selecting(**{FLAVOR: "a100"})), "NoQuota",
        "its pods do not go to nodes of that flavor: they select nvidia.com/flavor=a100, and its label is h100",
        "change the node selector, affinity or tolerations of its pods, or the flavors of ClusterQueue team: none of "
        "them suits its pods (h100: they select nvidia.com/flavor=a100, and its label is h100)",
        of_its_flavor,
    ),
    Cause(
        "not covered",
        lambda: queued(flavor("gpus"), replace(cluster_queue("team", {"gpus": 64}), groups=(
            replace(cluster_queue("team", {"gpus": 64}).groups[0], covered=(GPU,)),))), "NoQuota",
        "ClusterQueue team does not cover cpu",
        "add cpu to coveredResources of ClusterQueue team, with a nominalQuota of at least 2 cpu, or take it out of "
        "what its pods ask for",
    ),
    Cause(
        "capability of Volcano's Queue",
        lambda: queued(VolcanoQueue("team", capability={GPU: 16}), queue=f"{VOLCANO}team",
                       before=in_queue("first", 1, f"{VOLCANO}team")), "NoQuota",
        "Queue team: it asks for 16 nvidia.com/gpu, and 8 of 16 nvidia.com/gpu are left",
        "wait for default/first to finish: that frees enough quota of Queue team",
    ),
    Cause(
        "larger than the capability",
        lambda: queued(VolcanoQueue("team", capability={GPU: 8}), queue=f"{VOLCANO}team"), "NoQuota",
        "the queue can have 8 nvidia.com/gpu at most",
        "it can never start in Queue team as that is (16 nvidia.com/gpu wanted, 8 at most): raise the capability of "
        "Queue team to 16 nvidia.com/gpu, or make it smaller",
    ),
    Cause(
        "its own pod on a deleted node", own_pod_left, "NoQuota",
        "8 nvidia.com/gpu still count for its own pod job-pod-1, which terminates on deleted node a-0",
        "nothing to do: quota still counts for its own pod job-pod-1, which terminates on deleted node a-0; Kubernetes "
        "removes pods of deleted nodes within a minute",
        remove_own,
    ),
    Cause(
        "its own pods terminate", own_pods_leave, "NoRoom", "0 of 2 members fit at once",
        "nothing to do: wait-0 and wait-1 of its own terminate, and that frees enough room", remove_own,
    ),
    Cause(
        "StrictFIFO", in_turn, "QueueOrder", "default/big",
        "wait for the one before it: its queue is StrictFIFO; BestEffortFIFO lets those behind it go first",
        start_the_first,
    ),
    # Queues.
    Cause(
        "no such LocalQueue", lambda: queued(*TEAM, queue="taem"), "QueueMissing",
        "there is no LocalQueue taem in namespace default",
        "create LocalQueue taem in namespace default, or name one that is there (team)",
    ),
    Cause(
        "no such ClusterQueue", lambda: queued(*TEAM, LocalQueue("default", "mine", "all"), queue="mine"),
        "QueueMissing", "LocalQueue mine points to ClusterQueue all, which does not exist",
        "create ClusterQueue all, or let LocalQueue mine point to one that is there",
    ),
    Cause(
        "no such Queue of Volcano", lambda: queued(VolcanoQueue("other"), queue=f"{VOLCANO}team"), "QueueMissing",
        "there is no Queue team of Volcano", "create Queue team of Volcano, or name another one",
    ),
    Cause(
        "no such flavor", lambda: queued(cluster_queue("team", {"gpus": 64})), "QueueInactive",
        "there is no ResourceFlavor gpus", "create ResourceFlavor gpus, or take it out of ClusterQueue team",
    ),
    Cause(
        "namespace not selected",
        lambda: queued(flavor("gpus"), cluster_queue("team", {"gpus": 64}, namespaces=(
            Requirement("team", "In", ("mine",)),))), "QueueInactive",
        "the namespaceSelector of ClusterQueue team does not select namespace default",
        "give namespace default labels that the namespaceSelector of ClusterQueue team selects, or widen that selector",
    ),
    Cause(
        "ClusterQueue stopped", lambda: queued(flavor("gpus"), cluster_queue("team", {"gpus": 64}, stop=Stop.HOLD)),
        "QueueStopped", "ClusterQueue team is stopped (stopPolicy Hold)",
        "set the stopPolicy of ClusterQueue team to None, or wait until an administrator does",
    ),
    Cause(
        "LocalQueue stopped",
        lambda: queued(*TEAM, LocalQueue("default", "mine", "team", stop=Stop.HOLD), queue="mine"), "QueueStopped",
        "LocalQueue mine is stopped (stopPolicy Hold)",
        "set the stopPolicy of LocalQueue mine to None, or wait until an administrator does",
        lambda there: there.show(LocalQueue("default", "mine", "team")),
    ),
    Cause(
        "Queue closed", lambda: queued(VolcanoQueue("team", closed=True), queue=f"{VOLCANO}team"), "QueueStopped",
        "Queue team is closed", "open Queue team: its spec says that it is closed",
    ),
    Cause(
        "a run that is too long",
        lambda: queued(flavor("gpus"), cluster_queue("team", {"gpus": 64}, max_run_s=3600.0), run=RunTerms(7200)),
        "RunTooLong", "its author expects it to run for 2 h, and ClusterQueue team allows 1 h",
        "let muster.dev/expected-duration say 1 h at most, or name a queue that allows more",
        lambda there: there.show(cluster_queue("team", {"gpus": 64}, max_run_s=7200.0)),
    ),
    Cause(
        "a deadline that is too late",
        lambda: queued(*TEAM, LocalQueue("default", "mine", "team", max_run_s=3600.0), queue="mine",
                       run=RunTerms(60, 7200)),
        "RunTooLong", "it has a deadline after 2 h, and LocalQueue mine allows 1 h",
        "let activeDeadlineSeconds say 1 h at most, or name a queue that allows more",
        lambda there: there.show(LocalQueue("default", "mine", "team", max_run_s=7200.0)),
    ),
    # Reasons in the gang's own declarations.
    Cause(
        "members missing", short_of_members, "MembersMissing", "2 of 3 members exist",
        "create 1 more pod that names this gang; 2 pods exist", more_pods,
    ),
    Cause(
        "no size", without_size, "MinMemberMissing", "no member says muster.dev/min-member",
        "add the annotation muster.dev/min-member to its pods: how many of them start together", sized,
    ),
    Cause(
        "no PodGroup", without_object, "PodGroupMissing", "there is no PodGroup named wait in namespace default",
        "create PodGroup wait (scheduling.x-k8s.io) in namespace default", object_made,
    ),
    Cause(
        "PodGroup of no size", with_object_of_no_size, "InvalidPodGroup", "the minMember of its PodGroup is 0",
        "set minMember of PodGroup wait to how many members start together", object_made,
    ),
    Cause(
        "contradiction", contrary, "Contradiction", "its members have different priorities: 0, 5",
        "make the members agree: correct the pod template and create the pods again", recreated(priority=0),
    ),
    Cause(
        "gate of another project", lambda: scene(*cluster("a: 2x8"), gates=("example.com/wait",)), "Gated",
        "2 of 2 members are gated by example.com/wait",
        "the controller that set this gate has to remove it; Muster removes only its own", recreated(gates=()),
    ),
    Cause(
        "unbound volume claim", unbound_claims, "VolumeNotBound", "data",
        "create the claim if there is none, and bind a volume to it first, or use a StorageClass with "
        "volumeBindingMode: WaitForFirstConsumer; kubectl describe pvc says what the claim waits for", bind_claims,
    ),
    Cause(
        "resource claims", lambda: scene(*cluster("a: 2x8"), device_claims=(ClaimUse("gpu", "", "gpus"),)),
        "ResourceClaims", "pod wait-0 has ResourceClaims, and there is no DeviceClass",
        "create the ResourceClaimTemplate, ResourceClaim or DeviceClass that the message names; that "
        "of a ComputeDomain is made by NVIDIA's driver (kubectl describe computedomain)",
        recreated(device_claims=()),
    ),
    Cause(
        "another scheduler", lambda: scene(*cluster("a: 2x8"), scheduler="default-scheduler"), "OtherScheduler",
        "schedulerName default-scheduler",
        "set schedulerName: muster in the pod template, and create the pods again", recreated(scheduler="muster"),
    ),
    Cause(
        "unknown level", lambda: scene(*cluster("a: 2x8"), topology=Topology(required="galaxy")), "UnknownTopology",
        "galaxy",
        "use a level that exists (muster domains lists them), or add it to topology_levels in Muster's settings",
        recreated(topology=CLIQUE_ONLY),
    ),
    Cause(
        "too many members", lambda: scene(*cluster("a: 2x8"), limits=Limits(members=1)), "TooManyMembers",
        "a gang may have at most 1", "use a smaller gang, or raise max_gang_members in Muster's settings",
        lambda there: fewer(there, 1),
    ),
    # Jobs and namespaces.
    Cause(
        "shapes", of_two_shapes, "TooManyShapes", "its members have 2 different shapes",
        "give the members of a role the same pod template, or raise max_gang_shapes in Muster's settings",
        recreated(requests=requests(8)),
    ),
    Cause(
        "a plan that was not carried out", not_taken_up, "Forgotten",
        "kube-scheduler did not take up the placement in time",
        "nothing to do: it is planned again in 1 s",
    ),
    Cause(
        "victims that have yet to go", before_victims_have_gone, "Preempting", "default/low is being evicted for it",
        "nothing to do: it starts when the workloads that are evicted for it are gone",
        lambda there: there.end("default/low"),
    ),
    Cause(
        "a job that somebody else has started", started_by_others, "NotPlanned", "",
        "suspend the job to have it planned", shown(suspended=True, stopped=True, running=False),
    ),
    Cause(
        "a job whose pod is on a silent node", on_a_silent_node, "Stopping", "node a-0 does not report: give it the",
        "give node a-0 the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or delete it, if its "
        "machine is off: the pods on it stay", delete_its_node,
    ),
    Cause(
        "held job", lambda: job_scene(replace(job(2), held=True), *cluster("a: 2x8")), "Held",
        "muster.dev/hold keeps it suspended",
        "take the label or annotation muster.dev/hold off the job, as muster resume does",
        shown(held=False),
    ),
    Cause(
        "job that cannot be planned", lambda: job_scene(replace(job(2), problem="its template has no containers"),
                                                        *cluster("a: 2x8")), "InvalidJob",
        "its template has no containers", "correct the job as the message says", shown(problem=""),
    ),
    Cause(
        "gang name of another job", two_of_a_name, "NameTaken", "Job a has the gang name shared",
        "give the job another gang name (muster.dev/pod-group in its pod template), or none; or delete what has the "
        "name: the message names it", free_the_name,
    ),
    Cause(
        "namespace that is being deleted", ending, "NamespaceTerminating", "is being deleted",
        "create it in another namespace, or in this one once it is gone and created again; kubectl get namespace "
        "-o yaml shows what a deletion waits for", made_anew,
    ),
]  # fmt: skip


def _not_followed(text: str) -> bool:
    """A help that is not said to be enough, or nodes that only its author knows."""
    return "(a help" in text or text.startswith("at least ") or text.endswith("of those that its pods name")


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_the_reason_and_every_remedy_are_true(cause: Cause) -> None:
    there = cause.make()
    explanation = there.explained
    assert explanation.gang.state == cause.code, explanation.gang.message
    assert cause.says in explanation.gang.message
    assert explanation.remedies[:1] == [cause.advice]
    # A gang that is planned again after a pause starts by itself.
    assert cause.code == "Forgotten" or not there.runs, "it waits for something"
    for at, text in enumerate(explanation.remedies):
        there = cause.make()
        if at == 0 and cause.does is not None:
            cause.does(there)
        elif not follow(there, text):
            assert _not_followed(text), f"not understood: {text}"
            continue
        assert there.runs, f"{text}: {there.script.message(there.name)}"
