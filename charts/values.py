"""values.schema.json and the table in README.md, made of values.yaml and of Muster's settings.

Each value has its description above it in values.yaml, and its type is that of its default. What a default does not say
stands here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode

from charts.templates import CHART, ChartError
from extender.config.settings import Settings

Schema = dict[str, Any]

_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_NAME = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_SELECTOR: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "matchLabels": _TEXTS,
        "matchExpressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["key", "operator"],
                "additionalProperties": False,
                "properties": {
                    "key": {"type": "string", "minLength": 1},
                    "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                    "values": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}
_AMOUNTS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_RESOURCES: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": {"type": "array"}},
}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_IMAGE: Mapping[str, Schema] = {
    "repository": {"type": "string", "pattern": "^[^:@\\s]+(:[0-9]+/[^:@\\s]+)?$"},
    "tag": {"type": "string", "pattern": "^[\\w.-]*$"},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
}

_SHAPES: Mapping[str, Schema] = {
    **{f"image.{key}": shape for key, shape in _IMAGE.items()},
    **{f"kubeScheduler.image.{key}": shape for key, shape in _IMAGE.items()},
    "kubeScheduler.resources": _RESOURCES,
    "kubeScheduler.config": {"type": "object"},
    "imagePullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": {"type": "string", "pattern": _NAME}},
        },
    },
    "schedulerNames": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": _NAME}},
    "admission.excludedNamespaces": {"type": "array", "items": {"type": "string", "pattern": _NAME}},
    "admission.namespaceSelector": _SELECTOR,
    "admission.gateNamespaceSelector": _SELECTOR,
    "prometheusOperator.labels": _TEXTS,
    "replicas": {"type": "integer", "minimum": 0},
    "resources": _RESOURCES,
    "tokenResources": _RESOURCES,
    "podDisruptionBudget.maxUnavailable": {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+%$"}]
    },
    "networkPolicy.apiServerPorts": {"type": "array", "minItems": 1, "items": _PORT},
    "networkPolicy.prometheusPorts": {"type": "array", "items": _PORT},
    "networkPolicy.prometheusLabels": _TEXTS,
    **dict.fromkeys(("commonLabels", "commonAnnotations", "podLabels", "podAnnotations", "nodeSelector"), _TEXTS),
    "tolerations": {"type": "array", "items": {"type": "object"}},
    "affinity": {"type": "object"},
}
"""The types of values whose defaults do not say them."""


@dataclass(frozen=True)
class Value:
    """A key of values.yaml, with its default and the comment above it."""

    path: str
    default: Any
    description: str


def values() -> list[Value]:
    """Return the keys of values.yaml in their order, a mapping before its own keys."""
    text = (CHART / "values.yaml").read_text()
    root = yaml.compose(text)
    if not isinstance(root, MappingNode):
        raise ChartError("values.yaml is not a mapping")
    return list(_keys(root, "", text.splitlines()))


def _keys(node: MappingNode, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        yield Value(path, yaml.safe_load(yaml.serialize(value)), _comment(lines, key.start_mark.line))
        if path not in _SHAPES and isinstance(value, MappingNode) and value.value:
            yield from _keys(value, f"{path}.", lines)


def _comment(lines: list[str], at: int) -> str:
    """Return the comment that ends in the line above; a blank line ends it."""
    first = at
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(line.strip().removeprefix("#").strip() for line in lines[first:at])


def schema() -> str:
    """Return values.schema.json: a value that is not in values.yaml, or of another type, is refused."""
    settings = Settings.model_json_schema()
    root: Schema = {"properties": {}}
    for value in values():
        *above, key = value.path.split(".")
        place = root
        for name in above:
            place = place["properties"][name]
        place["properties"][key] = _described(value)
        if value.default not in ("", [], {}):
            # What is null is not there.
            place.setdefault("required", []).append(key)
    # A chart that has this one among its dependencies passes these two on.
    root["properties"] |= {"global": {"type": "object"}, "enabled": {"type": "boolean"}}
    of_settings = root["properties"]["config"]
    of_settings |= {key: settings[key] for key in ("additionalProperties", "properties")}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart muster",
        "type": "object",
        "additionalProperties": False,
        **root,
        "$defs": settings["$defs"],
    }
    return json.dumps(_plain(whole), indent=2) + "\n"


def _described(value: Value) -> Schema:
    described: Schema = {"description": value.description} if value.description else {}
    if value.path in _SHAPES:
        return described | _SHAPES[value.path]
    match value.default:
        case bool():
            return described | {"type": "boolean"}
        case str():
            return described | {"type": "string"}
        case {} if value.path == "config":
            return described | {"type": "object"}
        case {**parts} if parts:
            return described | {"type": "object", "additionalProperties": False, "properties": {}}
    raise ChartError(f"charts/values.py does not know the type of {value.path}: add it to _SHAPES")


def _plain(node: Any) -> Any:
    """Return the schema without titles, which only repeat names; `on` and `off` are read as true and false by YAML."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain(value) for key, value in node.items() if not (key == "title" and "$schema" not in node)}
    if "on" in plain.get("enum", ()):
        plain = {"description": plain["description"], "enum": [*plain["enum"], True, False]}
    return plain


def table() -> str:
    """Return the values as a table of Markdown."""
    rows = [
        f"| `{value.path}` | {_shown(value.default)} | {value.description.replace('|', chr(92) + '|')} |"
        for value in values()
        if value.path in _SHAPES or not isinstance(value.default, dict) or not value.default
    ]
    return "\n".join(["| value | default | what it is for |", "|---|---|---|", *rows])


def _shown(default: object) -> str:
    return f"`{json.dumps(default)}`"
