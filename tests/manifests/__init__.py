"""Manifests as the documents of other projects print them, a file for each page, with what Muster makes of each.

A file begins with the page and a document ``must``: one entry for each workload (or queue) in the documents after it.

| field | what it says |
|---|---|
| ``is`` | kind and name of the object; of several pods with one ``generateName`` the first |
| ``add`` | lines that a user adds: ``queue`` and ``gang`` (labels), ``scheduler`` (``schedulerName: muster``) |
| ``managed`` | false: Muster leaves it alone |
| ``gang`` | the name of its gang; ``*`` for what the API server adds; without the number of a group |
| ``groups`` | how many gangs it makes, of these podsets each |
| ``podsets`` | pods that ask for the same: how many, ``least`` (that are enough), ``wave``, what each ``asks`` for |
| ``starts`` | how many start together, if not all of them |
| ``comes`` | how many run in the end on simulated nodes, if not all of them |
| ``together``, ``slices`` | the level that all share; levels with how many pods share a domain of each |
| ``queue`` | the queue that the manifest names itself |
| ``waits``, ``because`` | the reason for which it waits, and words of it |
| ``refused`` | words by which the API server refuses it, with strict validation |
| ``warns`` | words of a warning that its author gets when it is created |
| ``unplanned`` | why it could not be planned, whether Muster is to admit it or not |
| ``quota``, ``cohort``, ``strict``, ``weight``, ``most`` | of a queue |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
FOLDER = Path(__file__).parent
QUEUE = "team-queue"
LINES = {"queue": {"kueue.x-k8s.io/queue-name": QUEUE}, "gang": {"muster.dev/gang": "true"}}
"""The labels that the documents of Muster ask for, by the name of the line."""
FIELDS = frozenset(
    name for row in __doc__.splitlines() if row.startswith("|") for name in re.findall(r"``(\w+)``", row.split("|")[1])
)
"""The fields of the table above."""


@dataclass(frozen=True)
class Manifest:
    """An entry of ``must``: ``obj`` as it is printed, and ``beside``, the other documents of its page."""

    page: str
    must: Object
    obj: Object
    beside: Sequence[Object]

    @property
    def name(self) -> str:
        return f"{self.page}:{self.must['is']}"

    @property
    def kind(self) -> str:
        return str(self.must["is"]).partition("/")[0]

    @property
    def queue(self) -> str:
        """The queue that it is in with the lines that are added to it."""
        return QUEUE if "queue" in self.lines else str(self.must.get("queue", ""))

    @property
    def lines(self) -> list[str]:
        return [line for line in self.must.get("add", "").replace(" ", "").split(",") if line in (*LINES, "scheduler")]

    @property
    def podsets(self) -> list[Object]:
        return list(self.must.get("podsets", ()))

    @property
    def size(self) -> int:
        """How many pods one gang of it has."""
        return sum(int(podset["pods"]) for podset in self.podsets)

    @property
    def least(self) -> int:
        """How many of them are enough."""
        numbers: list[int] = [podset["least"] if "least" in podset else podset["pods"] for podset in self.podsets]
        return sum(numbers)

    @property
    def members(self) -> list[Object]:
        """The object, and beside one that is a pod the other pods, with the lines that a user adds to each."""
        others = [obj for obj in self.beside if obj["kind"] == "Pod"] if self.kind == "Pod" else []
        return [self._with_lines(obj) for obj in (self.obj, *others)]

    def _with_lines(self, obj: Object) -> Object:
        obj = deepcopy(obj)
        for line in self.lines:
            if line in LINES:
                obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **LINES[line]}
            else:
                for spec in pod_specs(obj):
                    spec["schedulerName"] = "muster"
        return obj


def pod_specs(obj: Any) -> Iterator[Object]:
    """Each spec of pods in the object, also of one that is a pod."""
    if isinstance(obj, dict) and isinstance(obj.get("containers"), list):
        yield obj
        return
    for value in obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ():
        yield from pod_specs(value)


def documents(path: Path) -> tuple[list[Object], list[Object]]:
    """Return what a file says of its manifests, and these as they are sent, without aliases; a List is its items."""
    header, *printed = (
        json.loads(json.dumps(document)) for document in yaml.safe_load_all(path.read_text()) if document
    )
    items = [item for obj in printed for item in (obj["items"] if obj["kind"] == "List" else [obj])]
    return header["must"], items


@lru_cache
def manifests() -> tuple[Manifest, ...]:
    """All of them, in the order of their files."""
    collected = []
    for path in sorted(FOLDER.glob("*/*.yaml")):
        page = str(path.relative_to(FOLDER).with_suffix(""))
        entries, printed = documents(path)
        for must in entries:
            obj = next(candidate for candidate in printed if _named(candidate) == must["is"])
            collected.append(Manifest(page, must, obj, tuple(other for other in printed if other is not obj)))
    return tuple(collected)


def _named(obj: Object) -> str:
    meta = obj["metadata"]
    return f"{obj['kind']}/{meta.get('name') or meta['generateName']}"
