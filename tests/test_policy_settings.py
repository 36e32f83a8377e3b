"""Policies are chosen by name: ours, or one that a package offers. Settings that cannot be met are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.config.settings import SettingsError, load
from policies.order import Drf, PriorityThenAge, Proportion
from policies.placement.place import Placed, place
from policies.strategies.best_fit import BestFit
from tests.builders import busy, cluster, gang, snapshot

FOREIGN = '''
"""A user's policies: the emptiest clique first, and a class that cannot be made."""

import numpy as np


class Emptiest:
    def domains(self, ask, snapshot):
        level = snapshot.levels[0]
        rooms, _ = level.tally(ask.roles[0].room)
        for code in np.argsort(-rooms):
            yield (level.domain(int(code)),)


class Stubborn:
    def __init__(self, wish):
        self.wish = wish

    def score(self, pod, rows, snapshot):
        return np.zeros(len(rows))
'''
POINTS = "[muster.policies]\nemptiest = foreign:Emptiest\nstubborn = foreign:Stubborn\nlost = foreign.nowhere:Lost\n"


@pytest.mark.parametrize(("said", "meant"), [("on", "on"), ("off", "off"), ('"on"', "on"), ("dry-run", "dry-run")])
def test_on_and_off_may_stand_without_quotes(tmp_path: Path, said: str, meant: str) -> None:
    """YAML 1.1 reads them as booleans."""
    (tmp_path / "muster.yaml").write_text(f"preemption: {said}\n")
    assert load(tmp_path / "muster.yaml").preemption == meant


@pytest.fixture
def _foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign.py").write_text(FOREIGN)
    facts = tmp_path / "foreign-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)


def test_without_a_word_ours_are_in_force() -> None:
    chosen = load(None).policies
    assert isinstance(chosen.queue, PriorityThenAge)
    assert isinstance(chosen.topology, BestFit)
    here = cluster("a: 2x8", "wide: 1x16")
    placement = place(gang("train", 1), 1, snapshot(here, *busy("wide-0", 8)), policies=chosen)
    assert isinstance(placement, Placed)
    assert list(placement.nodes.values()) == ["wide-0"], "packing takes the broken node"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "queue_policy: fifo",
            "queue_policy: fifo is not a known policy; known here: priority-then-age, proportion, drf",
        ),
        (
            "topology_policy: packing",
            "topology_policy: packing is not a policy for this: it has no domains(); "
            "known here: best-fit, balanced, equal-shares, least-domains, spread, first-fit",
        ),
        (
            "score_policies: {fifo: 1}",
            "score_policies: fifo is not a known policy; known here: affinity, packing",
        ),
        ("score_policies: {packing: 0}", "score_policies.packing: it should be more than 0, and is 0"),
    ],
)
def test_a_name_that_does_not_answer_is_refused_with_those_that_do(tmp_path: Path, settings: str, message: str) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text(settings)
    with pytest.raises(SettingsError) as caught:
        load(file)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("preemtion: on", "preemtion: there is no such setting; did you mean preemption?"),
        ("colour: red", "colour: there is no such setting"),
        ("elastic: {flavors: spot}", "elastic.flavors: it should be a list"),
        (
            "elastic: {timeout: 1}",
            "elastic.timeout: there is no such setting; did you mean elastic.timeout_s?",
        ),
        ("fair_sharing: maybe", "fair_sharing: it should be true or false, and is 'maybe'"),
        ("mode: enforced", "mode: it should be 'enforce' or 'advise', and is 'enforced'"),
        ("mode: off", "mode: it should be 'enforce' or 'advise', and is false"),
        ("log_level: INFO", "log_level: it should be 'debug', 'info', 'warning' or 'error', and is 'INFO'"),
        (
            "bind_timeout_s: 600s",
            "bind_timeout_s: it should be a number of seconds, without a unit, and is '600s'",
        ),
        ("bind_timeout_s: 1", "bind_timeout_s: it should be at least 5, and is 1"),
        ("plan_timeout_s: .inf", "plan_timeout_s: it should be a finite number, and is inf"),
        ("writes_at_once: 1.5", "writes_at_once: it should be a whole number, and is 1.5"),
        ("scheduler_names: []", "scheduler_names: it has too few entries: at least 1"),
        ("scheduler_names: ['']", "scheduler_names.0: it should be text, and not empty, and is ''"),
        ("scheduler_names: [7]", "scheduler_names.0: it should be text, a number in quotation marks, and is 7"),
        ("leader_election: true", "leader_election: it should be a mapping of names to values"),
        (
            "default_queue: Team A",
            "default_queue: it should be a name of lower-case letters, digits, '-' and '.', and is 'Team A'",
        ),
        (
            "allowed_hosts: ['http://muster:10290']",
            "allowed_hosts.0: 'http://muster:10290' is not a name alone: leave out scheme and port. Addresses need not "
            "be named",
        ),
        (
            "listen_host: 127.0.0.1:10290",
            "listen_host '127.0.0.1:10290' is not an address: the port is listen_port",
        ),
        (
            "{bind_margin_s: 60, bind_timeout_s: 60}",
            "bind_margin_s 60 leaves nothing of bind_timeout_s 60: no bind could wait for the others",
        ),
    ],
)
def test_a_mistake_in_the_settings_is_a_sentence(tmp_path: Path, settings: str, message: str) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text(settings)
    with pytest.raises(SettingsError) as caught:
        load(file)
    assert str(caught.value) == message


def test_a_variable_that_is_set_to_nothing_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_KUBECONFIG", "")
    assert load(None).kubeconfig is None


def test_a_setting_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text("fair_sharing: true\nfair_sharing: false\n")
    with pytest.raises(SettingsError, match="fair_sharing is there twice, line 1"):
        load(file)


@pytest.mark.usefixtures("_foreign")
def test_a_policy_of_an_installed_package_is_found_by_its_name() -> None:
    chosen = load(None, topology_policy="emptiest").policies
    placement = place(gang("train", 2), 2, snapshot(cluster("a: 2x8", "b: 3x8")), policies=chosen)
    assert isinstance(placement, Placed)
    assert sorted(placement.nodes.values()) == ["b-0", "b-1"]


@pytest.mark.usefixtures("_foreign")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"score_policies": {"stubborn": 1}}, "stubborn cannot be made: Stubborn.__init__() missing 1 required"),
        ({"topology_policy": "lost"}, "lost (foreign.nowhere:Lost) cannot be loaded: No module named"),
        ({"queue_policy": "fifo"}, "installed packages offer emptiest, lost, stubborn"),
        ({"queue_policy": "emptiest"}, "emptiest is not a policy for this: it has no order()"),
    ],
)
def test_what_is_wrong_with_a_foreign_policy_is_said(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, **settings)
    assert message in str(caught.value)


def test_proportion_and_drf_order_gangs_and_queues() -> None:
    for name, kind in (("proportion", Proportion), ("drf", Drf)):
        chosen = load(None, queue_policy=name).policies
        assert isinstance(chosen.queue, kind)
        assert isinstance(chosen.guarded().between, kind)
    with pytest.raises(SettingsError, match="fair_sharing and queue_policy drf both order queues: choose one"):
        load(None, queue_policy="drf", fair_sharing=True)


def test_a_setting_that_is_gone_says_why_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text("node_loss: restart\nnode_loss_s: 20")
    gone = "a job under which a node is lost is always started over as a whole. Take"
    with pytest.raises(SettingsError) as wrong:
        load(file)
    assert str(wrong.value) == f"node_loss: there is no such setting any more: {gone} the line out"
    file.write_text("node_loss_s: 20")
    assert load(file).limits.node_loss_s == 20
    monkeypatch.setenv("MUSTER_NODE_LOSS", "restart")
    with pytest.raises(SettingsError) as wrong:
        load(file)
    assert str(wrong.value) == f"MUSTER_NODE_LOSS: there is no such variable any more: {gone} it out"
