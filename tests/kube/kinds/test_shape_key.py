"""Jobs have one shape if admission treats their pods alike."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from extender.kube.kinds.job import JOB
from extender.kube.kinds.read import Reader
from tests.kube.kinds.jobs import started, stored

MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: train-0, namespace: team, labels: {muster.dev/gang: "true"}}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    metadata: {labels: {app: train}, annotations: {note: a}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: a, args: [x], env: [{name: A, value: b}], resources: {requests: {cpu: "1"}}}]
"""


def shape(name: str = "train-0", **changes: Any) -> str:
    """The shape of that job as the API server stores it.

    ``changes``: values of its template, by path, joined with two underscores.
    """
    obj = stored(MANIFEST)
    obj["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    template = obj["spec"]["template"]
    ours = {"job-name": name, "controller-uid": f"uid-{name}", "batch.kubernetes.io/job-name": name}
    template["metadata"]["labels"] = {**template["metadata"]["labels"], **ours}
    for path, value in changes.items():
        *parts, last = path.split("__")
        place = template
        for key in parts:
            place = place[int(key)] if key.isdigit() else place.setdefault(key, {})
        place[last] = value
    return Reader().read(JOB, obj).podsets.podsets[0].shape


def test_jobs_that_differ_in_their_names_alone_have_one_shape() -> None:
    assert len({shape(f"train-{number}") for number in range(187)}) == 1


@pytest.mark.parametrize("field", ["image", "args", "env", "command", "envFrom"])
def test_what_a_container_does_is_no_part_of_it(field: str) -> None:
    value: Any = "other" if field == "image" else ["other"]
    assert shape(**{f"spec__containers__0__{field}": value}) == shape()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata__labels__inject", "yes"),
        ("metadata__annotations__note", "b"),
        ("spec__serviceAccountName", "other"),
        ("spec__containers__0__name", "other"),
        ("spec__containers__0__resources", {"requests": {"cpu": "2"}}),
        ("spec__nodeSelector", {"pool": "a"}),
        ("spec__runtimeClassName", "gvisor"),
    ],
)
def test_what_admission_goes_by_is_part_of_it(path: str, value: Any) -> None:
    assert shape(**{path: value}) != shape()


def test_what_muster_writes_on_a_template_is_no_part_of_it() -> None:
    obj = stored(MANIFEST)
    written = started(JOB, deepcopy(obj))
    assert Reader().read(JOB, written).podsets.podsets[0].shape == Reader().read(JOB, obj).podsets.podsets[0].shape


def test_text_that_cannot_be_encoded_is_part_of_it_too() -> None:
    assert shape(metadata__annotations__note="\ud800") not in (shape(), "")
