"""The public names of Muster, collected from the code.

`python -m tests.documents.names` adds them to the file in docs/released of the release that pyproject.toml names, and
removes none.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer
import yaml
from pydantic import BaseModel

from extender.api.models import PREFIX, ComputeDomainView, DomainStock, Explanation, GangView, QueueView, TopologyView
from extender.cli import loadtest
from extender.cli.doctor.command import Report
from extender.cli.doctor.finding import NOT_CHECKED
from extender.cli.main import Deferred, main
from extender.config.aliases import ALIASES
from extender.config.settings import Settings
from extender.core.effects import Hint, RevokedFor
from extender.core.explain.reasons import CODES as REASONS
from extender.core.workload.status import Status
from extender.http.api import api
from extender.http.server import _pages
from extender.kube.reports import EVICTED, MISSPELT_KEY, SUSPENDED
from extender.simulation.report.fairness import Fairness
from extender.simulation.report.outcome import Figures, Preempted
from extender.simulation.report.tables import Input
from extender.simulation.whatif import Verdict
from tests.documents import reference
from tests.documents.pages import ROOT
from tests.metrics import described

PAGE = ROOT / "docs" / "names.md"
RELEASED = ROOT / "docs" / "released"
Names = dict[str, list[str]]
"""Kind -> the names of that kind, sorted."""
SCHEDULER = ROOT / "manifests" / "base" / "kube-scheduler-config.yaml"
MONITORING = ROOT / "manifests" / "components" / "monitoring" / "alerts.yaml"

ANSWERS: dict[str, type[BaseModel]] = {
    "/api/v1/gangs": GangView,
    "/api/v1/gangs/{namespace}/{name}": GangView,
    "/api/v1/explain/{namespace}/{name}": Explanation,
    "/api/v1/queues": QueueView,
    "/api/v1/domains": DomainStock,
    "/api/v1/compute-domains": ComputeDomainView,
    "/api/v1/topology": TopologyView,
}
"""The type of each page's answer, alone or in a list."""
OUTPUTS: dict[str, dict[str, type]] = {
    "muster doctor": {"": Report},
    "muster simulate": {
        "input.": Input,
        "schedulers[].": Figures,
        "schedulers[].fairness.": Fairness,
        "schedulers[].preempted.": Preempted,
        "verdicts[].": Verdict,
    },
}
"""The types of each command's JSON, by their place in it."""


def names() -> Names:
    """Return every public name of the code and the manifests as they are."""
    commands = typer.main.get_command(main)
    by_kind: dict[str, Iterable[str]] = {
        "settings": _fields(Settings),
        "keys": _keys(),
        "keys of others": reference.SAID_TO_OTHERS,
        "commands": (name for name, _ in _commands(commands, "muster")),
        "variables": (variable for _, variable in _commands(commands, "muster") if variable),
        "pages": _paths(),
        "answers": (f"{page}: {key}" for page, model in ANSWERS.items() for key in _fields(model)),
        "outputs": _outputs(),
        "reasons": REASONS,
        "reasons of Events": _event_reasons(),
        "statuses": map(str, Status),
        "metrics": (
            f"{metric.name}{{{','.join(metric.labels)}}}" if metric.labels else metric.name
            for metric in described().values()
        ),
        "causes": map(str, RevokedFor),
        "findings": finding_codes(),
        "alerts": _alerts(),
        "objects": _objects(),
    }
    return {kind: sorted(set(listed)) for kind, listed in by_kind.items()}


def finding_codes() -> set[str]:
    """Return the code of every finding of the doctor."""
    sources = [path.read_text() for path in (ROOT / "extender" / "cli" / "doctor").glob("*.py")]
    given = r'(?:(?:error|warning|note)\(|Finding\(Severity\.\w+,)\s*"([A-Za-z]+)"'
    codes = {code for text in sources for code in re.findall(given, text)}
    return codes | {f"No{verb}Verb" for verb in ("Filter", "Prioritize", "Preempt", "Bind")} | {NOT_CHECKED}


def released() -> dict[str, dict[str, Any]]:
    """Return the record of each release: its ``names``, and its ``aliases`` with the release that ends each."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted(RELEASED.glob("*.yaml"))}


def with_now(release: dict[str, Any]) -> dict[str, Any]:
    """Return a release's record, with the names of the present code."""
    then = release.get("names", {})
    return {
        "names": {kind: sorted({*then.get(kind, ()), *listed}) for kind, listed in names().items()},
        "aliases": {kind: {old: alias.until for old, alias in aliases.items()} for kind, aliases in ALIASES.items()},
    }


def version() -> str:
    """Return the version that pyproject.toml names."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def _fields(record: Any, prefix: str = "") -> Iterator[str]:
    """The fields of a pydantic model or a dataclass, and of those inside it."""
    hints = get_type_hints(record)
    for name in record.model_fields if issubclass(record, BaseModel) else [field.name for field in fields(record)]:
        yield f"{prefix}{name}"
        for inner, sign in _records(hints[name]):
            yield from _fields(inner, f"{prefix}{name}{sign}.")


def _records(annotation: Any) -> Iterator[tuple[type, str]]:
    """The records in an annotation, with the sign of a list where they stand in one."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        yield annotation, ""
    elif get_origin(annotation) in (UnionType, Union):
        for argument in get_args(annotation):
            yield from _records(argument)
    elif get_origin(annotation) in (list, tuple):
        for argument in get_args(annotation):
            yield from ((record, f"[]{sign}") for record, sign in _records(argument))


@cache
def _nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(file.read_text())))


def _keys() -> Iterator[str]:
    """Every key of ours in the code, whichever table explains it."""
    for folder in ("extender", "policies"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "muster.dev/" in file.read_text():
                for node in _nodes(file):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield from re.findall(r"^muster\.dev/[A-Za-z0-9-]+$", node.value)


def _commands(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """The commands of an installed package, each with the environment variables that it reads.

    Such a package has the benchmark of a running extender, and no other.
    """
    if isinstance(command, Deferred):
        bench = command.name == "bench"
        command = typer.main.get_command(loadtest.main) if bench else command.load()
    yield name, ""
    for param in command.params:
        words = [*param.opts, *param.secondary_opts] if param.param_type_name == "option" else [param.name.upper()]
        yield from ((f"{name} {word}", str(param.envvar or "")) for word in words)
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _commands(subcommand, f"{name} {inner}")


def _paths() -> Iterator[str]:
    """The paths of the pages, and those of the verbs that the shipped kube-scheduler calls."""
    nobody: Any = None
    pages = _pages(nobody, nobody, nobody, nobody, api(nobody))
    yield from (path for route in pages.routes if (path := getattr(route, "path", "")))
    for path in pages.openapi()["paths"]:
        yield path
        yield path.removeprefix(PREFIX)  # the alias, from before there were versions
    for entry in yaml.safe_load(SCHEDULER.read_text())["extenders"]:
        yield from (f"/{path}" for key, path in entry.items() if key.endswith("Verb"))


def _outputs() -> Iterator[str]:
    for command, parts in OUTPUTS.items():
        for prefix, record in parts.items():
            yield from (f"{command}: {key}" for key in _fields(record, prefix))


def _event_reasons() -> Iterator[str]:
    yield from (EVICTED, SUSPENDED, MISSPELT_KEY)
    yield from (str(field.default) for field in fields(Hint) if field.name == "reason")
    for folder in ("core", "runtime"):
        yield from _arguments(folder, "Hint", "reason", 5)


def _arguments(folder: str, function: str, keyword: str, position: int) -> Iterator[str]:
    """The text that is given to each call of a function there."""
    for file in sorted((ROOT / "extender" / folder).rglob("*.py")):
        if f"{function}(" not in file.read_text():
            continue
        for node in _nodes(file):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                given = [pair.value for pair in node.keywords if pair.arg == keyword] or node.args[position:][:1]
                for value in given:
                    assert isinstance(value, ast.Constant), f"{file.name}:{node.lineno}: {keyword} is no constant"
                    yield str(value.value)


def _alerts() -> Iterator[str]:
    return (rule["alert"] for group in yaml.safe_load(MONITORING.read_text())["groups"] for rule in group["rules"])


def _objects() -> Iterator[str]:
    for file in sorted((ROOT / "manifests").rglob("*.yaml")):
        if "examples" in file.parts or file.name in ("kustomization.yaml", "muster.yaml", "kube-scheduler-config.yaml"):
            continue
        for obj in yaml.safe_load_all(file.read_text()):
            if isinstance(obj, dict) and "kind" in obj and not obj["kind"].endswith("PolicyBinding"):
                yield f"{obj['kind']}/{obj['metadata']['name']}"


if __name__ == "__main__":
    written = yaml.safe_dump(with_now(released().get(version(), {})), sort_keys=False, width=120)
    (RELEASED / f"{version()}.yaml").write_text(written)
