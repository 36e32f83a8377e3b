"""`muster doctor` on files: the shipped configuration is faultless, and each trap that is set in it is found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.doctor.configuration import duration_s
from extender.cli.doctor.examination import examine
from extender.cli.doctor.facts import Facts, Kueue, member_from, owner_from
from extender.cli.doctor.finding import NOT_CHECKED, Severity, skipped
from extender.cli.doctor.gather import no_configuration
from extender.cli.doctor.rights import EXTENDER, needed
from extender.cli.main import main
from extender.config.settings import Settings, load
from extender.kube.objects import Condition, Meta, OwnerObject, OwnerReference, OwnerSpec, PodObject, PodSpec, PodStatus
from tests.kube.kinds.test_own import SIMULATION

ROOT = Path(__file__).parent.parent
BASE = ROOT / "manifests" / "base"
NOW = datetime(2026, 5, 1, tzinfo=UTC)
Tree = dict[str, Any]


def shipped() -> Tree:
    tree: Tree = yaml.safe_load((BASE / "kube-scheduler-config.yaml").read_text())
    return tree


def codes(facts: Facts) -> list[str]:
    return [one.code for one in examine(facts).findings]


class Config:
    """The shipped configuration, to be spoilt: all of it, the entry that asks, the entry that binds."""

    def __init__(self) -> None:
        self.all = shipped()
        self.ask, self.bind = self.all["extenders"]


def configured(change: Callable[[Config], Any], **settings: Any) -> list[str]:
    """What is found in the shipped configuration after this change."""
    config = Config()
    change(config)
    return codes(Facts(load(None, **settings), scheduler=config.all))


def test_what_ships_has_no_fault() -> None:
    assert codes(Facts(load(BASE / "muster.yaml"), scheduler=shipped())) == []


def admission(*components: str) -> Facts:
    """An installation with these components of admission policies."""
    files = [file for one in components for file in (BASE.parent / "components" / one).glob("*.yaml")]
    found = [one for file in files for one in yaml.safe_load_all(file.read_text())]
    kinds = {kind: {one["metadata"]["name"]: one for one in found if one["kind"] == kind} for kind in (POLICY, BINDING)}
    return Facts(load(None), scheduler=shipped(), policies=kinds[POLICY], policy_bindings=kinds[BINDING])


POLICY, BINDING = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"


def test_the_policies_for_jobs_are_no_gate_for_gangs() -> None:
    assert codes(admission("admission-gate", "job-admission")) == []
    assert codes(admission("admission-gate")) == []
    assert codes(admission("job-admission")) == ["NoGate"]


@pytest.mark.parametrize("name", ["muster-gang-gate", "muster-jobs", "muster-job-pods"])
def test_a_policy_that_is_not_bound_does_nothing(name: str) -> None:
    facts = admission("admission-gate", "job-admission")
    assert facts.policy_bindings is not None
    del facts.policy_bindings[name]
    assert codes(facts) == ["GateNotBound"]


def test_a_policy_for_other_profiles_is_told() -> None:
    facts = admission("admission-gate", "job-admission")
    facts.scheduler = shipped() | {"profiles": [{"schedulerName": "gpus"}]}
    facts.settings = load(None, scheduler_names=("gpus",))
    assert codes(facts) == ["GateElsewhere", "GateElsewhere"]


def held_for(seconds: int, facts: Facts) -> Facts:
    """Binds of this installation are held for so long at most."""
    config = Config()
    config.bind["httpTimeout"] = f"{seconds}s"
    facts.scheduler, facts.settings = config.all, load(None, bind_timeout_s=seconds)
    return facts


def test_binds_that_end_before_the_pods_of_a_job_exist_are_told() -> None:
    both = "admission-gate", "job-admission"
    (found,) = examine(held_for(60, admission(*both))).findings
    assert (found.severity, found.code, found.subject) == (Severity.ERROR, "BindTimeoutShortForJobs", "httpTimeout")
    assert "600 pods" in found.what
    assert "httpTimeout: 600s" in found.fix
    assert "bind_timeout_s: 600" in found.fix
    assert codes(held_for(600, admission(*both))) == []
    assert codes(held_for(60, admission("admission-gate"))) == [], "nobody admits jobs"


def test_they_are_told_where_the_component_is_not_installed_and_jobs_ask_for_a_queue() -> None:
    job = OwnerObject(Meta(name="train", namespace="team", labels={"kueue.x-k8s.io/queue-name": "a"}))
    facts = held_for(30, Facts(load(None), owners=[owner_from("Job", job)]))
    assert codes(facts) == ["BindTimeoutShortForJobs"]


@pytest.mark.parametrize(
    ("frameworks", "kinds"),
    [
        (("batch/job", "pod", "jobset.x-k8s.io/jobset"), "manages batch/job, jobset.x-k8s.io/jobset:"),
        (("kubeflow.org/mpijob",), "manages kubeflow.org/mpijob:"),
        (None, "may manage the kinds that Muster admits"),
    ],
)
def test_a_kueue_that_manages_the_same_kinds_is_told(frameworks: tuple[str, ...] | None, kinds: str) -> None:
    facts = admission("admission-gate", "job-admission")
    facts.kueue = Kueue("ConfigMap kueue-system/kueue-manager-config", frameworks)
    (found,) = examine(facts).findings
    assert (found.severity, found.code, found.subject) == (Severity.ERROR, "KueueManagesJobs", facts.kueue.config)
    assert kinds in found.what
    assert "integrations.frameworks" in found.fix
    assert 'muster.dev/gang: "false"' in found.fix
    facts = Facts(load(None), scheduler=shipped(), kueue=facts.kueue)
    assert [one.severity for one in examine(facts).findings] == [Severity.WARNING], "no job is admitted yet"


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ({("science.example.com/v1", "simulations"): "Simulation"}, ""),
        ({}, "the API server serves no such kind"),
        ({("science.example.com/v2", "simulations"): "Simulation"}, "the API server serves no such kind"),
        ({("science.example.com/v1", "simulations"): "Sim"}, "its objects are of the kind Sim, and not Simulation"),
        (None, ""),
    ],
)
def test_a_kind_of_the_settings_that_is_not_there_is_told(served: dict[tuple[str, str], str] | None, told: str) -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    found = [one for one in examine(Facts(settings, served=served)).findings if one.code == "KindNotServed"]
    assert [(one.severity, one.subject) for one in found] == (
        [(Severity.WARNING, "simulations of science.example.com/v1")] if told else []
    )
    assert all(told in one.what for one in found)


GUARD = next(yaml.safe_load_all((BASE.parent / "examples" / "own-kind" / "extender-policy.yaml").read_text()))


def judging(group: str, operation: str) -> Tree:
    rule = {"apiGroups": [group], "resources": ["*"], "operations": [operation]}
    return {"matchConstraints": {"resourceRules": [rule]}}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, False),
        ({"matchConditions": []}, True),
        (judging("batch", "*"), True),
        (judging("*", "*"), False),
        (judging("*", "CREATE"), True),
    ],
    ids=["the example", "of everybody", "another group", "everything", "creation alone"],
)
def test_a_kind_of_the_settings_without_a_policy_on_what_muster_writes_is_told(said: Tree, *, told: bool) -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    guards: dict[str, Mapping[str, Any]] = {"x": {"spec": {**GUARD["spec"], **said}}}
    found = {one.code: one for one in examine(Facts(settings, guards=guards)).findings}
    assert ("KindUnguarded" in found) is told
    assert "KindUnguarded" in codes(Facts(settings, guards={}))
    assert "KindUnguarded" not in codes(Facts(settings))


def test_a_right_that_a_kind_of_the_settings_lacks_is_not_in_the_base() -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    rights = {one: one.resource not in ("simulations", "jobs") for one in needed(settings, None)}
    found = examine(Facts(settings, rights=rights)).findings
    fixes = {one.what: one.fix for one in found if one.code == "MissingRight"}
    assert "own-kind" in fixes["it may not patch simulations.science.example.com"]
    assert "base" in fixes["it may not patch jobs.batch"]


def test_a_kueue_that_manages_other_kinds_is_no_fault() -> None:
    facts = admission("admission-gate", "job-admission")
    facts.kueue = Kueue("ConfigMap kueue-system/kueue-manager-config", ("pod", "ray.io/rayservice"))
    assert codes(facts) == []


def test_what_the_documents_say_of_ones_own_kube_scheduler_has_no_fault() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    said = [re.findall(r"```yaml\n(percentageOfNodesToScore.*?)```", page.read_text(), re.DOTALL) for page in pages]
    texts = [one for blocks in said for one in blocks]
    assert texts
    mine = {key: shipped()[key] for key in ("apiVersion", "kind", "clientConnection")}
    for text in texts:
        tree = mine | yaml.safe_load(text) | {"profiles": [{"schedulerName": "default-scheduler"}]}
        assert codes(Facts(load(None, scheduler_names=("default-scheduler",)), scheduler=tree)) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda c: c.bind.update(ignorable=True), "Ignorable"),
        (lambda c: c.ask.update(ignorable=True), "Ignorable"),
        (lambda c: c.ask.update(nodeCacheCapable=False), "NodesNotNames"),
        (lambda c: c.bind.pop("nodeCacheCapable"), "NodesNotNames"),
        (lambda c: c.ask.update(managedResources=[{"name": "nvidia.com/gpu"}]), "ManagedResources"),
        (lambda c: c.ask.pop("weight"), "NoWeight"),
        (lambda c: c.ask.pop("filterVerb"), "NoFilterVerb"),
        (lambda c: c.ask.pop("preemptVerb"), "NoPreemptVerb"),
        (lambda c: (c.ask.pop("prioritizeVerb"), c.ask.pop("weight")), "NoPrioritizeVerb"),
        (lambda c: c.all["extenders"].pop(), "NoBindVerb"),
        (lambda c: c.bind.update(bindVerb="binds"), "WrongVerb"),
        (lambda c: c.bind.update(httpTimeout="10s"), "BindTimeoutShort"),
        (lambda c: c.bind.pop("httpTimeout"), "BindTimeoutShort"),
        (lambda c: c.bind.update(httpTimeout="15m"), "BindTimeoutDiffers"),
        (lambda c: c.bind.update(httpTimeout="soon"), "BadTimeout"),
        (lambda c: c.ask.update(httpTimeout="30s"), "LongFilterTimeout"),
        (lambda c: c.ask.pop("httpTimeout"), "LongFilterTimeout"),
        (lambda c: (c.all["extenders"].pop(), c.ask.update(bindVerb="bind", httpTimeout="30s")), "OneEntry"),
        (lambda c: c.ask.update(bindVerb="bind", httpTimeout="30s"), "TwoBinders"),
        (lambda c: c.all.update(percentageOfNodesToScore=50), "NodesSampled"),
        (lambda c: c.all.pop("percentageOfNodesToScore"), "NodesSampled"),
        (lambda c: c.all["profiles"][0].update(percentageOfNodesToScore=10), "NodesSampled"),
        (lambda c: c.all.update(podMaxBackoffSeconds=60), "BackoffTooLong"),
        (lambda c: c.all.pop("clientConnection"), "LowQps"),
        (lambda c: c.all["leaderElection"].pop("resourceName"), "LeaseShared"),
        (lambda c: c.all["profiles"][0].update(schedulerName="gangs"), "NoProfile"),
        (lambda c: c.all["profiles"].append({"schedulerName": "more"}), "ProfileNotOurs"),
        (lambda c: c.all.update(extenders=[]), "NoExtender"),
        (lambda c: c.bind.update(urlPrefix="http://127.0.0.1:8080"), "ForeignExtender"),
        (lambda c: c.bind.update(urlPrefix="https://127.0.0.1:10290"), "SchemeDiffers"),
        (lambda c: c.bind.update(httpTimeOut="30s"), "UnknownField"),
        (lambda c: c.all.update(kind="SchedulerPolicy"), "NotASchedulerConfig"),
    ],
)  # fmt: skip
def test_every_trap_in_the_configuration_is_found(change: Callable[[Config], Any], code: str) -> None:
    assert code in configured(change)


def test_settings_are_held_against_the_configuration() -> None:
    def nothing(_: Config) -> None: ...

    assert configured(nothing, bind_timeout_s=900) == ["BindTimeoutShort"]
    assert configured(nothing, listen_port=8080)[0] == "NoExtender"
    assert configured(nothing, scheduler_names=("gangs",)) == ["NoProfile", "ProfileNotOurs"]
    assert configured(nothing, mode="advise") == ["Advising"]


def test_who_may_act_is_asked_where_it_is_decided() -> None:
    def nobody(config: Config) -> None:
        config.all["leaderElection"]["leaderElect"] = False

    here = {"enabled": True}
    assert configured(lambda _: None, leader_election=here) == []
    assert configured(nobody, leader_election=here) == ["NobodyActs"]
    assert configured(lambda _: None, leader_election=here | {"name": "other"}) == ["LeaseDiffers"]
    two = {"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}
    assert "TwoLeaders" in codes(Facts(load(None), deployment=two))
    assert "TwoLeaders" not in codes(Facts(load(None, leader_election=here), deployment=two))


def test_a_profile_that_looks_at_all_nodes_needs_no_word_for_all_profiles() -> None:
    def change(config: Config) -> None:
        del config.all["percentageOfNodesToScore"]
        config.all["profiles"][0]["percentageOfNodesToScore"] = 100

    assert configured(change) == []


@pytest.mark.parametrize(
    "odd",
    [{"extenders": [None, 7]}, {"extenders": {}}, {"profiles": [None]}, {"profiles": 7}, {"clientConnection": [1]}],
)
def test_a_configuration_of_odd_shapes_is_one_finding(odd: Tree) -> None:
    assert codes(Facts(load(None), scheduler=shipped() | odd)) == ["BadShape"]


@pytest.mark.parametrize("odd", [{"extenders": None}, {"profiles": None}, {"leaderElection": None}])
def test_what_is_null_is_as_good_as_absent(odd: Tree) -> None:
    assert "BadShape" not in codes(Facts(load(None), scheduler=shipped() | odd))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("1.5s", 1.5), ("30", None), ("", None), ("-3s", None)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


def test_the_rights_are_those_that_the_shipped_role_gives() -> None:
    (role,) = [
        one for one in yaml.safe_load_all((BASE / "rbac-extender.yaml").read_text()) if one["kind"] == "ClusterRole"
    ]
    given = {
        (verb, resource, group)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
    }
    asked = {(one.verb, one.resource, one.group) for one in needed(load(None), None) if one.account == EXTENDER}
    assert asked == given


def pod(name: str, *, age_s: float = 600, looked_at: bool = False, **spec: Any) -> PodObject:
    created = (NOW - timedelta(seconds=age_s)).isoformat()
    conditions = [Condition(type="PodScheduled", status="False")] if looked_at else None
    meta = Meta(name=name, namespace="team", uid=name, creation_timestamp=created)
    return PodObject(meta, PodSpec(**spec), PodStatus(phase="Pending", conditions=conditions))


def test_pods_that_no_scheduler_looks_at_are_found_once_they_are_old() -> None:
    pods = [pod("lost", scheduler_name="mustr"), pod("new", scheduler_name="mustr", age_s=5)]
    pods.append(pod("refused", scheduler_name="other", looked_at=True))
    facts = Facts(load(None), now=NOW, members=[member_from(one) for one in pods], skipped=[])
    (found,) = [one for one in examine(facts).findings if one.code == "NobodyServes"]
    assert (found.subject, "1 pod" in found.what, "mustr" in found.what) == ("team/lost", True, True)


TYPO, GANG_KEY = "muster.dev/podgroup", "muster.dev/pod-group"


def owner(
    on_itself: dict[str, str],
    in_template: dict[str, str],
    scheduler: str = "muster",
    kind: str = "Job",
    on_pods: dict[str, str] | None = None,
) -> Facts:
    """The facts of a Job that has no pods any more, or of another object; ``on_pods``: it has one, which says that."""
    template = PodObject(Meta(annotations=in_template), PodSpec(scheduler_name=scheduler))
    job = OwnerObject(Meta(name="train", namespace="team", annotations=on_itself), OwnerSpec(template))
    members = []
    if on_pods is not None:
        made = pod("train-0", scheduler_name="muster")
        assert made.metadata is not None
        made.metadata.annotations = on_pods
        made.metadata.owner_references = [
            OwnerReference(api_version="apps/v1", kind=kind, name="train", uid="uid-train", controller=True)
        ]
        members.append(member_from(made))
    return Facts(load(None), owners=[owner_from(kind, job)], members=members)


@pytest.mark.parametrize(
    ("on_itself", "in_template", "code", "fix"),
    [
        ({}, {TYPO: "train"}, "UnknownKey", f"write {GANG_KEY} in the pod template"),
        ({}, {"muster.dev/required-topology": "clique"}, "UnreadKey", f"add {GANG_KEY} in the pod template"),
        ({}, {"scheduling.volcano.sh/group-min-member": "2"}, "ForeignKey", "write muster.dev/min-member in the"),
        ({GANG_KEY: "train"}, {}, "KeyOnOwner", "move it to spec.template.metadata.annotations of the Job"),
    ],
)
def test_keys_that_nothing_reads_are_found_without_any_pod(
    on_itself: dict[str, str], in_template: dict[str, str], code: str, fix: str
) -> None:
    (found,) = examine(owner(on_itself, in_template)).findings
    assert (found.code, found.subject, found.fix.startswith(fix)) == (code, "Job team/train", True)


def test_a_template_that_says_all_in_its_place_has_no_findings() -> None:
    said = {GANG_KEY: "train", "muster.dev/min-member": "2"}
    assert codes(owner(said, said)) == []
    assert codes(owner({}, {"scheduling.k8s.io/group-name": "train"}, scheduler="volcano")) == [], "Volcano reads it"


def test_a_job_that_is_admitted_as_a_whole_says_its_minimum_itself_and_needs_no_gang() -> None:
    said = {"muster.dev/gang": "true", "muster.dev/min-member": "2"}
    assert codes(owner(said, {"muster.dev/required-topology": "clique"})) == []
    assert codes(owner({**said, GANG_KEY: "train"}, {})) == ["KeyOnOwner"]
    assert codes(owner({**said, "muster.dev/gang": "false"}, {})) == ["KeyOnOwner"]


def test_a_stateful_set_whose_pods_are_a_gang_says_its_minimum_itself() -> None:
    said = {"muster.dev/gang": "true", "muster.dev/min-member": "2"}
    template = {"muster.dev/gang": "true", "muster.dev/required-topology": "clique"}
    assert codes(owner(said, template, kind="StatefulSet")) == []
    queued = {**said, "muster.dev/gang": "yes", "kueue.x-k8s.io/queue-name": "team-a"}
    assert codes(owner(queued, {}, kind="StatefulSet")) == ["KeyOnOwner"]
    (found,) = examine(owner({"muster.dev/gang": "true"}, {}, kind="StatefulSet", on_pods=said)).findings
    assert (found.code, "write it on that object instead" in found.fix) == ("UnreadKey", True)


def test_a_gang_that_waits_for_the_word_of_its_owner_lacks_no_annotation_on_its_pods() -> None:
    assert codes(owner({}, {}, kind="StatefulSet", on_pods={"muster.dev/gang": "true"})) == []


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_a_misspelt_key_is_found_on_pods_that_run_and_is_one_finding(phase: str) -> None:
    pods = [pod(f"p{at}", scheduler_name="muster", node_name="n1") for at in range(3)]
    for one in pods:
        one.status = PodStatus(phase=phase)
        assert one.metadata is not None
        one.metadata.annotations = {TYPO: "train"}
    members = [member_from(one) for one in pods]
    (found,) = [one for one in examine(Facts(load(None), members=members)).findings if one.code == "UnknownKey"]
    assert (found.subject, "on 3 pods" in found.what) == ("team/p0", True)


def test_kueues_controller_manages_the_queues_while_it_runs() -> None:
    assert "KueueManagesQueues" in codes(Facts(load(None), kueue_runs=True))
    assert "KueueManagesQueues" not in codes(Facts(load(None)))
    assert examine(Facts(load(None), kueue_runs=True)).exit_code == 0, "nothing has to be fixed"


def test_a_gang_that_another_scheduler_has_started_is_found() -> None:
    member = pod("p", node_name="n1")
    assert member.metadata is not None
    member.metadata.annotations = {GANG_KEY: "train", "muster.dev/min-member": "2"}
    assert "GangOfAnother" in codes(Facts(load(None), members=[member_from(member)]))
    member.metadata.annotations = {"scheduling.x-k8s.io/pod-group": "train"}
    assert "GangOfAnother" not in codes(Facts(load(None), members=[member_from(member)])), "its own plugin's"


def test_many_pods_with_one_fault_are_told_briefly() -> None:
    pods = [pod(f"p{at}", scheduler_name="muster", scheduling_gates=None) for at in range(50)]
    for one in pods:
        assert one.metadata is not None
        one.metadata.annotations = {"muster.dev/pod-group": "Bad Name"}
    report = examine(Facts(load(None), members=[member_from(one) for one in pods]))
    assert [one.code for one in report.findings].count("UnreadableGang") == 20
    assert report.more == {"UnreadableGang": 30}


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (Facts(load(None)), 0),
        (Facts(load(None), groups_exist=False), 0),
        (Facts(load(None), skipped=[skipped("pods", "forbidden", "")]), 2),
        (Facts(load(None), skipped=[no_configuration("kube-system", Facts(load(None)))]), 0),
        (Facts(load(None), skipped=[no_configuration("kube-system", Facts(load(None), deployment={"spec": {}}))]), 2),
        (Facts(load(None), version="v1.35.2"), 1),
        (Facts(load(None), version="v1.35.2", skipped=[skipped("pods", "forbidden", "")]), 1),
    ],
)
def test_the_exit_code_tells_well_from_faulty_from_unseen(facts: Facts, code: int) -> None:
    assert examine(facts).exit_code == code


def test_the_gravest_comes_first() -> None:
    facts = Facts(load(None), scheduler=shipped() | {"clientConnection": {}, "percentageOfNodesToScore": 5})
    assert [one.severity for one in examine(facts).findings] == [Severity.ERROR, Severity.WARNING]


def test_the_document_has_every_code_and_no_other() -> None:
    sources = [path.read_text() for path in (ROOT / "extender" / "cli" / "doctor").glob("*.py")]
    said = r'(?:(?:error|warning|note)\(|Finding\(Severity\.\w+,)\s*"([A-Za-z]+)"'
    given = {code for text in sources for code in re.findall(said, text)}
    given |= {f"No{verb}Verb" for verb in ("Filter", "Prioritize", "Preempt", "Bind")}
    given.add(NOT_CHECKED)
    rows = re.findall(r"^\| (`[A-Z].*?) \|", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == given


@pytest.mark.parametrize("command", ["explain", "gangs", "domains", "doctor"])
def test_every_command_of_the_document_exists(command: str) -> None:
    assert f"muster {command}" in (ROOT / "docs" / "doctor.md").read_text()
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


@pytest.mark.parametrize(("spoil", "code"), [(False, 2), (True, 1)])
def test_a_file_is_judged_without_a_cluster(tmp_path: Path, *, spoil: bool, code: int) -> None:
    config = Config()
    config.bind["ignorable"] = spoil
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config.all))
    args = ["doctor", "--kubeconfig", str(tmp_path / "none"), "-o", "json"]
    said = CliRunner().invoke(main, [*args, f"--kube-scheduler-config={path}", f"--config={BASE / 'muster.yaml'}"])
    assert said.exit_code == code, said.output
    assert [one["code"] for one in json.loads(said.stdout)["findings"]] == ["Ignorable"] * spoil + ["NotChecked"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"[]", "no mapping"),
        (b"a: [", "is not YAML"),
        (b"\xff\xfe", "not YAML"),
        (b"a: 2026-99-99", "not YAML"),
        (b"[" * 5000, "not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    said = CliRunner().invoke(main, ["doctor", f"--kube-scheduler-config={path}"])
    assert (said.exit_code, words in said.output, "Traceback" in said.output) == (2, True, False), said.output
