"""docs/configuration.md, keys.md, api.md, metrics.md: their lists are those of the code, and have every key of ours."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dashboard.settings import load as load_for_dashboard
from extender.config.settings import Settings, SettingsError, load
from tests.documents.pages import PAGES, ROOT, Block, blocks
from tests.documents.reference import (
    PAGE,
    SAID,
    SAID_OF_JOBS,
    SAID_OF_QUEUES,
    STAMPED,
    TABLES,
    WRITTEN_ON_JOBS,
    filled,
)

SHOWN = [block for page in PAGES for block in blocks(page) if block.text.startswith("# muster.yaml")]
OTHERS = {
    "muster.dev/": "the prefix by itself",
    "muster.dev/extender": "the name under which Events are reported",
    "muster.dev/Woken": "the type of a pod's condition",
    "muster.dev/v1": "the version of a snapshot",
    "muster.dev/gang": "the gate, and the label of a job",
    "muster.dev/evicted-by": "a label of Evictions, which are not stored",
    "muster.dev/muster": "the manager of an entry in the runtimePatches of a TrainJob",
    "muster.dev/woken": "a label that says nothing, on pods that wait",
    "muster.dev/capacity": "the label of the ProvisioningRequests that Muster makes, and of their PodTemplates",
    "muster.dev/kept-for-plan": "the label of nodes that are to stay, which docs/elastic.md is about",
    "muster.dev/RunHistory": "the type of a condition of LocalQueues, which docs/reservations.md is about",
    "muster.dev/record": "the label of the Workload objects that Muster writes, which docs/queues.md is about",
}


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.name)
def test_the_lists_are_those_of_the_code(page: Path) -> None:
    assert filled(page) == page.read_text(), "python -m tests.documents.reference rewrites them"


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if f"\n- `{name}` (" in PAGE.read_text()])
def test_the_environment_variable_is_the_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"MUSTER_{name.upper()}", "[1")
    # Text and files can be called that; everything else says which setting cannot be read.
    assert name in _said(name).lower()


def test_what_is_not_json_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SCHEDULER_NAMES", "muster")
    assert _said("scheduler_names") == "MUSTER_SCHEDULER_NAMES: a list or mapping has to be JSON in a variable"


def test_nested_settings_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    (value,) = re.findall(r"`MUSTER_LEADER_ELECTION='(.*?)'`", PAGE.read_text())
    monkeypatch.setenv("MUSTER_LEADER_ELECTION", value)
    assert load(None).leader_election.enabled


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("MUSTER_HOLD_TIMEOUT", "did you mean MUSTER_HOLD_TIMEOUT_S?"),
        ("MUSTER_SCHEDULER_NAME", "did you mean MUSTER_SCHEDULER_NAMES?"),
        ("MUSTER_LEADER_ELECTION_ENABLED", "MUSTER_LEADER_ELECTION has all of leader_election, in JSON"),
        ("MUSTER_LEADER_ELECTION__ENABLED", "MUSTER_LEADER_ELECTION has all of leader_election, in JSON"),
    ],
)
def test_a_variable_that_is_none_and_was_meant_for_a_setting_is_refused(
    variable: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "true")
    with pytest.raises(SettingsError) as error:
        load(None)
    assert str(error.value) == f"{variable}: there is no such variable; {said}"


def test_so_is_one_that_was_meant_for_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DASHBOARD_LISTENPORT", "80")
    with pytest.raises(SettingsError) as error:
        load_for_dashboard(None)
    complaint = "there is no such variable; did you mean MUSTER_DASHBOARD_LISTEN_PORT?"
    assert str(error.value) == f"MUSTER_DASHBOARD_LISTENPORT: {complaint}"


@pytest.mark.parametrize(
    "service",
    ["MUSTER", "MUSTER_METRIC", "MUSTER_METRICS", "MUSTER_ELASTIC", "MUSTER_LISTEN", "MUSTER_DASHBOARD"],
)
def test_what_kubernetes_says_of_a_service_and_what_others_read_is_left_alone(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, dashboard = load(None), load_for_dashboard(None)
    variables = {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "80",
        "SERVICE_PORT_HTTP": "80",
        "PORT_80_TCP": "tcp://10.0.0.1:80",
    }
    variables |= {"PORT_80_TCP_PROTO": "tcp", "PORT_80_TCP_PORT": "80", "PORT_80_TCP_ADDR": "10.0.0.1"}
    for name, value in variables.items():
        monkeypatch.setenv(f"{service}_{name}", value)
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:10290")
    monkeypatch.setenv("MUSTER_METRIC_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("MUSTER_DASHBOARD_URL", "http://127.0.0.1:10292")
    monkeypatch.setenv("MUSTER_DASHBOARD_TOKEN_FILE", "")
    assert load(None).model_copy(update={"dashboard_url": ""}) == silent
    assert load_for_dashboard(None) == dashboard


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block.page.name}:{block.line}")
def test_settings_that_are_shown_can_be_used(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text(block.text)
    load(file)


def test_every_key_of_ours_is_in_the_lists() -> None:
    keys = set()
    for file in [*(ROOT / "extender").rglob("*.py"), *(ROOT / "policies").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                keys |= set(re.findall(r"^muster\.dev/[A-Za-z0-9-]*$", node.value))
    tables = (*SAID, *STAMPED, *SAID_OF_JOBS, *SAID_OF_QUEUES, *WRITTEN_ON_JOBS)
    assert keys - set(OTHERS) == {key for key in tables if key.startswith("muster.dev/")} - set(OTHERS)


def _said(name: str) -> str:
    """The error in the settings, or else the value of this one."""
    try:
        return f"{name}={getattr(load(None), name)}".removesuffix(f"{name}={Settings.model_fields[name].default}")
    except SettingsError as refused:
        return str(refused)
