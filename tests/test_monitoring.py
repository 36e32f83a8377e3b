"""The alerts and the dashboard that ship ask for nothing but metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.metrics import described

FOLDER = Path(__file__).parent.parent / "manifests" / "components" / "monitoring"
OPERATOR = FOLDER.parent / "prometheus-operator"
FUNCTIONS = {"sum", "min", "max", "rate", "increase", "histogram_quantile", "absent", "vector"}
WORDS = {"by", "and", "or", "unless", "on", "ignoring"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    alerts: list[dict[str, Any]] = group["rules"]
    return alerts


def panels() -> list[dict[str, Any]]:
    every_panel: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return [panel for panel in every_panel if panel["type"] != "row"]


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def asked(query: str) -> tuple[dict[str, set[str]], set[str]]:
    """The metrics of a query with the labels that are matched on each, and the labels that it groups by."""
    text = re.sub(r"\[[^\]]*\]", "", query)
    grouped = {label.strip() for inner in re.findall(r"\bby\s*\(([^)]*)\)", text) for label in inner.split(",")}
    text = re.sub(r"\bby\s*\([^)]*\)", "", text)
    metrics: dict[str, set[str]] = {}
    for name, _, matchers in re.findall(r"\b([A-Za-z_]\w*)\b\s*(\{([^}]*)\})?", re.sub(r"\w+\s*\(", "(", text)):
        if name not in WORDS:
            metrics.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
    return metrics, grouped - {"le"}


def problems(query: str) -> list[str]:
    """The functions, metrics and labels of a query that do not exist; empty when all exist."""
    known = {series: metric for metric in described().values() for series in metric.series}
    metrics, grouped = asked(query)
    odd = [f"function {name}" for name in re.findall(r"(\w+)\s*\(", query) if name not in FUNCTIONS | WORDS]
    odd += [f"metric {name}" for name in metrics if name not in known]
    for name, labels in metrics.items():
        if name in known:
            odd += [f"label {label} of {name}" for label in labels - set(known[name].labels)]
            odd += [f"label {label} of {name}" for label in grouped - set(known[name].labels)]
    return odd if metrics else [*odd, "no metric at all"]


@pytest.mark.parametrize("query", dict.fromkeys(queries()))
def test_every_query_asks_for_what_exists(query: str) -> None:
    assert problems(query) == []
    assert query.count("(") == query.count(")")


@pytest.mark.parametrize(
    "wrong",
    [
        "rate(muster_gang_plans[5m])",
        'muster_gangs{status="Running"}',
        "sum by (verbs) (rate(muster_verb_calls_total[5m]))",
        "histogram_quantile(0.9, rate(muster_gang_wait_seconds[5m]))",
        "avg(muster_synced)",
        "1 > 0",
    ],
)
def test_a_query_that_asks_for_what_is_not_there_is_noticed(wrong: str) -> None:
    assert problems(wrong)


def test_every_metric_is_looked_at_by_the_dashboard() -> None:
    shown = {name for panel in panels() for target in panel["targets"] for name in asked(target["expr"])[0]}
    unseen = [metric.name for metric in described().values() if not shown & set(metric.series)]
    assert unseen == []


def test_every_alert_says_what_to_do() -> None:
    for rule in rules():
        assert re.fullmatch(r"Muster[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
        assert len(rule["annotations"]["description"]) > 40
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 8


def test_the_objects_of_the_prometheus_operator_are_the_same_alerts_and_port() -> None:
    rule = yaml.safe_load((OPERATOR / "rules.yaml").read_text())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    monitor = yaml.safe_load((OPERATOR / "pod-monitor.yaml").read_text())
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    patch = yaml.safe_load((FOLDER / "metrics-port.yaml").read_text())["spec"]["template"]["spec"]
    assert endpoint["port"] == patch["containers"][0]["ports"][0]["name"]
    deployment = yaml.safe_load((FOLDER.parent.parent / "base" / "deployment.yaml").read_text())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    listed = yaml.safe_load((OPERATOR / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(path.name for path in OPERATOR.glob("*.yaml") if path.name != "kustomization.yaml")


@pytest.mark.parametrize(
    ("title", "query"),
    [
        ("GPUs free", 'max(muster_gpus{state="free"})'),
        ("GPUs by use", "max by (state) (muster_gpus)"),
        ("Oldest waiting gang", "max(muster_oldest_waiting_gang_seconds)"),
    ],
)
def test_the_dashboard_shows_gpus_and_the_longest_wait(title: str, query: str) -> None:
    (panel,) = (candidate for candidate in panels() if candidate["title"] == title)
    assert [target["expr"] for target in panel["targets"]] == [query]


def test_a_gang_that_waits_for_hours_is_an_alert() -> None:
    (rule,) = (alert for alert in rules() if alert["alert"] == "MusterGangWaitsLong")
    assert rule["expr"] == "max(muster_oldest_waiting_gang_seconds) > 4 * 3600"
    assert "muster gangs --waiting" in rule["annotations"]["description"]


def test_gangs_that_run_or_have_ended_do_not_wait() -> None:
    waiting = next(panel for panel in panels() if panel["title"] == "Waiting")
    assert [target["expr"] for target in waiting["targets"]] == [
        'sum(max by (state) (muster_gangs{state!~"Running|Ended"})) or vector(0)'
    ]


def test_panels_neither_overlap_nor_lack_an_explanation() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"].endswith("."), panel["title"]
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_the_port_that_is_opened_is_the_one_that_is_served() -> None:
    patch = yaml.safe_load((FOLDER / "metrics-port.yaml").read_text())["spec"]["template"]
    (container,) = patch["spec"]["containers"]
    (port,) = container["ports"]
    policy = yaml.safe_load((FOLDER / "network-policy.yaml").read_text())
    assert container["env"] == [{"name": "MUSTER_METRICS_PORT", "value": str(port["containerPort"])}]
    assert patch["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    assert [allowed["port"] for allowed in policy["spec"]["ingress"][0]["ports"]] == [port["containerPort"]]
