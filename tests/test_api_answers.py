"""Every answer of a core in many states agrees with the OpenAPI document, and with the client's reading of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import jsonschema_rs
import pytest
from pydantic import BaseModel

from extender.api import models
from extender.api.models import Problem
from extender.core.engine import Engine
from extender.core.workload.status import Status
from extender.http.api import api
from extender.runtime.runner import Runner
from tests.api_answers import READ, Answer, answers_of, by_hand, measured, queued, self_checks, simulated
from tests.running import Written

RECORDED = sorted((Path(__file__).parent / "recorded").glob("answers-*.jsonl"))
"""Answers of earlier releases: a file for each, a line for each answer with its path. No file is ever changed."""
SEEDS = (5, 14, 61)
"""Seeds of the simulation: pods refused by kube-scheduler, jobs, queues of both kinds, preemption."""


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    collected: list[Answer] = []

    def look(core: Engine, now: float) -> None:
        collected.extend(answers_of(core, now))

    for seed in SEEDS:
        simulated(seed, look)
    queued(0, look)
    for script in by_hand():
        look(script.core, script.now)
    return [*collected, *self_checks(), *measured()]


def document() -> dict[str, Any]:
    return api(Runner(Engine(), Written())).openapi()


def validators() -> dict[str, jsonschema_rs.Validator]:
    """Return validators for the answers of each path that the document describes, without any other field."""
    described = document()
    for schema in described["components"]["schemas"].values():
        schema["additionalProperties"] = False
    return {
        path: jsonschema_rs.validator_for(
            operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            | {"components": described["components"]}
        )
        for path, operations in described["paths"].items()
    }


def test_the_document_has_every_path_that_the_client_reads() -> None:
    assert set(document()["paths"]) == set(READ)


def test_the_document_lists_each_status() -> None:
    fields = document()["components"]["schemas"]["GangView"]["properties"]
    changes = fields["statuses"]["items"]["prefixItems"]
    assert fields["status"]["enum"] == changes[1]["enum"] == [*Status]


def test_every_answer_is_what_the_document_says_and_nothing_else(answers: list[Answer]) -> None:
    accepted = validators()
    for answer in answers:
        accepted[answer.path].validate(json.loads(answer.body))


def test_the_client_reads_all_of_every_answer(answers: list[Answer]) -> None:
    for answer in answers:
        assert READ[answer.path].dump_json(READ[answer.path].validate_json(answer.body)) == answer.body


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda file: file.stem)
def test_the_answers_of_earlier_releases_are_read_whole(recorded: Path) -> None:
    accepted, lines = validators(), recorded.read_text().splitlines()
    for line in map(json.loads, lines):
        path, answer = line["path"], line["answer"]
        accepted[path].validate(answer)
        assert READ[path].dump_python(READ[path].validate_python(answer), mode="json", exclude_unset=True) == answer
    assert {json.loads(line)["path"] for line in lines} <= set(READ)


def test_the_states_have_all_that_a_field_can_be(answers: list[Answer]) -> None:
    """The tests above depend on this: each field was null, if it may be, and empty, and more."""
    seen: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for model in _models(READ[answer.path].validate_json(answer.body)):
            for name in type(model).model_fields:
                seen[f"{type(model).__name__}.{name}"].add(_shape(getattr(model, name)))
    shapes = {
        f"{model.__name__}.{name}": {"value", *(["null"] if NoneType in get_args(field.annotation) else [])}
        for model in vars(models).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and model not in (BaseModel, Problem)
        for name, field in model.model_fields.items()
    }
    assert {name: missing for name, wanted in shapes.items() if (missing := wanted - seen[name])} == {}


def _models(answer: Any) -> Iterator[BaseModel]:
    """The models in an answer, at any depth."""
    inner = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else [answer]
    for value in inner:
        if isinstance(value, BaseModel):
            yield value
            for name in type(value).model_fields:
                yield from _models(getattr(value, name))


def _shape(value: Any) -> str:
    return "null" if value is None else "value" if value not in ("", [], {}, 0) else "empty"
