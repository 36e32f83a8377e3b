"""The chart is made of the manifests: what helm renders is what kustomize builds."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.templates import CHART, MANIFESTS, ROOT, components, switch
from charts.values import values
from charts.written import written
from devcluster.errors import ClusterError
from devcluster.helm import Helm
from extender.config.settings import Settings
from tests.charts.rendered import Objects, alike, built, by_helm, by_kustomize, objects, switches

DEFAULT = ("admission-gate", "job-admission", "pod-trials")
BETA = "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"
POD = ("Deployment", "kube-system", "muster")


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


def test_what_is_made_of_the_manifests_is_up_to_date() -> None:
    made = written()
    there = {
        path.relative_to(CHART).as_posix(): path.read_text()
        for folder in ("templates/base", "templates/components", "files")
        for path in (CHART / folder).rglob("*")
        if path.is_file()
    }
    there |= {name: (CHART / name).read_text() for name in ("values.schema.json", "README.md")}
    assert sorted(made) == sorted(there), "run `make chart`"
    assert [name for name in made if made[name] != there[name]] == [], "run `make chart`"


@pytest.mark.parametrize("chosen", [DEFAULT, (), *((name,) for name in components())], ids="+".join)
def test_helm_renders_what_kustomize_builds(helm: Helm, tmp_path: Path, chosen: tuple[str, ...]) -> None:
    rendered = alike(by_helm(helm, *(() if chosen == DEFAULT else switches(chosen))))
    expected = alike(by_kustomize(tmp_path, chosen))
    assert sorted(rendered) == sorted(expected)
    assert [key for key in expected if rendered[key] != expected[key]] == []


def test_all_components_together_are_what_kustomize_builds(helm: Helm, tmp_path: Path) -> None:
    assert alike(by_helm(helm, *switches(components()))) == alike(by_kustomize(tmp_path, components()))


def test_the_digests_of_a_release_are_in_the_chart(helm: Helm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    shutil.copytree(CHART, tmp_path / "chart")
    deployment = tmp_path / "manifests" / "base" / "deployment.yaml"
    deployment.write_text(re.sub(r"(image: \S+)", rf"\1@{DIGEST}", deployment.read_text()))
    monkeypatch.setattr("charts.templates.MANIFESTS", tmp_path / "manifests")
    for name, text in written().items():
        (tmp_path / "chart" / name).write_text(text)
    rendered = objects(helm("template", "muster", tmp_path / "chart", "--namespace=kube-system"))
    shipped = yaml.safe_load(deployment.read_text())["spec"]["template"]["spec"]
    images = [container["image"] for container in [*shipped["initContainers"], *shipped["containers"]]]
    assert [container["image"] for container in containers(rendered)] == images
    assert all(image.endswith(DIGEST) for image in images)


def test_every_component_has_a_switch() -> None:
    given = yaml.safe_load((CHART / "values.yaml").read_text())["components"]
    assert set(given) == {switch(name) for name in components()}
    assert {name for name, on in given.items() if on} == {switch(name) for name in DEFAULT}


def test_every_value_says_what_it_is_for() -> None:
    assert [value.path for value in values() if not value.description and "." not in value.path] == []


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_the_annotations_for_artifact_hub_are_true(helm: Helm) -> None:
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    hub = {key.removeprefix("artifacthub.io/"): yaml.safe_load(text) for key, text in annotations.items()}
    rendered = by_helm(helm, *switches(["podgroup-crd", "queues"]))
    assert {entry["image"] for entry in hub["images"]} == {container["image"] for container in containers(rendered)}
    shown = {name for kind, _, name in rendered if kind == "CustomResourceDefinition"}
    assert {entry["name"] for entry in hub["crds"]} == shown
    for crd in hub["crds"]:
        spec = rendered["CustomResourceDefinition", "", crd["name"]]["spec"]
        assert spec["names"]["kind"] == crd["kind"]
        assert crd["version"] in [version["name"] for version in spec["versions"] if version["storage"]]
    known = {(entry["kind"], entry["version"]) for entry in hub["crds"]}
    assert {(example["kind"], example["apiVersion"].partition("/")[2]) for example in hub["crdsExamples"]} <= known
    for link in [*hub["links"], *hub["screenshots"]]:
        path = re.sub(r"^https://github\.com/muster-dev/muster/(blob|raw)/main/", "", link["url"])
        assert (ROOT / path).is_file(), link


@pytest.mark.parametrize("args", [(), tuple(switches(components()))], ids=["default", "everything"])
def test_lint_finds_nothing(helm: Helm, args: tuple[str, ...]) -> None:
    output = helm("lint", "--strict", CHART, *args)
    assert "[WARNING]" not in output
    assert "0 chart(s) failed" in output


def test_it_is_rendered_without_hooks_and_without_a_cluster(helm: Helm) -> None:
    for path in (CHART / "templates").rglob("*"):
        if path.is_file():
            assert "lookup" not in re.findall(r"{{-? *(lookup)", path.read_text())
            assert "helm.sh/hook" not in path.read_text()
    once, again = (helm("template", "muster", CHART, *switches(components())) for _ in range(2))
    assert once == again


def test_the_package_renders_the_same(helm: Helm, tmp_path: Path) -> None:
    helm("package", CHART, "--destination", tmp_path)
    (archive,) = tmp_path.glob("*.tgz")
    assert archive.name == "muster-0.1.0.tgz", "a tag without v, as registries of OCI want it"
    assert objects(helm("template", "muster", archive, "--namespace=kube-system")) == by_helm(helm)


def test_another_chart_can_have_it_among_its_dependencies(helm: Helm, tmp_path: Path) -> None:
    dependency = {"name": "muster", "version": "0.1.0", "condition": "muster.enabled"}
    parent = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(parent))
    shutil.copytree(CHART, tmp_path / "charts" / "muster")
    there = "template", "muster", tmp_path, "--namespace=kube-system", "--set=global.team=x"
    assert alike(objects(helm(*there, "--set=muster.enabled=true"))) == alike(by_helm(helm))
    assert objects(helm(*there, "--set=muster.enabled=false")) == {}


def test_another_namespace_is_everywhere(helm: Helm) -> None:
    here = by_helm(helm, *switches(components()))
    there = by_helm(helm, *switches(components()), namespace="team-platform")
    elsewhere = "RoleBinding", "kube-system", "muster-scheduler:extension-apiserver-authentication-reader"
    text = "\n---\n".join(json.dumps(obj) for obj in there.values())
    assert alike(objects(text.replace("team-platform", "kube-system"))) == alike(here)
    assert {key for key in there if key[1] == "kube-system"} == {elsewhere}, "the Role to read there is the cluster's"
    assert there[elsewhere]["subjects"][0]["namespace"] == "team-platform"
    assert "kube-system" not in json.dumps([obj for key, obj in there.items() if key != elsewhere])


def containers(rendered: Objects, namespace: str = "kube-system") -> list[dict[str, Any]]:
    pod = rendered["Deployment", namespace, "muster"]["spec"]["template"]["spec"]
    return [*pod["initContainers"], *pod["containers"]]


TEMPLATE = "spec/template/spec"
DIGEST = "sha256:" + "0a" * 32
VALUES: list[tuple[str, dict[str, Any], tuple[str, str, str], str, Any]] = [
    ("replicas", {"replicas": 3}, POD, "spec/replicas", 3),
    ("tag", {"image": {"tag": "1.2.3"}}, POD, f"{TEMPLATE}/containers/1/image", "ghcr.io/muster-dev/muster:1.2.3"),
    (
        "digest",
        {"image": {"repository": "r.example.com:5000/a/b", "tag": "1", "digest": DIGEST}},
        POD,
        f"{TEMPLATE}/initContainers/0/image",
        f"r.example.com:5000/a/b@{DIGEST}",
    ),
    ("pull policy", {"image": {"pullPolicy": "Always"}}, POD, f"{TEMPLATE}/containers/1/imagePullPolicy", "Always"),
    (
        "scheduler's image",
        {"kubeScheduler": {"image": {"repository": "mirror.example.com/ks", "tag": "v1.36.9"}}},
        POD,
        f"{TEMPLATE}/containers/0/image",
        "mirror.example.com/ks:v1.36.9",
    ),
    (
        "scheduler's resources",
        {"kubeScheduler": {"resources": {"requests": {"cpu": 2}}}},
        POD,
        f"{TEMPLATE}/containers/0/resources",
        {"requests": {"cpu": 2, "memory": "256Mi"}, "limits": {"memory": "4Gi"}},
    ),
    (
        "resources",
        {"resources": {"requests": {"cpu": "1"}, "limits": {"memory": None}}},
        POD,
        f"{TEMPLATE}/containers/1/resources",
        {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": {}},
    ),
    ("pull secrets", {"imagePullSecrets": [{"name": "r"}]}, POD, f"{TEMPLATE}/imagePullSecrets", [{"name": "r"}]),
    ("priority class", {"priorityClassName": "mine"}, POD, f"{TEMPLATE}/priorityClassName", "mine"),
    ("no priority class", {"priorityClassName": ""}, POD, f"{TEMPLATE}/priorityClassName", None),
    ("node selector", {"nodeSelector": {"a": "b"}}, POD, f"{TEMPLATE}/nodeSelector", {"a": "b"}),
    ("tolerations", {"tolerations": [{"key": "a"}]}, POD, f"{TEMPLATE}/tolerations", [{"key": "a"}]),
    ("affinity", {"affinity": {"nodeAffinity": {}}}, POD, f"{TEMPLATE}/affinity", {"nodeAffinity": {}}),
    (
        "pods' annotations",
        {"podAnnotations": {"a": "b"}},
        POD,
        "spec/template/metadata/annotations/a",
        "b",
    ),
    ("pods' labels", {"podLabels": {"a": "b"}}, POD, "spec/template/metadata/labels/a", "b"),
    (
        "the label of the selectors",
        {"podLabels": {"app.kubernetes.io/name": "b"}, "commonLabels": {"app.kubernetes.io/name": "c"}},
        POD,
        "spec/template/metadata/labels/app.kubernetes.io~1name",
        "muster",
    ),
    (
        "budget",
        {"podDisruptionBudget": {"maxUnavailable": "50%"}},
        ("PodDisruptionBudget", "kube-system", "muster"),
        "spec/maxUnavailable",
        "50%",
    ),
    (
        "ports of the API server",
        {"networkPolicy": {"apiServerPorts": [16443]}},
        ("NetworkPolicy", "kube-system", "muster"),
        "spec/egress/0/ports",
        [{"protocol": "TCP", "port": 16443}],
    ),
    (
        "the labels of the Prometheus",
        {"config": {"prometheus_url": "http://p:1"}, "networkPolicy": {"prometheusLabels": {"app": "thanos"}}},
        ("NetworkPolicy", "kube-system", "muster-to-prometheus"),
        "spec/egress/0/to",
        [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "thanos"}}}],
    ),
    *(
        (
            f"the port of {url}, {ports}",
            {"config": {"prometheus_url": url}, "networkPolicy": {"prometheusPorts": ports}},
            ("NetworkPolicy", "kube-system", "muster-to-prometheus"),
            "spec/egress/0/ports",
            [{"protocol": "TCP", "port": port} for port in expected],
        )
        for url, ports, expected in (
            ("http://prometheus-operated.monitoring.svc:9090", [], [9090]),
            ("http://thanos.monitoring/select/0", [], [80]),
            ("https://metrics.example.com/prometheus", [], [443]),
            ("http://[fd00::1]:9091/", [], [9091]),
            ("http://[fd00::1]", [], [80]),
            ("http://prometheus.monitoring", [80, 9090], [80, 9090]),
        )
    ),
    (
        "excluded namespaces",
        {"admission": {"excludedNamespaces": ["a", "b"]}},
        ("MutatingAdmissionPolicyBinding", "", "muster-jobs"),
        "spec/matchResources/namespaceSelector/matchExpressions",
        [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "b"]}],
    ),
    (
        "gated namespaces",
        {
            "admission": {
                "excludedNamespaces": ["a"],
                "namespaceSelector": {"matchLabels": {"team": "x"}},
                "gateNamespaceSelector": {"matchExpressions": [{"key": "scaled", "operator": "DoesNotExist"}]},
            }
        },
        ("MutatingAdmissionPolicyBinding", "", "muster-gang-gate"),
        "spec/matchResources/namespaceSelector/matchExpressions",
        [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a"]},
            {"key": "team", "operator": "In", "values": ["x"]},
            {"key": "scaled", "operator": "DoesNotExist"},
        ],
    ),
    (
        "namespaces where keys can be forged: none",
        {"admission": {"excludedNamespaces": ["a"]}},
        ("ValidatingAdmissionPolicyBinding", "", "muster-job-keys"),
        "spec/matchResources",
        None,
    ),
    (
        "for the operator",
        {"components": {"prometheusOperator": True}, "prometheusOperator": {"labels": {"release": "p"}}},
        ("PodMonitor", "kube-system", "muster"),
        "metadata/labels/release",
        "p",
    ),
]


@pytest.mark.parametrize(("name", "given", "of", "path", "expected"), VALUES, ids=[row[0] for row in VALUES])
def test_a_value_is_where_it_belongs(
    helm: Helm, tmp_path: Path, name: str, given: dict[str, Any], of: tuple[str, str, str], path: str, expected: Any
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(given))
    node: Any = by_helm(helm, "--values", file)[of]
    for segment in path.split("/"):
        node = node[int(segment)] if isinstance(node, list) else node.get(segment.replace("~1", "/"))
    assert node == expected


@pytest.mark.parametrize(
    "given", ["config.prometheus_url=", "config.prometheus_url=http://p:1,networkPolicy.enabled=false"]
)
def test_there_is_no_way_to_a_prometheus_that_is_not_named_or_where_there_are_no_policies(
    helm: Helm, given: str
) -> None:
    assert ("NetworkPolicy", "kube-system", "muster-to-prometheus") not in by_helm(helm, f"--set={given}")


def config_of(rendered: Objects, name: str, namespace: str = "kube-system") -> Any:
    ((_, text),) = rendered["ConfigMap", namespace, name]["data"].items()
    return yaml.safe_load(text)


def test_settings_and_scheduler_agree(helm: Helm, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    # As people write it: YAML reads `on` as true.
    file.write_text(
        "schedulerNames: [muster, volcano]\n"
        "config: {preemption: on, bind_timeout_s: 900, listen_port: 10300, default_queue: main}\n"
        "kubeScheduler: {config: {clientConnection: {qps: 900}}}\n"
    )
    rendered = by_helm(helm, "--values", file, namespace="ns")
    settings = Settings.model_validate(config_of(rendered, "muster-config", "ns"))
    assert (settings.scheduler_names, settings.preemption, settings.default_queue) == (
        ("muster", "volcano"),
        "on",
        "main",
    )
    assert settings.leader_election.namespace == "ns"
    scheduler = config_of(rendered, "muster-scheduler-config", "ns")
    assert [profile["schedulerName"] for profile in scheduler["profiles"]] == ["muster", "volcano"]
    assert [extender["urlPrefix"] for extender in scheduler["extenders"]] == ["http://127.0.0.1:10300"] * 2
    assert [extender["httpTimeout"] for extender in scheduler["extenders"]] == ["2s", "900s"]
    assert scheduler["clientConnection"] == {"qps": 900, "burst": 1000}
    assert scheduler["leaderElection"]["resourceNamespace"] == "ns"
    policies = json.dumps([obj for key, obj in rendered.items() if "AdmissionPolicy" in key[0]])
    assert "['muster', 'volcano']" in policies
    assert "['muster']" not in policies


def test_a_changed_setting_makes_new_pods(helm: Helm) -> None:
    def checksum(*args: str) -> str:
        annotations = by_helm(helm, *args)[POD]["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    assert checksum() == checksum("--set=replicas=5")
    assert checksum() != checksum("--set=config.require_queue=true")
    assert checksum() != checksum("--set=kubeScheduler.config.podMaxBackoffSeconds=5")


@pytest.mark.parametrize(
    ("server", "tag"),
    [
        ("v1.39.0", "v1.37.2"),
        ("v1.37.0", "v1.37.2"),
        ("v1.36.3-gke.1234", "v1.36.3"),
        ("v1.35.1+k3s1", "v1.35.4"),
    ],
)
def test_kube_scheduler_is_not_newer_than_the_api_server(helm: Helm, server: str, tag: str) -> None:
    rendered = by_helm(helm, f"--kube-version={server}", BETA)
    (scheduler,) = [container for container in containers(rendered) if container["name"] == "kube-scheduler"]
    assert scheduler["image"] == f"registry.k8s.io/kube-scheduler:{tag}"
    assert "--feature-gates=GenericWorkload=false" in scheduler["command"]
    versions = {obj["apiVersion"] for key, obj in rendered.items() if key[0].startswith("MutatingAdmissionPolicy")}
    older = server < "v1.36"
    assert versions == {f"admissionregistration.k8s.io/{'v1beta1' if older else 'v1'}"}


def test_on_kubernetes_1_34_it_is_as_the_example_for_that(helm: Helm) -> None:
    folder = MANIFESTS / "examples" / "kubernetes-1.34"
    assert alike(by_helm(helm, "--kube-version=v1.34.4", *switches([]))) == alike(built(folder))
    gated = by_helm(helm, "--kube-version=v1.34.4", BETA, *switches(["admission-gate"]))
    gate = gated["MutatingAdmissionPolicy", "", "muster-gang-gate"]
    assert gate["apiVersion"] == "admissionregistration.k8s.io/v1beta1"


REFUSED: list[tuple[str, str]] = [
    ("--set=replica=2", "additional properties 'replica' not allowed"),
    ("--set=replicas=many", "at '/replicas': got string, want integer"),
    ("--set=components.jobAdmision=true", "additional properties 'jobAdmision' not allowed"),
    ("--set=components.queues=yes", "at '/components/queues': got string, want boolean"),
    ("--set=config.preempt=on", "additional properties 'preempt' not allowed"),
    ("--set=config.preemption=always", "at '/config/preemption': value must be one of 'off', 'dry-run', 'on'"),
    ("--set=config.bind_timeout_s=2", "at '/config/bind_timeout_s': minimum: got 2, want 5"),
    ("--set=config.leader_election.name=other", "config.leader_election is not for you to set"),
    ("--set=config.metrics_port=9000", "config.metrics_port is not for you to set; set components.monitoring"),
    ("--set=kubeScheduler.config.profiles=x", "kubeScheduler.config.profiles is set by the chart"),
    ("--set=image.digest=latest", "at '/image/digest': 'latest' does not match pattern"),
    ("--set=image.repository=muster:1.0", "at '/image/repository': 'muster:1.0' does not match pattern"),
    ("--set=image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of"),
    ("--set=imagePullSecrets={registry}", "at '/imagePullSecrets/0': got string, want object"),
    ("--set-json=schedulerNames=[]", "at '/schedulerNames': minItems: got 0, want 1"),
    ("--set=admission.excludedNamespaces=kube-system", "at '/admission/excludedNamespaces': got string, want array"),
    ("--set=podDisruptionBudget.maxUnavailable=half", "at '/podDisruptionBudget/maxUnavailable'"),
    ("--set=networkPolicy.apiServerPorts={70000}", "at '/networkPolicy/apiServerPorts/0': maximum"),
    ("--set-string=commonLabels.a=b,commonLabels.c.d=e", "at '/commonLabels/c': got object, want string"),
    ("--kube-version=v1.29.0", "kubeVersion"),
    (
        "--kube-version=v1.33.0 --set=components.admissionGate=false,components.jobAdmission=false",
        "set kubeScheduler.image.tag to a kube-scheduler of its minor version",
    ),
    (
        "--kube-version=v1.36.2 --set=kubeScheduler.image.tag=v1.37.2",
        "kubeScheduler.image.tag is v1.37.2, and the API server v1.36.2: kube-scheduler may not be newer",
    ),
    (
        f"--kube-version=v1.34.0 {BETA}",
        "jobAdmission needs 1.35: set components.jobAdmission=false",
    ),
    ("--kube-version=v1.35.0", "set components.admissionGate=false and components.jobAdmission=false"),
]


@pytest.mark.parametrize(("given", "complaint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_bad_values_are_refused_with_a_clear_text(helm: Helm, given: str, complaint: str) -> None:
    with pytest.raises(ClusterError) as refused:
        helm("template", "muster", CHART, *given.split())
    assert complaint in str(refused.value)


def test_what_may_be_empty_may_be_null(helm: Helm) -> None:
    empty = [value.path for value in values() if value.default in ("", [], {})]
    assert len(empty) > 15
    assert by_helm(helm, *(f"--set={path}=null" for path in empty)) == by_helm(helm)


def test_what_may_not_be_empty_is_refused_as_null(helm: Helm) -> None:
    filled = [value.path for value in values() if value.default not in ("", [], {}) and "." not in value.path]
    with pytest.raises(ClusterError) as refused:
        helm("template", "muster", CHART, *(f"--set={path}=null" for path in filled))
    (missing,) = re.findall(r"missing propert(?:y|ies) (.*)", str(refused.value))
    assert set(re.findall(r"'(\w+)'", missing)) == set(filled)


def _combinations(number: int) -> Iterator[dict[str, Any]]:
    """Yield values that differ in many ways at once."""
    chance = random.Random(56)  # noqa: S311 - a seed
    switched = [switch(name) for name in components()]
    for _ in range(number):
        chosen: dict[str, Any] = {}
        for row in chance.sample(VALUES, k=chance.randint(1, 8)):
            chosen |= row[1]
        others = {name: chance.random() < 0.5 for name in switched}
        flags = {
            "commonLabels": chance.choice([{}, {"team": "x", "app.kubernetes.io/part-of": "platform"}]),
            "commonAnnotations": chance.choice([{}, {"a/b": "1: {{ x }}"}]),
            "serviceAccounts": {"create": chance.random() < 0.5},
            "podDisruptionBudget": {"enabled": chance.random() < 0.5},
            "networkPolicy": {"enabled": chance.random() < 0.5},
        }
        yield {**chosen, **flags, "components": others}


def test_many_combinations_are_whole(helm: Helm, tmp_path: Path) -> None:
    """All documents parse, none comes twice, each has the labels and annotations, and disabled parts are absent."""
    for number, given in enumerate(_combinations(20)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(given))
        rendered = by_helm(helm, "--values", file, namespace="ns")
        for key, obj in rendered.items():
            labels = obj["metadata"]["labels"]
            assert labels["app.kubernetes.io/name"] == "muster", key
            assert given["commonLabels"].items() <= labels.items(), key
            assert given["commonAnnotations"].items() <= obj["metadata"].get("annotations", {}).items(), key
        kinds = [kind for kind, _, _ in rendered]
        assert ("PodDisruptionBudget" in kinds) is given["podDisruptionBudget"]["enabled"]
        assert ("ServiceAccount", "ns", "muster-extender") in rendered or not given["serviceAccounts"]["create"]
        crds = {name for kind, _, name in rendered if kind == "CustomResourceDefinition"}
        assert ("podgroups.scheduling.x-k8s.io" in crds) is given["components"]["podgroupCrd"]
        assert ("clusterqueues.kueue.x-k8s.io" in crds) is given["components"]["queues"]


def test_the_notes_say_what_to_do_next(helm: Helm) -> None:
    output = helm("install", "muster", CHART, "--dry-run=client", "--namespace=gangs", "--set=config.preemption=on")
    notes = output.partition("NOTES:")[2]
    assert "kubectl -n gangs rollout status deployment/muster" in notes
    assert "muster explain first-gang --muster-namespace gangs" in notes
    assert "for pods of no gang set components.preemption=true" in notes
    (gang,) = objects(re.findall(r"^  apply -f - <<'EOF'|<<'EOF'\n(.*?)\n  EOF", notes, re.DOTALL)[0]).values()
    assert gang["spec"]["template"]["spec"]["schedulerName"] == "muster"
