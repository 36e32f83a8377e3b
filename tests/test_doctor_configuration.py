"""`muster doctor` on the configuration of kube-scheduler: the shipped one has no fault, each trap in it is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts
from extender.config.settings import load
from extender.kube.reading.quantity import duration_s
from tests.doctored import BASE, Config, Tree, codes, configured, shipped

ROOT = Path(__file__).parent.parent


def test_what_ships_has_no_fault() -> None:
    assert codes(Facts(load(BASE / "muster.yaml"), scheduler=shipped())) == []


def test_what_the_documents_say_of_ones_own_kube_scheduler_has_no_fault() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    by_page = [re.findall(r"```yaml\n(percentageOfNodesToScore.*?)```", page.read_text(), re.DOTALL) for page in pages]
    texts = [block for blocks in by_page for block in blocks]
    assert texts
    mine = {key: shipped()[key] for key in ("apiVersion", "kind", "clientConnection")}
    for text in texts:
        tree = mine | yaml.safe_load(text) | {"profiles": [{"schedulerName": "default-scheduler"}]}
        assert codes(Facts(load(None, scheduler_names=("default-scheduler",)), scheduler=tree)) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda c: c.bind.update(ignorable=True), "Ignorable"),
        (lambda c: c.ask.update(ignorable=True), "Ignorable"),
        (lambda c: c.ask.update(nodeCacheCapable=False), "NodesNotNames"),
        (lambda c: c.bind.pop("nodeCacheCapable"), "NodesNotNames"),
        (lambda c: c.ask.update(managedResources=[{"name": "nvidia.com/gpu"}]), "ManagedResources"),
        (lambda c: c.ask.pop("weight"), "NoWeight"),
        (lambda c: c.ask.pop("filterVerb"), "NoFilterVerb"),
        (lambda c: c.ask.pop("preemptVerb"), "NoPreemptVerb"),
        (lambda c: (c.ask.pop("prioritizeVerb"), c.ask.pop("weight")), "NoPrioritizeVerb"),
        (lambda c: c.all["extenders"].pop(), "NoBindVerb"),
        (lambda c: c.bind.update(bindVerb="binds"), "WrongVerb"),
        (lambda c: c.bind.update(httpTimeout="10s"), "BindTimeoutShort"),
        (lambda c: c.bind.pop("httpTimeout"), "BindTimeoutShort"),
        (lambda c: c.bind.update(httpTimeout="15m"), "BindTimeoutDiffers"),
        (lambda c: c.bind.update(httpTimeout="soon"), "BadTimeout"),
        (lambda c: c.ask.update(httpTimeout="30s"), "LongFilterTimeout"),
        (lambda c: c.ask.pop("httpTimeout"), "LongFilterTimeout"),
        (lambda c: c.ask.update(httpTimeout="50ms"), "ShortFilterTimeout"),
        (lambda c: (c.all["extenders"].pop(), c.ask.update(bindVerb="bind", httpTimeout="30s")), "OneEntry"),
        (lambda c: c.ask.update(bindVerb="bind", httpTimeout="30s"), "TwoBinders"),
        (lambda c: c.all.update(percentageOfNodesToScore=50), "NodesSampled"),
        (lambda c: c.all.pop("percentageOfNodesToScore"), "NodesSampled"),
        (lambda c: c.all["profiles"][0].update(percentageOfNodesToScore=10), "NodesSampled"),
        (lambda c: c.all.update(podMaxBackoffSeconds=60), "BackoffTooLong"),
        (lambda c: c.all.pop("clientConnection"), "LowQps"),
        (lambda c: c.all["leaderElection"].pop("resourceName"), "LeaseShared"),
        (lambda c: c.all["profiles"][0].update(schedulerName="gangs"), "NoProfile"),
        (lambda c: c.all["profiles"].append({"schedulerName": "more"}), "ProfileNotOurs"),
        (lambda c: plugged(c, "multiPoint", "Coscheduling"), "Coscheduling"),
        (lambda c: plugged(c, "queueSort", "Coscheduling"), "Coscheduling"),
        (lambda c: plugged(c, "queueSort", "QOSSort"), "OtherQueueSort"),
        (lambda c: told(c, addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": {}}), "HiddenDemand"),
        (lambda c: told(c, defaultConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}]), "HiddenDemand"),
        (lambda c: c.all.update(extenders=[]), "NoExtender"),
        (lambda c: c.bind.update(urlPrefix="http://127.0.0.1:8080"), "ForeignExtender"),
        (lambda c: c.bind.update(urlPrefix="https://127.0.0.1:10290"), "SchemeDiffers"),
        (lambda c: c.bind.update(httpTimeOut="30s"), "UnknownField"),
        (lambda c: c.all.update(kind="SchedulerPolicy"), "NotASchedulerConfig"),
    ],
)  # fmt: skip
def test_every_trap_in_the_configuration_is_found(change: Callable[[Config], Any], code: str) -> None:
    assert code in configured(change)


def plugged(config: Config, point: str, plugin: str) -> None:
    config.all["profiles"][0]["plugins"] = {"score": None, point: {"enabled": [{"name": plugin}]}}


def told(config: Config, **args: object) -> None:
    config.all["profiles"][0]["pluginConfig"] = [{"name": "Some", "args": args}]


def test_what_plugins_only_prefer_is_no_fault() -> None:
    assert configured(lambda c: told(c, addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": []})) == []
    assert configured(lambda c: told(c, defaultConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}])) == []


@pytest.mark.parametrize("odd", [7, {"permit": [1]}, {"permit": {"enabled": [1]}}])
def test_plugins_of_odd_shapes_are_nothing(odd: object) -> None:
    def change(config: Config) -> None:
        config.all["profiles"][0] |= {"plugins": odd, "pluginConfig": odd}

    assert configured(change) == []


def test_settings_are_held_against_the_configuration() -> None:
    def nothing(_: Config) -> None: ...

    assert configured(nothing, bind_timeout_s=900) == ["BindTimeoutShort"]
    assert configured(nothing, listen_port=8080)[0] == "NoExtender"
    assert configured(nothing, scheduler_names=("gangs",)) == ["NoProfile", "ProfileNotOurs"]


def test_what_advisory_mode_asks_for_is_no_fault_there() -> None:
    config = Config()
    for entry in (config.ask, config.bind):
        entry["ignorable"] = True
    report = examine(Facts(load(None, mode="advise"), scheduler=config.all, policies={}, policy_bindings={}))
    assert [finding.code for finding in report.findings] == ["Ignorable", "Ignorable", "Advising"]
    assert report.exit_code == 0


def test_a_muster_that_asks_for_a_certificate_is_called_with_one(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("tls_cert_file", "tls_key_file", "tls_client_ca_file")}
    for file in files.values():
        file.touch()

    def called(**shown: str) -> list[str]:
        def over_tls(config: Config) -> None:
            for entry in (config.ask, config.bind):
                entry |= {"urlPrefix": "https://127.0.0.1:10290", "tlsConfig": {"caFile": "ca.crt", **shown}}

        return configured(over_tls, **files)

    assert called() == ["NoClientCertificate", "NoClientCertificate"]
    assert called(certFile="tls.crt", keyFile="tls.key") == []


def test_who_may_act_is_asked_where_it_is_decided() -> None:
    def nobody(config: Config) -> None:
        config.all["leaderElection"]["leaderElect"] = False

    here = {"enabled": True}
    assert configured(lambda _: None, leader_election=here) == []
    assert configured(nobody, leader_election=here) == ["NobodyActs"]
    assert configured(lambda _: None, leader_election=here | {"name": "other"}) == ["LeaseDiffers"]
    two = {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}
    assert "TwoLeaders" in codes(Facts(load(None), deployment=two))
    assert "TwoLeaders" not in codes(Facts(load(None, leader_election=here), deployment=two))


def test_a_profile_that_looks_at_all_nodes_needs_no_word_for_all_profiles() -> None:
    def change(config: Config) -> None:
        del config.all["percentageOfNodesToScore"]
        config.all["profiles"][0]["percentageOfNodesToScore"] = 100

    assert configured(change) == []


@pytest.mark.parametrize(
    "odd",
    [
        *(
            {"extenders": [None, 7]},
            {"extenders": {}},
            {"profiles": [None]},
            {"profiles": 7},
            {"clientConnection": [1]},
        ),
    ],
)
def test_a_configuration_of_odd_shapes_is_one_finding(odd: Tree) -> None:
    assert codes(Facts(load(None), scheduler=shipped() | odd)) == ["BadShape"]


@pytest.mark.parametrize("odd", [{"extenders": None}, {"profiles": None}, {"leaderElection": None}])
def test_what_is_null_is_as_good_as_absent(odd: Tree) -> None:
    assert "BadShape" not in codes(Facts(load(None), scheduler=shipped() | odd))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("1.5s", 1.5), ("30", None), ("", None), ("-3s", None)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds
