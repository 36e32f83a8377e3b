"""`muster convert`: objects of Kueue's v1beta1 become v1beta2 in the text of their files, and nothing else changes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from extender.cli.convert.rewrite import ConversionError, rewrite
from extender.cli.main import main
from extender.kube.queues.conversion import OLD, converted
from extender.kube.queues.documents import queue_documents
from tests.manifests_of_kueue import CONVERTED, EVERY_CHANGE
from tests.manifests_of_queues import FLAVORS, TEAMS, TUTORIAL


def test_every_change_is_made_and_all_else_stays_as_it_was_written() -> None:
    rewritten = rewrite(EVERY_CHANGE)
    assert rewritten.text == CONVERTED
    assert (rewritten.count, rewritten.notes) == (14, ())
    again = rewrite(CONVERTED)
    assert (again.text, again.count, again.notes) == (CONVERTED, 0, ())


def test_line_breaks_stay_as_they_are() -> None:
    assert rewrite(EVERY_CHANGE.replace("\n", "\r\n")).text == CONVERTED.replace("\n", "\r\n")


def test_the_tutorial_ships_in_both_versions() -> None:
    """Only the quotas differ that Kueue's own CRDs demand."""
    old, new = ((EXAMPLES / name).read_text() for name in ("tutorial.yaml", "tutorial-v1beta2.yaml"))
    converted = list(yaml.safe_load_all(rewrite(old).text))
    quotas = converted[1]["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    quotas[:0] = [{"name": "cpu", "nominalQuota": 1000}, {"name": "memory", "nominalQuota": "10Ti"}]
    assert list(yaml.safe_load_all(new)) == converted


@pytest.mark.parametrize("text", [TUTORIAL, FLAVORS, TEAMS], ids=["tutorial", "flavors", "teams"])
def test_what_is_converted_is_read_the_same(text: str) -> None:
    assert list(queue_documents(rewrite(text).text)) == list(queue_documents(text))


EXAMPLES = Path(__file__).parents[1] / "manifests" / "examples" / "queues"
NAMES = st.sampled_from(["any", "gpus", "on-demand", "a.b"])
CHECKS = st.lists(NAMES, unique=True, max_size=3)
CLUSTER_QUEUES = st.fixed_dictionaries(
    {},
    optional={
        "cohort": NAMES,
        "admissionChecks": CHECKS,
        "flavorFungibility": st.fixed_dictionaries(
            {},
            optional={
                "whenCanBorrow": st.sampled_from(["Borrow", "TryNextFlavor"]),
                "whenCanPreempt": st.sampled_from(["Preempt", "MayStopSearch"]),
            },
        ),
        "namespaceSelector": st.just({}),
        "resourceGroups": st.just([{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": []}]}]),
    },
)
WORKLOADS = st.one_of(
    st.fixed_dictionaries(
        {"priorityClassName": NAMES, "priorityClassSource": st.just("scheduling.k8s.io/priorityclass")},
        optional={"priority": st.integers(0, 9), "podSets": st.just([{"name": "main", "count": 1}])},
    ),
    st.fixed_dictionaries({}, optional={"priorityClassSource": st.just(""), "active": st.booleans()}),
)
CLUSTERS = st.one_of(
    st.fixed_dictionaries({"kubeConfig": st.fixed_dictionaries({"location": NAMES, "locationType": st.just("Path")})}),
    st.just({"kubeConfig": {"location": "", "locationType": "Secret"}, "clusterProfileRef": {"name": "other"}}),
)
OBJECTS = st.one_of(
    *(
        st.tuples(st.just(kind), specs)
        for kind, specs in {
            "ClusterQueue": CLUSTER_QUEUES,
            "Workload": WORKLOADS,
            "MultiKueueCluster": CLUSTERS,
            "AdmissionCheck": st.fixed_dictionaries(
                {"controllerName": NAMES}, optional={"retryDelayMinutes": st.just(15)}
            ),
        }.items()
    )
).map(lambda pair: {"apiVersion": OLD, "kind": pair[0], "metadata": {"name": "one"}, "spec": pair[1]})


def _written(obj: Any, style: str) -> str:
    match style:
        case "json":
            return json.dumps(obj)
        case "indented json":
            return json.dumps(obj, indent=2)
        case "flow":
            return yaml.safe_dump(obj, sort_keys=False, default_flow_style=True)
        case "leaves in flow":
            return yaml.safe_dump(obj, sort_keys=False, default_flow_style=None)
        case _:
            return yaml.safe_dump(obj, sort_keys=False, indent=4)


KINDS = {document["kind"] for document in yaml.safe_load_all(EVERY_CHANGE) if "kueue" in document["apiVersion"]} | {
    "Workload"
}
FIELDS = sorted(
    set(re.findall(r"\b([a-z]\w+):", EVERY_CHANGE)) | {"admission", "podSetAssignments", "topologyAssignment"}
)
QUICK = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(
    objects=st.lists(OBJECTS, min_size=1, max_size=3),
    style=st.sampled_from(["json", "indented json", "flow", "leaves in flow", "block"]),
    listed=st.booleans(),
)
def test_in_every_style_the_text_says_what_the_conversion_makes(
    objects: list[dict[str, Any]], style: str, listed: bool
) -> None:
    expected: list[Any] = [converted(obj["kind"], obj) for obj in objects]
    if listed:
        objects, expected = [{"kind": "List", "items": objects}], [{"kind": "List", "items": expected}]
    rewritten = rewrite("\n---\n".join(_written(obj, style) for obj in objects))
    assert list(yaml.safe_load_all(rewritten.text)) == expected
    assert not rewritten.notes
    if "json" in style and len(objects) == 1:
        assert json.loads(rewritten.text) == expected[0]


@QUICK
@given(objects=OBJECTS)
def test_comments_stay_but_for_those_of_lines_that_go(objects: dict[str, Any]) -> None:
    lines = _written(objects, "block").splitlines()
    text = "".join(f"{line}  # {number}\n# before {number + 1}\n" for number, line in enumerate(lines))
    rewritten = rewrite(text)
    assert yaml.safe_load(rewritten.text) == converted(objects["kind"], objects)
    before, after = _comments(text), _comments(rewritten.text)
    gone = {"admissionChecks: []", "kubeConfig:", "location: ''", "locationType: Secret", "retryDelayMinutes: 15"}
    lost = [
        lines[int(comment.rpartition(" ")[2])] for comment in before if comment not in after and "before" not in comment
    ]
    assert all(line.strip() in gone or line.strip().startswith("priorityClass") for line in lost)
    assert after == [comment for comment in before if comment in after]


def _comments(text: str) -> list[str]:
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


SHARED = f"""\
apiVersion: v1
kind: List
items:
- apiVersion: {OLD}
  kind: ClusterQueue
  metadata: {{name: one}}
  spec: &spec
    cohort: all   # shared
- apiVersion: {OLD}
  kind: ClusterQueue
  metadata: {{name: two}}
  spec:
    <<: *spec
    queueingStrategy: StrictFIFO
- apiVersion: {OLD}
  kind: ClusterQueue
  metadata: {{name: three}}
  spec: *spec
"""


def test_what_aliases_share_is_edited_once() -> None:
    assert rewrite(SHARED).text == SHARED.replace("v1beta1", "v1beta2").replace("cohort:", "cohortName:")


def test_an_entry_whose_value_is_an_alias_is_moved() -> None:
    text = f"""\
apiVersion: v1
kind: List
items:
- {_of_list("one", "admissionChecks: &checks [a, b]")}
- {_of_list("two", "admissionChecks: *checks   # the same")}
- {{apiVersion: {OLD}, kind: AdmissionCheck, spec: {{controllerName: &name x, retryDelayMinutes: *name}}}}
"""
    rewritten = rewrite(text)
    assert not rewritten.notes
    assert "      admissionChecks: *checks   # the same" in rewritten.text


def _of_list(name: str, spec: str) -> str:
    return f"apiVersion: {OLD}\n  kind: ClusterQueue\n  metadata: {{name: {name}}}\n  spec:\n    {spec}"


def test_a_part_that_is_shared_with_something_else_is_written_anew() -> None:
    text = SHARED + "- {apiVersion: example.com/v1, kind: Other, spec: *spec}\n"
    rewritten = rewrite(text)
    items = yaml.safe_load(rewritten.text)["items"]
    assert [item["spec"].get("cohortName") for item in items] == ["all", "all", "all", None]
    assert items[3]["spec"] == {"cohort": "all"}
    assert rewritten.notes == ("document 1 is written without its comments: its text cannot be edited in place",)


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\n---\n# another\n"])
def test_comments_stay_where_the_last_lines_go(line_break: str, last: str) -> None:
    """Two fields that mean nothing at the end of a document."""
    start = "kind: ClusterQueue\nspec:\n  cohort: all   # of them"
    text = f"apiVersion: {OLD}\n{start}\n  admissionChecks: []\n  admissionChecksStrategy: {{}}{last}"
    kept = f"apiVersion: {OLD}\n{start}{last}".replace("v1beta1", "v1beta2").replace("cohort:", "cohortName:")
    rewritten = rewrite(text.replace("\n", line_break))
    assert (rewritten.text, rewritten.notes) == (kept.replace("\n", line_break), ())


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        ("manual", "spec.admissionChecksStrategy is no mapping: list the checks below admissionChecks"),
        ("[manual]", "spec.admissionChecksStrategy is no mapping: list the checks below admissionChecks"),
        ("{admissionChecks: manual}", "spec.admissionChecksStrategy.admissionChecks is no list"),
    ],
)
def test_a_strategy_that_is_none_is_an_error_and_does_not_vanish(strategy: str, reason: str) -> None:
    with pytest.raises(ConversionError, match=f"^document 1, ClusterQueue one: {re.escape(reason)}$"):
        rewrite(_of("ClusterQueue", f"{{admissionChecksStrategy: {strategy}}}"))


def test_a_typed_list_is_converted_with_items_that_do_not_say_what_they_are() -> None:
    text = f"apiVersion: {OLD}\nkind: ClusterQueueList\nitems:\n- metadata: {{name: one}}\n  spec: {{cohort: all}}\n"
    assert rewrite(text).text == text.replace("v1beta1", "v1beta2").replace("cohort:", "cohortName:")


def test_what_is_not_known_stays_and_is_named() -> None:
    text = f"apiVersion: {OLD}\nkind: Later\nspec: {{cohort: all}}\n---\npatch: |-\n  apiVersion: {OLD}\n"
    rewritten = rewrite(text)
    assert (rewritten.text, rewritten.count) == (text, 0)
    assert rewritten.notes == (
        f"document 1: no kind Later of {OLD} is known: it stays as it is",
        f"{OLD} still stands in line 1, 6 of what was written: look at it",
    )


def test_older_versions_are_named_and_other_groups_are_not() -> None:
    text = "apiVersion: kueue.x-k8s.io/v1alpha1\n---\napiVersion: config.kueue.x-k8s.io/v1beta1\n"
    assert rewrite(text).text == text
    assert rewrite(text).notes == ("kueue.x-k8s.io/v1alpha1 still stands in line 1 of what was written: look at it",)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "just a text\n", "[1, 2]\n"])
def test_what_has_no_objects_stays(text: str) -> None:
    assert rewrite(text).text == text


def test_ends_of_documents_stay() -> None:
    text = "".join(
        f"%YAML 1.1\n---\n{document}...\n# after\n" for document in (_of("ClusterQueue", "{cohort: a}"), "a: 1\n")
    )
    assert rewrite(text).text == text.replace("v1beta1", "v1beta2").replace("cohort:", "cohortName:")


def test_documents_that_are_none_of_kueues_are_not_even_read() -> None:
    theirs = "value: !Ref x\nvalue: twice\n---\n"
    assert rewrite(theirs + TUTORIAL).text == theirs + rewrite(TUTORIAL).text


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "name", "Borrow"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from([*FIELDS, "name", "location", "values", "count"]), below, max_size=3)
    ),
    max_leaves=8,
)


@QUICK
@given(kind=st.sampled_from(sorted(KINDS)), spec=ANYTHING, status=ANYTHING)
def test_whatever_stands_in_a_field_ends_in_an_object_or_a_reason(kind: str, spec: object, status: object) -> None:
    obj = {"apiVersion": OLD, "kind": kind, "spec": spec, "status": status}
    text = json.dumps(obj)
    try:
        rewritten = rewrite(text)
    except ConversionError:
        return
    assert json.loads(rewritten.text) == converted(kind, obj)
    assert not rewritten.notes


def _of(kind: str, spec: str) -> str:
    return f"apiVersion: {OLD}\nkind: {kind}\nmetadata: {{name: one}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            _of("ClusterQueue", "{admissionChecks: [a], admissionChecksStrategy: {admissionChecks: [{name: b}]}}"),
            "ClusterQueue one: spec.admissionChecks stands beside admissionChecksStrategy: keep one of them",
        ),
        (
            _of("ClusterQueue", "{cohort: a, cohortName: b}"),
            "ClusterQueue one: spec.cohort is 'a', and cohortName is 'b'",
        ),
        (
            _of("ClusterQueue", "{admissionChecks: [a, a]}"),
            "ClusterQueue one: spec.admissionChecksStrategy.admissionChecks has 'a' twice, which v1beta2 refuses",
        ),
        (
            _of("ClusterQueue", "{admissionScope: {admissionMode: Mine}}"),
            "ClusterQueue one: spec.admissionScope.admissionMode is 'Mine', which v1beta2 does not know",
        ),
        (
            _of("Workload", "{priorityClassName: high}"),
            "Workload one: spec.priorityClassName has no priorityClassSource: say of which kind the class is",
        ),
        (
            _of("MultiKueueCluster", "{kubeConfig: {location: a}, clusterProfileRef: {name: b}}"),
            "MultiKueueCluster one: spec names both a kubeConfig and a clusterProfileRef",
        ),
        (_of("MultiKueueCluster", "{}"), "MultiKueueCluster one: spec names no kubeConfig.location"),
        (
            _of("Workload", "{podSets: [{}, {topologyRequest: {required: " + 64 * "a" + "}}]}"),
            "Workload one: spec.podSets[1].topologyRequest.required has 64 characters, and may have 63 in v1beta2",
        ),
        (
            f"apiVersion: {OLD}\nkind: WorkloadPriorityClass\nvalue: 1\ndescription: {2049 * 'a'}\n",
            "WorkloadPriorityClass None: description has 2049 characters, and may have 2048 in v1beta2",
        ),
        (
            _of("AdmissionCheck", "{controllerName: ''}"),
            "AdmissionCheck one: spec.controllerName may not be empty in v1beta2",
        ),
        (_of("ClusterQueue", "{cohort: a, cohort: a}"), "cohort is there twice, line 4"),
    ],
)
def test_what_cannot_be_converted_names_document_and_field(text: str, why: str) -> None:
    with pytest.raises(ConversionError) as refused:
        rewrite(f"kind: Other\n---\n{text}")
    (reason,) = refused.value.reasons
    place = "document 2: " if "twice, line" in why else "document 2, "
    assert reason == place + why.replace("line 4", "line 6")


def test_an_assignment_of_domains_becomes_one_slice() -> None:
    domains = [{"values": ["r1", "n1"], "count": 2}, {"values": ["r1", "n2"], "count": 1}]
    podset: dict[str, Any] = {"name": "main", "topologyAssignment": {"levels": ["rack", "host"], "domains": domains}}
    status = {"admission": {"podSetAssignments": [podset]}}
    workload = converted("Workload", {"apiVersion": OLD, "kind": "Workload", "status": status})
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    assert assigned["topologyAssignment"] == {
        "levels": ["rack", "host"],
        "slices": [
            {
                "domainCount": 2,
                "podCounts": {"individual": [2, 1]},
                "valuesPerLevel": [{"individual": {"roots": ["r1", "r1"]}}, {"individual": {"roots": ["n1", "n2"]}}],
            }
        ],
    }
    assert podset["topologyAssignment"]["domains"] == domains  # the converted object stayed as it was


def _run(*arguments: str, given: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["convert", *arguments], input=given)
    return done.exit_code, done.stdout, done.stderr


def test_files_go_to_standard_output_as_one_stream(tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(TUTORIAL)
    code, out, messages = _run(*map(str, files))
    assert code == 0
    assert out == f"{rewrite(TUTORIAL).text}---\n{rewrite(TUTORIAL).text}"
    assert messages == "".join(f"{file}: 3 objects converted\n" for file in files)
    assert files[0].read_text() == TUTORIAL


def test_standard_input_is_read_where_no_file_is_named() -> None:
    assert _run(given=TUTORIAL) == (0, rewrite(TUTORIAL).text, "standard input: 3 objects converted\n")
    code, out, messages = _run("--write", given=TUTORIAL)
    assert (code, out) == (2, "")
    assert messages.startswith("--write needs files")


def test_files_are_written_back_as_what_they_are(tmp_path: Path) -> None:
    file, link = tmp_path / "queues.yaml", tmp_path / "link.yaml"
    file.write_text(TUTORIAL)
    file.chmod(0o640)
    link.symlink_to(file)
    assert _run("--write", str(link)) == (0, "", f"{link}: 3 objects converted\n")
    assert file.read_text() == rewrite(TUTORIAL).text
    assert (file.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert _run("--write", str(file)) == (0, "", f"{file}: 0 objects converted\n")


def test_nothing_is_written_while_anything_cannot_be_converted(tmp_path: Path) -> None:
    good, bad, text, absent = (tmp_path / name for name in ("good.yaml", "bad.yaml", "latin.yaml", "absent.yaml"))
    good.write_text(TUTORIAL)
    bad.write_text(f"{TUTORIAL}---\n{_of('Workload', '{priorityClassName: high}')}")
    text.write_bytes(b"\xff")
    code, out, messages = _run("--write", *map(str, (good, bad, text, absent)))
    assert (code, out) == (2, "")
    assert messages == (
        f"{bad}, document 4, Workload one: spec.priorityClassName has no priorityClassSource: "
        "say of which kind the class is\n"
        f"{text}: this is no UTF-8 text; save it as UTF-8\n"
        f"{absent}: No such file or directory\n"
        "nothing was written\n"
    )
    assert good.read_text() == TUTORIAL


def test_several_files_become_one_stream_whatever_ends_the_one_and_begins_the_next(tmp_path: Path) -> None:
    """A last line without a line break may not run into the separator, nor may a byte order mark stand within."""
    paths = [tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml")]
    for path, begins in zip(paths, ("", "---\n", "\ufeff"), strict=True):
        path.write_text(f"{begins}apiVersion: {OLD}\nkind: ClusterQueue\nspec:\n  cohort: {path.stem}")
    done = CliRunner().invoke(main, ["convert", *map(str, paths)])
    assert done.exit_code == 0
    assert [document["spec"] for document in yaml.safe_load_all(done.stdout)] == [
        {"cohortName": name} for name in "abc"
    ]


def test_a_closed_standard_input_is_an_error_in_a_sentence() -> None:
    program = "import os, sys; os.close(0); os.execv(sys.argv[1], ['muster', 'convert'])"
    muster = Path(sys.executable).with_name("muster")
    done = subprocess.run([sys.executable, "-c", program, muster], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "standard input: it is closed\nnothing was written\n"


@pytest.mark.parametrize("text", ["{{- if .Values.queues }}\n", "spec: {cohort: {{ .Values.cohort }}}\n"])
def test_what_to_do_with_a_template_or_a_directory_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(f"apiVersion: {OLD}\nkind: ClusterQueue\n{text}")
    code, out, messages = _run(str(file), str(tmp_path))
    assert (code, out) == (2, "")
    template, folder, end = messages.splitlines()
    assert template.startswith(f"{file}, ")
    assert template.endswith("; it is a template: convert what `helm template` prints, or edit it by hand")
    assert "unicode string" not in template
    assert (folder, end) == (f"{tmp_path} is a directory; name the files in it", "nothing was written")
