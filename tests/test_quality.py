"""Placement quality: small clusters whose figures can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from extender.observe.metrics import Metrics
from extender.observe.quality import Quality, quality
from policies.model import Node, Pod, Taint
from policies.steps import finish
from tests.builders import busy, cluster, gang, node
from tests.core.script import Script

BLOCK = "cloud.google.com/gce-topology-block"
RATIO = 10.0


def placed(pods: list[Pod], nodes: str) -> list[Pod]:
    return [replace(pod, node=name) for pod, name in zip(pods, nodes.split(), strict=True)]


def measured(*facts: Node | Pod) -> Quality:
    state = Script(*facts).core.state
    return finish(quality(state.workloads.values(), state.claims.snapshot(), RATIO))


def test_a_gang_in_one_clique_is_as_good_as_can_be() -> None:
    figures = measured(*cluster("a: 4x8", "b: 4x8"), *placed(gang("train", 4), "a-0 a-1 a-2 a-3"))
    clique = figures.levels["clique"]
    assert (clique.spread, clique.pairs_together, clique.balance, figures.slowdown) == (1, 1, 1, 1)
    assert clique.domains == {"whole": 1, "broken": 0, "full": 1}


def test_a_needless_split_shows_in_every_figure() -> None:
    figures = measured(*cluster("a: 4x8", "b: 4x8"), *placed(gang("train", 4), "a-0 a-1 a-2 b-0"))
    clique = figures.levels["clique"]
    assert clique.spread == 2
    assert clique.balance == pytest.approx(8 / 24)
    assert clique.pairs_together == pytest.approx((24 * 23 + 8 * 7) / (32 * 31))
    assert figures.slowdown == RATIO
    assert clique.domains == {"whole": 0, "broken": 2, "full": 0}


def test_a_gang_that_no_clique_holds_is_not_blamed_for_being_divided() -> None:
    figures = measured(*cluster("a: 2x8", "b: 2x8", "c: 2x8"), *placed(gang("train", 4), "a-0 a-1 b-0 b-1"))
    assert (figures.levels["clique"].spread, figures.levels["clique"].balance, figures.slowdown) == (1, 1, 1)
    assert figures.levels["clique"].pairs_together < 1


def test_means_are_over_gangs_and_shares_of_pairs_over_all_of_them() -> None:
    together, two = placed(gang("one", 2), "a-0 a-1"), placed(gang("two", 2), "a-2 b-0")
    figures = measured(*cluster("a: 4x8", "b: 4x8"), *together, *two)
    assert figures.levels["clique"].spread == 1.5
    assert figures.slowdown == (1 + RATIO) / 2
    assert figures.levels["clique"].pairs_together == pytest.approx((16 * 15 + 2 * 8 * 7) / (2 * 16 * 15))


def test_every_level_has_its_own_figures() -> None:
    nodes = [
        node(f"{clique}-{number}", clique=clique, labels={BLOCK: "x" if clique in "ab" else "y"})
        for clique in "abc"
        for number in range(2)
    ]
    figures = measured(*nodes, *placed(gang("train", 2), "a-0 b-0"))
    assert [level.spread for level in figures.levels.values()] == [2, 1]
    assert [level.pairs_together < 1 for level in figures.levels.values()] == [True, False]
    assert list(figures.largest.values()) == [2, 2, 4]


def test_nodes_outside_every_clique_are_each_on_their_own() -> None:
    figures = measured(*cluster("a: 2x8", "-: 2x8"), *placed(gang("train", 2), "n-0 n-1"))
    assert figures.levels["clique"].spread == 2
    assert figures.slowdown == RATIO


def test_the_largest_gang_is_of_whole_usable_nodes_of_the_most_common_kind() -> None:
    taint = Taint("nvidia.com/gpu", "present", "NoSchedule")
    nodes = cluster("a: 3x8", "b: 4x8", "c: 6x4")
    nodes[0] = replace(nodes[0], taints=(taint,))
    nodes[1] = replace(nodes[1], unschedulable=True)
    figures = measured(*nodes, *busy("b-0 b-1 b-2", 1))
    assert figures.largest == {"clique": 2, "cluster": 3}, "a-0 and a-2; b-3 besides"


def test_pods_without_gpus_and_gangs_that_wait_do_not_count() -> None:
    light = placed(gang("light", 2, gpus=0), "a-0 b-0")
    figures = measured(*cluster("a: 1x8", "b: 1x8"), *light, *gang("waits", 9))
    assert (figures.levels["clique"].spread, figures.slowdown) == (1, 1)
    assert figures.levels["clique"].domains == {"whole": 2, "broken": 0, "full": 0}


def test_an_empty_cluster_has_no_domains() -> None:
    figures = measured()
    assert figures.levels["clique"].domains == {"whole": 0, "broken": 0, "full": 0}
    assert figures.largest == {"clique": 0, "cluster": 0}


def test_metrics_show_the_figures_and_call_the_slowdown_modelled() -> None:
    script = Script(*cluster("a: 4x8", "b: 4x8"), *placed(gang("train", 2), "a-0 b-0"))
    families = {family.name: family for family in parsed(Metrics(lambda: script.core.state, RATIO).render().decode())}
    shown = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert shown["muster_placement_spread_ratio", "clique"] == 2
    assert shown["muster_placement_balance_ratio", "clique"] == 1
    assert shown["muster_domains", "clique", "broken"] == 2
    assert shown["muster_largest_gang_nodes", "cluster"] == 6
    assert shown["muster_modelled_allreduce_slowdown_ratio",] == RATIO
    assert families["muster_modelled_allreduce_slowdown_ratio"].documentation.startswith("MODELLED")
