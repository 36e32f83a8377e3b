"""`muster doctor` on pods and their owners, the rights that it asks for, its exit code and its document.

It examines jobs that are admitted whole beside policies of admission, kinds of the settings and Kueue. It examines
GPUs where DRA offers them as an extended resource.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts, Kueue, Member, member_from, owner_from
from extender.cli.doctor.finding import Finding, Severity, skipped
from extender.cli.doctor.gather import gather, no_configuration
from extender.cli.doctor.installation import GUARDS
from extender.cli.doctor.rights import EXTENDER, needed
from extender.cli.main import main
from extender.config.settings import Settings, load
from extender.core.events import DeviceClassSeen
from extender.kube.reading.objects import (
    Condition,
    Container,
    Meta,
    OwnerObject,
    OwnerReference,
    OwnerSpec,
    PodObject,
    PodSpec,
    PodStatus,
    Resources,
)
from extender.runtime.quarantine import LEFT_OUT_NOTICE
from policies.model import Node
from policies.model.devices import DOMAIN_LABEL, Allocation, ClaimUse, ComputeDomain, DeviceClaim, DeviceKey
from tests.builders import GPU, cluster, gang
from tests.core.compute_domains import CHANNEL, CLASSES, DAEMON
from tests.doctored import BASE, Config, Tree, admission, codes, shipped
from tests.documents.names import finding_codes
from tests.kube.fake_api import Answer, fake_api
from tests.kube.kinds.test_own import SIMULATION
from tests.policies.devices.vendors import IMEX

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_the_rights_are_those_that_the_shipped_role_gives() -> None:
    (role,) = [
        document
        for document in yaml.safe_load_all((BASE / "rbac-extender.yaml").read_text())
        if document["kind"] == "ClusterRole"
    ]
    given = {
        (verb, resource, group)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
    }
    rights = {
        (right.verb, right.resource, right.group) for right in needed(load(None), None) if right.account == EXTENDER
    }
    assert rights == given


def test_the_right_to_a_token_is_asked_for_in_the_namespace_of_muster() -> None:
    rights = [right for right in needed(load(None), None, "team-platform") if right.resource == "serviceaccounts/token"]
    assert [(right.account, right.namespace, right.name) for right in rights] == [
        ("muster-scheduler", "team-platform", "muster-extender")
    ]


@pytest.mark.parametrize(
    ("server", "scheduler", "found"),
    [
        ("v1.37.2", "v1.37.2", []),
        ("v1.37.0-gke.100", "v1.36.3@sha256:0123", []),
        ("v1.36.3", "v1.37.2", ["SchedulerVersion"]),
        ("v1.36.3-eks-1a2b", "v1.35.4", ["SchedulerVersion"]),
        ("v1.38.0", "v1.37.2", ["ServerVersion"]),
    ],
)
def test_kube_scheduler_is_tested_and_no_newer_than_the_api_server(
    server: str, scheduler: str, found: list[str]
) -> None:
    container = {"name": "kube-scheduler", "image": f"registry.k8s.io/kube-scheduler:{scheduler}"}
    deployment = {"spec": {"template": {"spec": {"containers": [container]}}}}
    facts = Facts(load(None), version=server, deployment=deployment)
    assert [code for code in codes(facts) if code.endswith("Version")] == found


def test_where_the_api_server_has_no_mutating_policies_another_way_is_named() -> None:
    def fix(version: str) -> str:
        facts = Facts(load(None), version=version, policies={}, policy_bindings={})
        return next(finding.fix for finding in examine(facts).findings if finding.code == "NoGate")

    assert "docs/kyverno.md" in fix("v1.35.4")
    assert fix("v1.37.2") == fix("unknown") == "kubectl apply -k manifests/components/admission-gate"


def pod(name: str, *, age_s: float = 600, looked_at: bool = False, **spec: Any) -> PodObject:
    created = (NOW - timedelta(seconds=age_s)).isoformat()
    conditions = [Condition(type="PodScheduled", status="False")] if looked_at else None
    meta = Meta(name=name, namespace="team", uid=name, creation_timestamp=created)
    return PodObject(meta, PodSpec(**spec), PodStatus(phase="Pending", conditions=conditions))


def test_pods_that_no_scheduler_looks_at_are_found_once_they_are_old() -> None:
    pods = [pod("lost", scheduler_name="mustr"), pod("new", scheduler_name="mustr", age_s=5)]
    pods.append(pod("refused", scheduler_name="other", looked_at=True))
    facts = Facts(load(None), now=NOW, members=[member_from(pod_object) for pod_object in pods], skipped=[])
    (unserved,) = [finding for finding in examine(facts).findings if finding.code == "NobodyServes"]
    assert (unserved.subject, "1 pod" in unserved.what, "mustr" in unserved.what) == ("team/lost", True, True)


def test_one_template_is_one_fault_however_many_pods_it_has() -> None:
    pods = []
    for template in ("a", "b"):
        for number in range(3):
            made = pod(f"{template}-{number}", scheduler_name="muster")
            assert made.metadata is not None
            made.metadata.annotations = {"muster.dev/pod-group": "My_Gang/1"}
            made.metadata.owner_references = [
                OwnerReference("batch/v1", "Job", template, f"uid-{template}", controller=True)
            ]
            pods.append(made)
    facts = Facts(load(None), now=NOW, members=[member_from(pod_object) for pod_object in pods])
    findings = [finding for finding in examine(facts).findings if finding.code == "UnreadableGang"]
    assert [(finding.subject, finding.what.rpartition("; on ")[2]) for finding in findings] == [
        ("team/a-0", "3 pods of Job a"), ("team/b-0", "3 pods of Job b"),
    ]  # fmt: skip


def test_where_no_deployment_tells_it_the_running_muster_does() -> None:
    gpus = Resources(requests={"nvidia.com/gpu": "1"})
    runs = pod("runs", scheduler_name="volcano", node_name="n1", containers=[Container(resources=gpus)])
    members = [member_from(runs)]
    facts = Facts(load(None), now=NOW, members=members)
    assert "OtherSchedulersGpus" in codes(facts)
    assert "OtherSchedulersGpus" not in codes(replace(facts, serves=("muster", "volcano")))
    assert "OtherSchedulersGpus" not in codes(replace(facts, guessed=True)), "nobody tells whose it is"


def test_a_volcano_job_that_nobody_serves_is_found_without_pods() -> None:
    facts = Facts(load(None), now=NOW, untaken={"Job team/big": "volcano"})
    (unserved,) = [finding for finding in examine(facts).findings if finding.code == "NobodyServes"]
    assert unserved.subject == "Job team/big"
    assert unserved.what == "no scheduler called volcano has taken it up since it was created, so it has no pods"


@pytest.mark.parametrize(
    ("status", "age_s", "found"),
    [
        ({"phase": "Pending"}, 600, {"Job team/big": "volcano"}),
        ({}, 600, {"Job team/big": "volcano"}),
        ({"phase": "Pending"}, 5, {}),
        ({"phase": "Pending", "conditions": [{"type": "Unschedulable"}]}, 600, {}),
        ({"phase": "Inqueue"}, 600, {}),
    ],
)
def test_a_volcano_job_waits_for_a_scheduler_as_its_podgroup_shows(
    status: dict[str, Any], age_s: float, found: dict[str, str]
) -> None:
    facts = Facts(load(None))

    async def scenario() -> None:
        async with fake_api() as (api, kube):
            now = datetime.now(UTC)
            api.on("GET", "/version", Answer(body={"gitVersion": "v1.37.2"}))
            job = {"metadata": {"name": "big", "namespace": "team", "uid": "uid-big"}, "spec": {}}
            meta = {"name": "big-1", "namespace": "team", "ownerReferences": [{"uid": "uid-big"}]}
            meta["creationTimestamp"] = (now - timedelta(seconds=age_s)).isoformat()
            api.on("GET", "/apis/batch.volcano.sh/v1alpha1/jobs", Answer(body={"items": [job]}))
            group = Answer(body={"items": [{"metadata": meta, "status": status}]})
            api.on("GET", "/apis/scheduling.volcano.sh/v1beta1/podgroups", group)
            await gather(kube, "kube-system", facts, settings_given=True)

    asyncio.run(scenario())
    assert facts.untaken == found


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
        ({"muster.dev/holds": "true"}, {}, "UnknownKey", "write muster.dev/hold"),
        ({GANG_KEY: "train"}, {}, "KeyOnOwner", "move it to spec.template.metadata.annotations of the Job"),
    ],
)
def test_keys_that_nothing_reads_are_found_without_any_pod(
    on_itself: dict[str, str], in_template: dict[str, str], code: str, fix: str
) -> None:
    (finding,) = examine(owner(on_itself, in_template)).findings
    assert (finding.code, finding.subject, finding.fix.startswith(fix)) == (code, "Job team/train", True)


def test_a_template_that_says_all_in_its_place_has_no_findings() -> None:
    keys = {GANG_KEY: "train", "muster.dev/min-member": "2"}
    assert codes(owner(keys, keys)) == []
    assert codes(owner({}, {"scheduling.k8s.io/group-name": "train"}, scheduler="volcano")) == [], "Volcano reads it"


def test_a_job_that_is_admitted_as_a_whole_says_its_minimum_itself_and_needs_no_gang() -> None:
    keys = {"muster.dev/gang": "true", "muster.dev/min-member": "2"}
    assert codes(owner(keys, {"muster.dev/required-topology": "clique"})) == []
    assert codes(owner({**keys, GANG_KEY: "train"}, {})) == ["KeyOnOwner"]
    assert codes(owner({**keys, "muster.dev/gang": "false"}, {})) == ["KeyOnOwner"]


def test_a_stateful_set_whose_pods_are_a_gang_says_its_minimum_itself() -> None:
    keys = {"muster.dev/gang": "true", "muster.dev/min-member": "2"}
    template = {"muster.dev/gang": "true", "muster.dev/required-topology": "clique"}
    assert codes(owner(keys, template, kind="StatefulSet")) == []
    queued = {**keys, "muster.dev/gang": "yes", "kueue.x-k8s.io/queue-name": "team-a"}
    assert codes(owner(queued, {}, kind="StatefulSet")) == ["KeyOnOwner"]
    (finding,) = examine(owner({"muster.dev/gang": "true"}, {}, kind="StatefulSet", on_pods=keys)).findings
    assert (finding.code, "write it on that object instead" in finding.fix) == ("UnreadKey", True)


def test_a_gang_that_waits_for_the_word_of_its_owner_lacks_no_annotation_on_its_pods() -> None:
    assert codes(owner({}, {}, kind="StatefulSet", on_pods={"muster.dev/gang": "true"})) == []


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_a_misspelt_key_is_found_on_pods_that_run_and_is_one_finding(phase: str) -> None:
    pods = [pod(f"p{at}", scheduler_name="muster", node_name="n1") for at in range(3)]
    for pod_object in pods:
        pod_object.status = PodStatus(phase=phase)
        assert pod_object.metadata is not None
        pod_object.metadata.annotations = {TYPO: "train"}
    members = [member_from(made) for made in pods]
    (typo,) = [
        finding for finding in examine(Facts(load(None), members=members)).findings if finding.code == "UnknownKey"
    ]
    assert (typo.subject, "on 3 pods" in typo.what) == ("team/p0", True)


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


def test_objects_that_the_core_has_failed_on_are_named() -> None:
    findings = examine(Facts(load(None), left_out=f"{LEFT_OUT_NOTICE}: Node odd")).findings
    assert [finding.what for finding in findings if finding.code == "LeftOut"] == [f"{LEFT_OUT_NOTICE}: Node odd"]


def test_many_pods_with_one_fault_are_told_briefly() -> None:
    pods = [pod(f"p{at}", scheduler_name="muster", scheduling_gates=None) for at in range(50)]
    for pod_object in pods:
        assert pod_object.metadata is not None
        pod_object.metadata.annotations = {"muster.dev/pod-group": "Bad Name"}
    report = examine(Facts(load(None), members=[member_from(made) for made in pods]))
    assert [finding.code for finding in report.findings].count("UnreadableGang") == 20
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
    assert [finding.severity for finding in examine(facts).findings] == [Severity.ERROR, Severity.WARNING]


def test_the_document_has_every_code_and_no_other() -> None:
    rows = re.findall(r"^- (`[A-Z].*?`): ", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == finding_codes()


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
    result = CliRunner().invoke(main, [*args, f"--kube-scheduler-config={path}", f"--config={BASE / 'muster.yaml'}"])
    assert result.exit_code == code, result.output
    assert [finding["code"] for finding in json.loads(result.stdout)["findings"]] == ["Ignorable"] * spoil + [
        "NotChecked"
    ]


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
    result = CliRunner().invoke(main, ["doctor", f"--kube-scheduler-config={path}"])
    assert (result.exit_code, words in result.output, "Traceback" in result.output) == (2, True, False), result.output


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_gate_is_found_in_the_version_that_the_api_server_serves(version: str) -> None:
    """1.34 and 1.35 serve mutating policies as a beta, if they do."""
    gate = admission("admission-gate")
    facts = Facts(load(None), scheduler=shipped())

    async def scenario() -> None:
        async with fake_api() as (api, kube):
            api.on("GET", "/version", Answer(body={"gitVersion": "v1.35.4"}))
            group = f"/apis/admissionregistration.k8s.io/{version}"
            for kind, objects in (("policies", gate.policies), ("policybindings", gate.policy_bindings)):
                answer = Answer(body={"items": list((objects or {}).values())})
                api.on("GET", f"{group}/mutatingadmission{kind}", answer)
            await gather(kube, "kube-system", facts, settings_given=True)

    asyncio.run(scenario())
    assert (facts.policies, facts.policy_bindings) == (gate.policies, gate.policy_bindings)
    assert "NoGate" not in codes(facts)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("mode: enforced", "BadSettings", "mode: it should be 'enforce' or 'advise', and is 'enforced'"),
        ("modus: enforce", "BadSettings", "modus: there is no such setting; did you mean mode?"),
        ("mode: enforce\nmode: advise", "BadConfigMap", "it is not a YAML mapping: mode is there twice, line 1"),
        ("- mode", "BadConfigMap", "it is not a YAML mapping"),
    ],
)
def test_settings_that_cannot_be_used_are_told_in_the_same_words_as_by_muster(text: str, code: str, said: str) -> None:
    volumes = [{"configMap": {"name": "muster-config"}}]
    deployment = {"spec": {"template": {"spec": {"volumes": volumes}}}}
    facts = Facts(load(None), scheduler=shipped())

    async def scenario() -> None:
        async with fake_api() as (api, kube):
            api.on("GET", "/version", Answer(body={"gitVersion": "v1.36.3"}))
            api.on("GET", "/apis/apps/v1/namespaces/kube-system/deployments", Answer(body={"items": [deployment]}))
            config = Answer(body={"data": {"muster.yaml": text}})
            api.on("GET", "/api/v1/namespaces/kube-system/configmaps/muster-config", config)
            await gather(kube, "kube-system", facts, settings_given=False)

    asyncio.run(scenario())
    (problem,) = [finding for finding in facts.skipped if finding.code in ("BadSettings", "BadConfigMap")]
    assert (problem.code, problem.what.removeprefix("Muster does not start: ")) == (code, said)


def found(nodes: list[Node], *seen: DeviceClassSeen) -> dict[str, Finding]:
    members = [Member(replace(pod, scheduler="muster"), Meta(), looked_at=True) for pod in gang("train", 2)]
    facts = Facts(load(None), nodes=nodes, members=members)
    for device_class in seen:
        facts.devices.note(device_class)
    return {finding.code: finding for finding in examine(facts).findings}


def test_it_says_which_class_offers_them_and_not_to_run_the_device_plugin() -> None:
    codes = found(cluster("a: 2x0"), DeviceClassSeen("gpu.example.com", GPU))
    assert "NoGpuNodes" not in codes
    for code in ("OfferedByDra", "GpusByDra"):
        what = codes[code].what
        assert "is offered by DRA (DeviceClass gpu.example.com), and no driver has published devices" in what, what
    assert codes["OfferedByDra"].subject == "default/train"


def test_nothing_is_said_where_nodes_list_them_or_no_class_offers_them() -> None:
    offered = DeviceClassSeen("gpu.example.com", GPU)
    assert not {"OfferedByDra", "GpusByDra", "NoGpuNodes"} & found(cluster("a: 2x8"), offered).keys()
    assert "NoGpuNodes" in found(cluster("a: 2x0"), replace(offered, resource="example.com/nic"))


def devices(**facts: Any) -> dict[str, Finding]:
    """The findings about devices where the driver's classes exist, with these facts."""
    seen = Facts(load(None), nodes=cluster("a: 2x8"), members=[], **facts)
    for device_class in CLASSES:
        seen.devices.note(device_class)
    return {finding.code: finding for finding in examine(seen).findings}


def test_a_driver_that_a_class_names_and_that_publishes_nothing() -> None:
    finding = devices(drivers=frozenset({"gpu.nvidia.com"}))["DriverWithoutSlices"]
    assert (finding.subject, finding.severity) == (IMEX, Severity.WARNING)
    assert f"pods that ask for {DAEMON}, {CHANNEL} wait" in finding.what
    assert "DriverWithoutSlices" not in devices(drivers=frozenset({IMEX}))
    assert "DriverWithoutSlices" not in devices(drivers=None), "nobody may read the slices"


def test_nodes_that_are_labelled_for_a_domain_that_is_gone() -> None:
    node, other = cluster("a: 2x8")
    nodes = [replace(node, labels={**node.labels, DOMAIN_LABEL: "u-1"}), other]
    facts = Facts(load(None), nodes=nodes, domains=[])
    (stale,) = [finding for finding in examine(facts).findings if finding.code == "StaleDomainLabel"]
    assert (stale.subject, stale.fix) == ("a-0", f"kubectl label node a-0 {DOMAIN_LABEL}-")
    for known in (None, [ComputeDomain("team", "train", "u-1")]):
        facts = Facts(load(None), nodes=nodes, domains=known)
        assert "StaleDomainLabel" not in {finding.code for finding in examine(facts).findings}


def test_allocations_that_no_pod_uses() -> None:
    (pod,) = gang("train", 1)
    members = [Member(pod, Meta(), looked_at=True)]
    held = Allocation((DeviceKey("gpu.nvidia.com", "a-0", "gpu-0"),))
    claim = DeviceClaim("team", "train-gpu", "u", allocation=held)

    def leaked(claim: DeviceClaim) -> list[str]:
        facts = Facts(load(None), members=members, claims=[claim], claim_versions={claim.uid: "7"})
        return [finding.fix for finding in examine(facts).findings if finding.code == "LeakedAllocation"]

    (fix,) = leaked(claim)
    assert fix.startswith("kubectl patch resourceclaim train-gpu -n team --subresource=status --type=merge -p ")
    assert '"resourceVersion": "7"' in fix, "a pod may have reserved it since"
    assert leaked(replace(claim, reserved_for=("uid-of-the-past",)))
    assert not leaked(replace(claim, reserved_for=(pod.uid,)))
    assert not leaked(replace(claim, allocation=None))


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


def test_a_guard_of_pods_for_other_profiles_is_told() -> None:
    documents = yaml.safe_load_all((BASE.parent / "components" / "admission-gate" / "own-keys.yaml").read_text())
    facts = admission("admission-gate", "job-admission")
    facts.guards = {name: {} for name in GUARDS}
    facts.guards |= {
        document["metadata"]["name"]: document
        for document in documents
        if document["kind"] == "ValidatingAdmissionPolicy"
    }
    preemption = yaml.safe_load((BASE.parent / "components" / "preemption" / "kustomization.yaml").read_text())
    (added,) = yaml.safe_load(preemption["patches"][0]["patch"])
    facts.guards["muster-extender-evictions"] = {"spec": {"matchConditions": [added["value"]]}}
    assert codes(facts) == []
    names = facts.guards | {"of-others": facts.guards["muster-pod-keys"]}
    facts.policies, facts.guards = {}, names
    facts.scheduler = shipped() | {"profiles": [{"schedulerName": "gpus"}]}
    facts.settings = load(None, scheduler_names=("gpus",))
    findings = {(finding.code, finding.subject) for finding in examine(facts).findings} - {
        ("NoGate", "muster-gang-gate")
    }
    where = ("muster-extender-evictions", "muster-pod-keys")
    assert findings == {("GateElsewhere", name) for name in where}


def held_for(seconds: int, facts: Facts) -> Facts:
    """Set the facts so that binds of this installation are held for at most that many seconds."""
    config = Config()
    config.bind["httpTimeout"] = f"{seconds}s"
    facts.scheduler, facts.settings = config.all, load(None, bind_timeout_s=seconds)
    return facts


def test_binds_that_end_before_the_pods_of_a_job_exist_are_told() -> None:
    both = "admission-gate", "job-admission"
    (finding,) = examine(held_for(60, admission(*both))).findings
    assert (finding.severity, finding.code, finding.subject) == (
        Severity.ERROR,
        "BindTimeoutShortForJobs",
        "httpTimeout",
    )
    assert "600 pods" in finding.what
    assert "httpTimeout: 600s" in finding.fix
    assert "bind_timeout_s: 600" in finding.fix
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
    (conflict,) = examine(facts).findings
    assert (conflict.severity, conflict.code, conflict.subject) == (
        Severity.ERROR,
        "KueueManagesJobs",
        facts.kueue.config,
    )
    assert kinds in conflict.what
    assert "integrations.frameworks" in conflict.fix
    assert 'muster.dev/gang: "false"' in conflict.fix
    facts = Facts(load(None), scheduler=shipped(), kueue=facts.kueue)
    assert [finding.severity for finding in examine(facts).findings] == [Severity.WARNING], "no job is admitted yet"


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
    findings = [
        finding for finding in examine(Facts(settings, served=served)).findings if finding.code == "KindNotServed"
    ]
    assert [(finding.severity, finding.subject) for finding in findings] == (
        [(Severity.WARNING, "simulations of science.example.com/v1")] if told else []
    )
    assert all(told in finding.what for finding in findings)


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ({}, []),
        ({("kubeflow.org/v2beta1", "mpijobs"): "MPIJob", ("kubeflow.org/v1", "mpijobs"): "MPIJob"}, []),
        ({("kubeflow.org/v1", "mpijobs"): "MPIJob"}, ["mpijobs.kubeflow.org"]),
        ({("example.com/v1", "mpijobs"): "MPIJob"}, []),
        ({("leaderworkerset.x-k8s.io/v1alpha1", "leaderworkersets"): "LeaderWorkerSet"}, ["leaderworkersets.leader"]),
    ],
    ids=["none", "ours too", "another", "of another group", "owners"],
)
def test_a_kind_in_another_version_is_noted(served: dict[tuple[str, str], str], told: list[str]) -> None:
    findings = examine(Facts(load(None), served=served)).findings
    noted = [finding for finding in findings if finding.code == "OtherVersion"]
    assert all(finding.severity is Severity.NOTE and finding.subject.startswith(told[0]) for finding in noted)
    assert len(noted) == len(told)


@pytest.mark.parametrize(
    ("version", "runs", "told"), [("v1alpha1", False, 1), ("v1alpha1", True, 0), ("v1beta1", False, 0)]
)
def test_queue_objects_in_a_version_that_is_not_read_are_told(version: str, told: int, *, runs: bool) -> None:
    served = {(f"kueue.x-k8s.io/{version}", "cohorts"): "Cohort", ("kueue.x-k8s.io/v1beta1", "clusterqueues"): "X"}
    facts = Facts(load(None), served=served, kueue_runs=runs)
    findings = [
        (finding.severity, finding.subject) for finding in examine(facts).findings if finding.code == "OtherVersion"
    ]
    assert findings == [(Severity.WARNING, "cohorts.kueue.x-k8s.io")] * told


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
    by_code = {finding.code: finding for finding in examine(Facts(settings, guards=guards)).findings}
    assert ("KindUnguarded" in by_code) is told
    assert "KindUnguarded" in codes(Facts(settings, guards={}))
    assert "KindUnguarded" not in codes(Facts(settings))


def test_a_right_that_a_kind_of_the_settings_lacks_is_not_in_the_base() -> None:
    settings = Settings.model_validate({"job_kinds": [SIMULATION]})
    rights = {right: right.resource not in ("simulations", "jobs") for right in needed(settings, None)}
    findings = examine(Facts(settings, rights=rights)).findings
    fixes = {finding.what: finding.fix for finding in findings if finding.code == "MissingRight"}
    assert "own-kind" in fixes["it may not patch simulations.science.example.com"]
    assert "base" in fixes["it may not patch jobs.batch"]


def granted_by(component: str) -> set[tuple[str, str, str]]:
    """The rights of a component: verb, resource and group of each."""
    role = yaml.safe_load_all((BASE.parent / "components" / component / "role.yaml").read_text())
    return {
        (verb, resource, group)
        for document in role
        for rule in document.get("rules", ())
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
    }


def test_the_rights_of_the_component_for_elastic_flavors_are_asked_for_where_there_are_such() -> None:
    settings = Settings.model_validate({"elastic": {"flavors": ["spot"]}})
    given = granted_by("elastic")
    rights = set(needed(settings, None)) - set(needed(load(None), None))
    assert {(right.verb, right.resource, right.group) for right in rights} == given
    findings = examine(Facts(settings, rights=dict.fromkeys(rights, False))).findings
    assert {finding.fix for finding in findings if finding.code == "MissingRight"} == {
        "kubectl apply -k manifests/components/elastic"
    }


def test_the_right_to_take_devices_back_is_asked_for_where_a_gang_has_claims() -> None:
    given = granted_by("device-release")
    wanted = set(needed(load(None), None, claims=True)) - set(needed(load(None), None))
    assert {(right.verb, right.resource, right.group) for right in wanted} == given
    rights = dict.fromkeys(wanted, False)
    pods = [Member(gang_pod, Meta(), looked_at=True) for gang_pod in gang("train", 2)]
    assert not [
        finding
        for finding in examine(Facts(load(None), rights=rights, members=pods)).findings
        if "Right" in finding.code
    ]
    pods = [replace(member, pod=replace(member.pod, device_claims=(ClaimUse("gpu", "", "gpus"),))) for member in pods]
    findings = examine(Facts(load(None), rights=rights, members=pods)).findings
    fixes = {finding.fix for finding in findings if finding.code == "MissingRight"}
    assert fixes == {"kubectl apply -k manifests/components/device-release"}


def test_a_policy_of_the_base_on_what_muster_may_write_that_is_missing_is_told() -> None:
    documents = [document for file in BASE.glob("*.yaml") for document in yaml.safe_load_all(file.read_text())]
    guards = {
        document["metadata"]["name"]: document
        for document in documents
        if document.get("kind") == "ValidatingAdmissionPolicy"
    }
    assert guards.keys() == set(GUARDS)
    assert codes(Facts(load(None), guards=guards)) == []
    del guards["muster-extender-jobs"]
    (finding,) = examine(Facts(load(None), guards=guards)).findings
    assert (finding.code, finding.subject) == ("ExtenderUnguarded", "muster-extender")
    assert "no ValidatingAdmissionPolicy muster-extender-jobs: " in finding.what


@pytest.mark.parametrize(("preemption", "component"), [("on", True), ("on", False), ("dry-run", False)])
def test_preemption_without_its_component_is_told(preemption: str, *, component: bool) -> None:
    policies = yaml.safe_load_all((BASE / "extender-policy.yaml").read_text())
    guards = {
        policy["metadata"]["name"]: policy for policy in policies if policy["kind"] == "ValidatingAdmissionPolicy"
    }
    if component:
        patches = yaml.safe_load((BASE.parent / "components" / "preemption" / "kustomization.yaml").read_text())[
            "patches"
        ]
        (patch,) = yaml.safe_load(patches[0]["patch"])
        guards[patches[0]["target"]["name"]]["spec"]["matchConditions"].append(patch["value"])
    facts = Facts(load(None, preemption=preemption), guards=guards)
    assert ("NoEvictionsOfPods" in codes(facts)) is (preemption == "on" and not component)


def test_an_account_that_has_lost_its_role_is_one_finding() -> None:
    rights = dict.fromkeys(needed(load(None), None), False)
    findings = [
        finding for finding in examine(Facts(load(None), rights=rights)).findings if finding.code == "MissingRight"
    ]
    assert sorted(finding.subject for finding in findings) == [
        "muster-extender",
        *["muster-scheduler"] * (len(findings) - 1),
    ]
    (extender,) = [finding for finding in findings if finding.subject == "muster-extender"]
    assert extender.what.startswith("it may not get pods, list pods, ")
    assert re.search(r" and \d+ more$", extender.what)
    assert "ClusterRoleBinding" in extender.fix


def test_a_kueue_that_manages_other_kinds_is_no_fault() -> None:
    facts = admission("admission-gate", "job-admission")
    facts.kueue = Kueue("ConfigMap kueue-system/kueue-manager-config", ("pod", "ray.io/rayservice"))
    assert codes(facts) == []
