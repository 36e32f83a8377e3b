"""The setting ``job_kinds``: a sentence tells what is wrong with a kind."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cli.doctor.rights import EXTENDER, needed
from extender.config.job_kinds import KNOWN, MOST_PODS
from extender.config.settings import SettingsError, load
from extender.kube.kinds import plan
from extender.kube.kinds.owners import OWNER_KINDS
from extender.kube.kinds.registry import KINDS

SIMULATION: dict[str, Any] = {
    "version": "science.example.com/v1",
    "kind": "Simulation",
    "plural": "simulations",
    "podsets": [
        {"name": "solver", "template": "spec.solver.template", "count": "spec.solver.replicas"},
        {"name": "viewer", "template": "spec.viewer.template", "count": 1},
    ],
    "finished": ["Done", "status.phase=Failed"],
}


def said(folder: Path, *kinds: object) -> str:
    """The error about a file with these kinds."""
    file = folder / "muster.yaml"
    file.write_text(yaml.safe_dump({"job_kinds": list(kinds)}))
    with pytest.raises(SettingsError) as refused:
        load(file)
    return str(refused.value)


def changed(at: str, value: object) -> dict[str, Any]:
    """A copy with that in the place, or without it."""
    kind = deepcopy(SIMULATION)
    *above, last = at.split(".")
    place: Any = kind
    for step in above:
        place = place[int(step) if step.isdecimal() else step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return kind


MISTAKES = {
    "an unknown key": ("suspended", "spec.stop", ".suspended: there is no such setting"),
    "an unknown key of a podset": ("podsets.0.size", 4, ".podsets.0.size: there is no such setting"),
    "what is needed is not there": ("finished", None, ".finished: it is missing"),
    "no podset": ("podsets", [], ".podsets: it has too few entries: at least 1"),
    "no version": ("version", "v1", ".version: 'v1' is not a group and a version, as in science.example.com/v1"),
    "no kind": ("kind", "simulation", ".kind: 'simulation' is not a kind, as in Simulation"),
    "no plural": (
        "plural",
        "sims/x",
        ".plural: 'sims/x' is not a name: up to 63 lower-case letters, digits and hyphens",
    ),
    "no path": (
        "podsets.0.template",
        "$.spec.template",
        ".podsets.0.template: '$.spec.template' is not a path: names of fields joined with dots, beginning with "
        "spec, as in spec.worker.template",
    ),
    "a path of the status": ("suspend", "status.stop", ".suspend: 'status.stop' is not a path: "),
    "a path with an empty part": ("suspend", "spec..stop", ".suspend: 'spec..stop' is not a path: "),
    "the whole spec": ("podsets.0.template", "spec", ".podsets.0.template: 'spec' is not a path: "),
    "a long path": ("suspend", "spec.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x", ".suspend: 'spec.x.x"),
    "no count": (
        "podsets.0.count",
        1.5,
        f".podsets.0.count: 1.5 is neither a path nor a whole number from 1 to {MOST_PODS:,}",
    ),
    "true is no count": ("podsets.0.count", True, ".podsets.0.count: True is neither a path nor "),
    "no pod": ("podsets.0.count", 0, ".podsets.0.count: 0 is neither a path nor "),
    "no path of a count": ("podsets.0.count", "replicas", ".podsets.0.count: 'replicas' is not a path: "),
    "no label": ("podsets.0.index_label", "a b", ".podsets.0.index_label: 'a b' is not the key of a label"),
    "no sign": (
        "finished",
        ["status.phase="],
        ".finished.0: 'status.phase=' is not a sign: the type of a condition, or a field as in "
        "status.active or status.phase=Done",
    ),
    "two of a name": ("podsets.1.name", "solver", ": two podsets have the name solver"),
    "two of a template": (
        "podsets.1.template",
        "spec.solver.template",
        ": spec.solver.template is spec.solver.template or a part of it, and each place is one thing alone",
    ),
    "a template in another": (
        "podsets.1.template",
        "spec.solver.template.inner",
        ": spec.solver.template.inner is spec.solver.template or a part of it, and each place is one thing alone",
    ),
    "suspend in a template": ("suspend", "spec.solver.template.suspend", ": spec.solver.template.suspend is "),
    "managers of nothing": ("managers", ["example.com/controller"], ": managers needs managed_by"),
    "began without stopped": ("began", ["status.phase"], ": began needs stopped"),
    "too many signs": (
        "active",
        ["Active"] * 17,
        ".active: it has too many entries: at most 16",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(name: str, tmp_path: Path) -> None:
    at, value, what = MISTAKES[name]
    message = said(tmp_path, changed(at, value))
    assert message.startswith(f"job_kinds.0{what}")
    assert "\n" not in message
    assert len(message) < 400


def test_a_kind_that_muster_knows_is_refused(tmp_path: Path) -> None:
    job = SIMULATION | {"version": "batch/v2", "kind": "Job"}
    assert said(tmp_path, job) == "job_kinds.0: Muster knows the kind Job of batch already"
    known = {(group, kind) for group, kinds in KNOWN.items() for kind in kinds}
    in_code = {(kind.group, kind.name) for kind in KINDS} | {(kind.group, kind.name) for kind in OWNER_KINDS}
    assert known ^ in_code == set(), (
        "KNOWN in extender/config/job_kinds.py names the kinds of the registry and of owners"
    )


def test_two_kinds_are_not_one(tmp_path: Path) -> None:
    later = SIMULATION | {"version": "science.example.com/v2"}
    assert said(tmp_path, SIMULATION, later) == "job_kinds: the kind Simulation of science.example.com is there twice"
    other = SIMULATION | {"kind": "Sim"}
    assert said(tmp_path, SIMULATION, other) == "job_kinds: Simulation and Sim have the same plural simulations"


def test_there_are_not_too_many(tmp_path: Path) -> None:
    many = [SIMULATION | {"kind": f"Kind{at}", "plural": f"kinds{at}"} for at in range(33)]
    assert said(tmp_path, *many) == "job_kinds: it has too many entries: at most 32"


def test_a_podset_has_no_more_pods_than_can_be_planned() -> None:
    assert MOST_PODS == plan.MOST_PODS


def test_the_doctor_asks_for_the_rights_that_a_kind_needs() -> None:
    settings = load(None).model_validate({"job_kinds": [SIMULATION]})
    rights = [right for right in needed(settings, None) if right.group == "science.example.com"]
    assert {(right.account, right.verb, right.resource) for right in rights} == {
        (EXTENDER, verb, "simulations") for verb in ("get", "list", "watch", "patch")
    }
