"""The pages on security and TLS: every named test exists, and every setting and limit has the stated value."""

from __future__ import annotations

import ast
import re
from itertools import product
from pathlib import Path

import pytest
import yaml

from extender.config.settings import Settings, load
from extender.http import connections, verbs, wire
from extender.kube import client
from extender.kube.api import connection, exchange
from extender.kube.convert import MOST_NAMES
from extender.kube.kinds.registry import KINDS
from extender.kube.reading.constraints import MOST_CHARACTERS, MOST_CONDITIONS, MOST_VALUES
from extender.kube.reading.requests import MOST
from extender.kube.reflector import WATCH_S
from extender.observe.logs import LONGEST_LINE
from extender.observe.sight import DARK_S

ROOT = Path(__file__).parent.parent
RIGHTS_PAGE, LIMITS_PAGE = ((ROOT / "docs" / f"security-{page}.md").read_text() for page in ("rights", "limits"))
TLS = (ROOT / "docs" / "tls.md").read_text()
RIGHTS = ROOT / "manifests" / "base" / "rbac-extender.yaml"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", RIGHTS_PAGE + LIMITS_PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    functions = ast.walk(ast.parse((ROOT / file).read_text()))
    assert name in {
        function.name for function in functions if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_protection_has_a_test() -> None:
    entries = [line for line in RIGHTS_PAGE.partition("by which test")[2].splitlines() if line.startswith("- ")]
    assert len(entries) > 10
    assert [entry for entry in entries if "::" not in entry and "security-limits.md" not in entry] == []


def test_the_limits_are_those_of_the_code() -> None:
    limits = LIMITS_PAGE.partition("## Limits")[2].partition("## Hostile")[0]
    settings = "max_body_mib", "max_candidates", "max_connections", "max_gang_members", "max_gang_shapes"
    for setting in (*settings, "max_waiting_gangs"):
        (limit,) = re.findall(rf"`{setting}`: ([\d,]+)", limits)
        assert int(limit.replace(",", "")) == Settings.model_fields[setting].default
    assert f"| {MOST_CONDITIONS}, with {MOST_VALUES:,} values and {MOST_CHARACTERS:,} characters |" in limits
    assert f"| {MOST_NAMES} of each |" in limits
    assert f"2^{MOST.bit_length() - 1} |" in limits
    assert f"| {LONGEST_LINE:,} characters |" in limits
    assert f"documents up to {wire.LONGEST_FOLDED >> 10} KiB" in limits
    assert f"| {connections.MAX_HEAD >> 10} KiB, {connections.MAX_HEADERS} headers |" in limits
    assert f"of a bind {verbs.LARGEST_BIND >> 10} KiB" in limits
    assert f"| {wire.MOST_PARTS:,}, of victims twice" in limits
    assert f"{connections.ARRIVAL_S:.0f} s from its first byte to its last" in limits
    assert f"| {exchange.LARGEST_ANSWER >> 20} MiB, a line of a watch {connection.LONGEST_LINE >> 20} MiB |" in limits
    assert f"| {connection.LONGEST_RETRY_AFTER_S:.0f} s |" in limits
    assert f"| {WATCH_S[1] + client.GRACE_S:.0f} s, of the Lease's" in limits
    assert f"after {DARK_S:.0f} s the replica is not ready" in limits


def test_whatever_its_role_lets_it_write_has_a_row() -> None:
    (role,) = (document for document in yaml.safe_load_all(RIGHTS.read_text()) if document["kind"] == "ClusterRole")
    jobs = {(kind.group, kind.plural) for kind in KINDS}
    rows = " ".join(re.findall(r"^\| ([^|]*) \|", RIGHTS_PAGE.partition("| write |")[2], re.MULTILINE)).lower()
    for rule in role["rules"]:
        if {"create", "patch", "update", "delete"}.intersection(rule["verbs"]):
            for group, resource in product(rule["apiGroups"], rule["resources"]):
                noun = resource.removesuffix("/status").removeprefix("pods/").removesuffix("s")
                assert (group, resource) in jobs or noun in rows, resource


def test_the_settings_and_the_schedulers_entry_belong_together() -> None:
    settings, scheduler = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", TLS, re.DOTALL))
    assert load(None, **settings).tls is not None
    (entry,) = scheduler["extenders"]
    assert entry["urlPrefix"].startswith("https://")
    assert entry["urlPrefix"].endswith(f":{settings['listen_port']}")
    assert entry["enableHTTPS"] is True
    assert set(entry["tlsConfig"]) == {"caFile", "certFile", "keyFile"}


def test_what_is_shown_is_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from extender.cli.main import main

    monkeypatch.setenv("MUSTER_LISTEN_HOST", "0.0.0.0")  # noqa: S104
    (shown,) = re.findall(r"\$ MUSTER_LISTEN_HOST=0\.0\.0\.0 muster serve\n(.*?)```", TLS, re.DOTALL)
    assert CliRunner().invoke(main, ["serve"]).output.split() == shown.split()
