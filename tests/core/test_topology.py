"""Required and preferred levels, slices and roles as a gang meets them; cliques; ranks that are stamped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import PostBinding
from extender.core.engine import Engine
from extender.core.events import Event, NodeSeen, PodSeen, Synced
from extender.core.gate.stamps import DOMAIN, RANK
from policies.api import SortKey, WaitingGang
from policies.chosen import OURS
from policies.model import CLIQUE, Pod, Stamp, Topology
from tests.builders import busy, cluster, coscheduled, gang, key, node, reborn, requests
from tests.core.levels import BLOCK, IN_CLIQUE, asking, blocks, homes
from tests.core.script import Script


def test_a_required_level_is_waited_for_and_a_preferred_one_is_not() -> None:
    here = cluster("a: 3x8", "b: 2x8")
    hard, soft = asking(gang("hard", 4, created=1), IN_CLIQUE), asking(gang("soft", 4), Topology(preferred="clique"))
    script = Script(*here, *hard)
    assert homes(script, hard) == "none none none none"
    script.see(soft)
    assert homes(script, soft) == "a a a b"


def test_required_block_and_preferred_clique() -> None:
    here = blocks("x a: 2x8", "x b: 3x8", "y c: 4x8", "y d: 1x8")
    wish = Topology(required=BLOCK, preferred="clique")
    for size, cliques in ((2, "a a"), (4, "c c c c"), (5, "b b b a a")):
        pods = asking(gang("train", size), wish)
        assert homes(Script(*here, *pods), pods) == cliques
    pods = asking(gang("train", 6), wish)
    script = Script(*here, *pods)
    assert homes(script, pods[:1]) == "none"
    assert "required cloud.google.com/gce-topology-block for 6 x 8 GPUs: 2 blocks" in script.message("train")


def test_without_a_wish_a_gang_too_large_for_a_clique_stays_in_one_block() -> None:
    pods = gang("train", 5)
    script = Script(*blocks("x a: 4x8", "y b: 4x8", "x c: 1x8", "y d: 3x8"), *pods)
    assert homes(script, pods, BLOCK) == "x x x x x"


def test_a_replacement_stays_in_the_required_domain_and_waits_for_room_there() -> None:
    pods = asking(gang("train", 3), IN_CLIQUE)
    script = Script(*cluster("a: 3x8", "b: 9x8"), *pods)
    script.run(pods)
    lost = script.bound(pods[2:])[0]
    script.gone(pods[2])
    script.see(busy(lost, 8), reborn(pods[2]))
    script.advance(120)
    assert homes(script, [reborn(pods[2])]) == "none"
    script.gone(*busy(lost, 8))
    script.advance(5)
    assert homes(script, [reborn(pods[2])]) == "a"


def test_slices_are_whole_and_their_replacements_go_back_to_them() -> None:
    wish = Topology(required=BLOCK, slice_size=2, slice_level="clique")
    pods = asking(gang("train", 6), wish)
    script = Script(*blocks("x a: 3x8", "x b: 3x8", "x c: 3x8", "y d: 5x8"), *pods)
    assert homes(script, pods) in ("a a b b c c", "c c b b a a")
    script.run(pods)
    home = homes(script, pods[2:3])
    again = reborn(pods[3])
    script.gone(pods[3])
    script.see(again)
    assert homes(script, [again]) == home


def test_slices_in_layers_are_whole_and_their_replacements_go_back_to_them() -> None:
    pods = asking(gang("train", 8), Topology(slice_size=2, slice_level="clique", around=((4, BLOCK),)))
    script = Script(*blocks("x a: 3x8", "x b: 3x8", "y c: 3x8", "y d: 3x8"), *pods)
    assert homes(script, pods) == "d d c c b b a a"
    script.run(pods)
    lost, again = pods[4:6], [reborn(pod) for pod in pods[4:6]]
    script.gone(*lost)
    script.see(again)
    assert homes(script, again) == "b b"


def test_a_launcher_that_asks_for_no_level_goes_anywhere_and_its_workers_do_not() -> None:
    group, workers = coscheduled("job", 4, min_member=5)
    first = replace(workers[0], uid="launcher", name="launcher", index=None, requests=requests(0, 32))
    launcher = replace(first, topology=Topology(required="none"))
    full = [replace(pod, requests=requests(0, 40)) for pod in busy("a-0 a-1 a-2 a-3", 0)]
    here = cluster("a: 4x8", "-: 1x0")
    script = Script(*here, replace(group, topology=IN_CLIQUE), *full, *workers, launcher)
    assert homes(script, [*workers, launcher]) == "a a a a -"
    strict = Script(*here, replace(group, topology=IN_CLIQUE), *full, *workers, first)
    assert homes(strict, [first]) == "none", "without a word of its own it is bound by the PodGroup's"


@pytest.mark.parametrize(
    ("topology", "code", "text"),
    [
        (Topology(required="rack"), "UnknownTopology", 'unknown topology level "rack"; available: clique (nvidia'),
        (Topology(preferred="rack"), "UnknownTopology", 'unknown topology level "rack"; available: '),
        (Topology(slice_size=2, slice_level="row"), "UnknownTopology", 'unknown topology level "row"; available: '),
    ],
)
def test_a_level_that_is_not_known_is_said(topology: Topology, code: str, text: str) -> None:
    pods = asking(gang("train", 2), topology)
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.reason("train") == code
    assert text in script.message("train")
    script.feed(NodeSeen(node("late", labels={BLOCK: "x"})))
    script.change(pods[0], topology=Topology())
    assert script.reason("train") == "Contradiction"
    assert "its members have different topologies for one role" in script.message("train")


def test_slices_need_an_index_and_a_podgroup_that_can_be_read() -> None:
    pods = [replace(pod, index=None) for pod in asking(gang("train", 2), Topology(slice_size=2))]
    script = Script(*cluster("a: 2x8"), *pods)
    assert (
        script.message("train")
        == "slices are made by index, and 2 pods have none (Indexed Jobs and StatefulSets number theirs)"
    )
    group, members = coscheduled("odd", 2)
    script.see(replace(group, problem="muster.dev/slice-size is not a positive whole number"), members)
    assert script.message("odd") == "its PodGroup: muster.dev/slice-size is not a positive whole number"


def test_bindings_say_rank_and_domain() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 2x8", "-: 1x8"), *pods)
    script.run(pods)
    marks = [effect.annotations for effect in script.effects if isinstance(effect, PostBinding)]
    assert sorted((mark[RANK], mark.get(DOMAIN, "-")) for mark in marks) == [("0", "a"), ("1", "a"), ("2", "-")]
    unnumbered = [replace(pod, index=None) for pod in gang("other", 2, gpus=0)]
    script.see(unnumbered)
    script.run(unnumbered)
    ranks = {effect.name: effect.annotations[RANK] for effect in script.effects if isinstance(effect, PostBinding)}
    assert (ranks["other-0"], ranks["other-1"]) == ("0", "1")


def test_labels_that_change_before_the_release_are_seen() -> None:
    pods = asking(gang("train", 2), IN_CLIQUE)
    script = Script(*cluster("a: 2x8", "b: 3x8"), *pods)
    script.bind(pods[0])
    moved = script.core.state.claims.nodes["a-0"]
    script.feed(NodeSeen(replace(moved, labels={**moved.labels, CLIQUE: "elsewhere"})))
    script.bind(pods[1])
    assert not script.bindings, "it would have been torn apart"
    script.advance(1)
    assert homes(script, pods) == "b b"
    script.run(pods)
    assert script.reason("train") == "Running"


def test_after_a_restart_nominations_that_break_a_required_level_are_not_taken_up() -> None:
    pods = asking(gang("train", 2), IN_CLIQUE)
    hinted = [replace(pods[0], nominated_node="a-0"), replace(pods[1], nominated_node="b-0")]
    script = Script(*cluster("a: 2x8", "b: 3x8"), *hinted)
    assert homes(script, pods) == "a a"
    script.bind_all(pods)
    script.post(pods[0], Outcome.DONE)
    script.post_all()
    assert script.reason("train") == "Running"


def ranks(script: Script, pods: list[Pod]) -> list[str]:
    """The stamped ranks in the order of the pods."""
    stamped = {effect.uid: effect.annotations[RANK] for effect in script.effects if isinstance(effect, PostBinding)}
    return [stamped[pod.uid] for pod in pods]


def test_ranks_that_follow_each_other_are_neighbours_and_ten_comes_after_nine() -> None:
    pods = gang("train", 12)
    script = Script(*cluster("a: 6x8", "b: 6x8"), *reversed(pods))
    assert homes(script, pods) in ("a a a a a a b b b b b b", "b b b b b b a a a a a a")
    assert [script.planned(pod)[2:] for pod in pods] == ["0", "1", "2", "3", "4", "5"] * 2
    script.run(pods)
    assert ranks(script, pods) == [str(number) for number in range(12)]


def test_the_jobs_of_a_jobset_follow_each_other_and_are_sliced_each_by_itself() -> None:
    jobs = [
        [
            replace(pod, series=f"{number:09d}", owner=f"job-{number}", uid=f"{number}-{pod.index}")
            for pod in gang("s", 4)
        ]
        for number in (2, 10)
    ]
    pods = [replace(pod, name=f"s-{pod.uid}", group=gang("s", 8)[0].group) for job in jobs for pod in job]
    script = Script(*cluster("a: 4x8", "b: 4x8"), *reversed(pods))
    assert homes(script, pods) in ("a a a a b b b b", "b b b b a a a a")
    script.run(pods)
    assert ranks(script, pods) == [str(number) for number in range(8)]
    sliced = asking(pods, Topology(slice_size=2))
    script = Script(*cluster("a: 2x8", "b: 2x8", "c: 5x8"), *sliced)
    for first in range(0, 8, 2):
        assert len(set(homes(script, sliced[first : first + 2]).split())) == 1


def test_the_roles_of_a_training_job_are_members_of_their_own_although_both_count_from_0() -> None:
    workers = [replace(pod, series="1-worker") for pod in gang("job", 3, min_member=4)]
    master = replace(workers[0], uid="master", name="job-master-0", series="0-master")
    script = Script(*cluster("a: 4x8"), *workers)
    assert script.reason("job") == "MembersMissing"
    script.see(master)
    pods = [master, *workers]
    script.run(pods)
    assert script.reason("job") == "Running"
    assert ranks(script, pods) == ["0", "1", "2", "3"]


def test_a_domain_that_has_lost_its_last_node_holds_nobody() -> None:
    workers = asking(gang("job", 4, min_member=2), IN_CLIQUE)
    pods = [*workers[:3], replace(workers[3], requests=requests(4))]
    script = Script(*cluster("a: 2x8", "b: 1x8"))
    script.drop("b-0")
    script.see(pods)
    assert homes(script, pods).count("a") == 2


def test_members_of_equal_shape_in_two_series_are_two_roles() -> None:
    """An example are the Jobs of a JobSet, of which only one requires a clique."""
    job = asking(gang("train", 4, min_member=4, gpus=8), Topology(required="none"))
    apart = [replace(pod, series="1", topology=IN_CLIQUE) for pod in job[2:]]
    together = [*(replace(pod, series="0") for pod in job[:2]), *apart]
    script = Script(*cluster("a: 2x8", "-: 2x8"), *together)
    assert homes(script, together) == "- - a a"


@pytest.mark.parametrize("places", ["a-0 a-1 b-0", "a-0 b-0 b-1"])
def test_nobody_joins_a_start_that_late_bindings_have_put_into_two_required_domains(places: str) -> None:
    """The larger part does not matter: the gang is evicted, and starts as a whole."""
    pods = asking(gang("train", 4), IN_CLIQUE)
    stamp = Stamp("job-train", pods[3].uid, complete=False, quorum=4, size=4, at=1000.0)
    bound = [replace(pod, node=name, stamp=stamp) for pod, name in zip(pods, places.split(), strict=False)]
    script = Script(*cluster("a: 4x8", "b: 4x8"), *bound, pods[3])
    assert (homes(script, pods[3:]), script.reason("train")) == ("none", "Split")
    assert script.message("train").endswith("nvidia.com/gpu.clique, and those that have a node are in a, b")
    script.advance(61)
    assert len(script.evicted) == 3
    script.gone(*bound)
    script.see(again := [reborn(pod) for pod in pods[:3]])
    assert homes(script, [*again, pods[3]]) == "a a a a"


def test_nobody_joins_a_gang_that_runs_in_two_required_domains_until_the_labels_are_corrected() -> None:
    here = cluster("a: 4x8", "b: 4x8")
    pods = asking(gang("train", 3, min_member=2), IN_CLIQUE)
    script = Script(*here, *pods)
    script.run(pods)
    place = script.bound(pods[:1])[0]
    right = next(node for node in here if node.name == place)
    script.see(replace(right, labels={**right.labels, CLIQUE: "z"}))
    script.gone(pods[2])
    script.see(again := reborn(pods[2]))
    assert (homes(script, [again]), script.reason("train")) == ("none", "Running")
    assert "have to share one domain" in script.message("train")
    assert not script.evicted
    script.see(right)
    assert homes(script, [again]) == right.labels[CLIQUE]


def test_a_replacement_shares_a_level_with_those_that_require_it_or_a_nearer_one() -> None:
    """A launcher that asks for a block says nothing of the clique of its workers, and they say its block."""
    here = blocks("x a: 3x8", "x b: 3x8", "y c: 9x8")
    workers = asking(gang("train", 2, min_member=3), IN_CLIQUE)
    launcher = replace(gang("train", 1, min_member=3, topology=Topology(required=BLOCK))[0], uid="l", name="l", index=9)
    for lost, there, clique in ((workers[1], "a-0 b-0", "a"), (workers[1], "b-0 a-0", "b"), (launcher, "b-0 b-1", "b")):
        rest = [pod for pod in (*workers, launcher) if pod is not lost]
        stamp = Stamp("job-train", lost.uid, complete=False, quorum=3, size=3, at=1000.0)
        bound = [replace(pod, node=name, stamp=stamp) for pod, name in zip(rest, there.split(), strict=True)]
        assert homes(Script(*here, *bound, lost), [lost]) == clique
    stamp = Stamp("job-train", "l", complete=False, quorum=3, size=3, at=1000.0)
    script = Script(*here, *busy("a-0", 8), replace(launcher, node="a-1", stamp=stamp), *workers)
    assert homes(script, workers, BLOCK) == "x x"
    assert homes(script, workers) == "b b", "its own clique has room for one of them"


def cliques(script: Script, nodes: list[str]) -> list[str]:
    known = script.core.state.claims.nodes
    return sorted({known[name].labels.get(CLIQUE, "-") for name in nodes})


def test_each_gang_gets_the_clique_that_fits_it_best() -> None:
    large, small = gang("large", 4, created=1), gang("small", 2, created=2)
    script = Script(*cluster("a: 4x8", "b: 3x8"))
    script.see(small)
    script.see(large)
    assert cliques(script, [script.planned(pod) for pod in small]) == ["b"]
    assert cliques(script, [script.planned(pod) for pod in large]) == ["a"]


def test_a_replacement_goes_to_the_clique_of_its_gang_and_not_to_a_tighter_one() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8", "b: 1x8"), *pods)
    script.run(pods)
    again = reborn(pods[2])
    left = next(name for name in ("a-0", "a-1", "a-2", "a-3") if name not in script.bound(pods))
    # Another pod takes its old node; the whole clique b would be the tighter fit.
    lost = script.bound(pods[2:])[0]
    script.gone(pods[2])
    script.see(busy(lost, 8), again)
    assert script.planned(again) == left


def test_a_gang_that_fits_in_no_clique_still_starts() -> None:
    pods = gang("train", 5)
    script = Script(*cluster("a: 3x8", "b: 3x8"), *pods)
    script.run(pods)
    assert cliques(script, script.bound(pods)) == ["a", "b"]


class ByName:
    """Serves gangs by their name."""

    def order(self, gang: WaitingGang) -> SortKey:
        return (gang.key.name,)


def test_the_policies_that_the_core_is_given_are_in_force() -> None:
    core = Engine(policies=replace(OURS, queue=ByName()))
    pods = [*gang("z", 1, created=1), *gang("y", 1, created=2)]
    events: list[Event] = [*map(NodeSeen, cluster("a: 1x8")), *map(PodSeen, pods), Synced()]
    for event in events:
        core.handle(event, 0.0)
    assert core.state.workloads[key("y")].placement
    assert not core.state.workloads[key("z")].placement
