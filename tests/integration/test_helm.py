"""The chart, installed, upgraded, rolled back and uninstalled on the cluster of `make devcluster ARGS=--helm`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.templates import components, switch
from tests.documents import helm
from tests.documents.pages import ROOT, Block
from tests.documents.playground import Playground, playground
from tests.integration.policy_failures import failures_in

NEW = "A column of a later version"
_OF_RELEASE = "app.kubernetes.io/instance=muster"
_CRD = "customresourcedefinition.apiextensions.k8s.io"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Playground]:
    with playground(ROOT, *helm.options()) as running:
        yield running
        failed = {
            name: count
            for name, count in failures_in(running.run("kubectl get --raw /metrics").stdout).items()
            if count
        }
        assert not failed, f"expressions of policies have failed: {failed}"


class Newcomer:
    """Types commands in a checkout of their own, and looks at the installed objects."""

    def __init__(self, cluster: Playground, directory: Path, namespace: str) -> None:
        self.directory = directory
        self.namespace = namespace
        # The user's own settings, repositories and plugins are left out. helm asks twice for each object, and five
        # times a second from the hundredth request on.
        own = {f"HELM_{name}_HOME": str(directory / name) for name in ("CACHE", "CONFIG", "DATA")}
        self.shell = Playground(directory, {**cluster.environment, **own, "HELM_BURST_LIMIT": "1000"})
        for name in ("charts", "manifests"):
            shutil.copytree(ROOT / name, directory / name)

    def type(self, command: str, stdin: str = "") -> str:
        """Type a command, and return its output."""
        done = self.shell.run(command, stdin)
        assert done.returncode == 0, f"{command}\nexit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def get(self, what: str) -> Any:
        return json.loads(self.type(f"kubectl get -o json {what}"))

    def settings(self) -> Any:
        return yaml.safe_load(self.get(f"-n {self.namespace} configmap muster-config")["data"]["muster.yaml"])

    def deployment(self) -> Any:
        return self.get(f"-n {self.namespace} deployment muster")

    def image(self) -> str:
        containers = self.deployment()["spec"]["template"]["spec"]["containers"]
        return str(next(container["image"] for container in containers if container["name"] == "muster"))

    def columns(self) -> list[str]:
        crd = self.get("crd podgroups.scheduling.x-k8s.io")
        return [column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]]

    def manifest(self) -> list[str]:
        """Return KIND/NAME of each object that helm says is installed, as the API server knows it."""
        manifest = self.type(f"helm get manifest muster --namespace={self.namespace}")
        wanted = [obj for obj in yaml.safe_load_all(manifest) if obj]
        names = self.type("kubectl get -f - -o name", manifest).split()
        assert len(names) == len(wanted)
        return names

    def left(self) -> set[str]:
        """Return the kinds of objects of the release that are there, in all namespaces."""
        kinds = self.type("kubectl api-resources --verbs=list -o name").split()
        others = ("events", "componentstatuses", "endpoints")  # the last two only warn that they are deprecated
        stored = ",".join(kind for kind in kinds if not kind.startswith(others))
        names = self.type(f"kubectl get {stored} -A -l {_OF_RELEASE} -o name --ignore-not-found")
        return {name.partition("/")[0] for name in names.split()}

    def until_muster_has_ended(self) -> None:
        """Wait as a person does before the next command: its pods are gone, and a process takes a second longer."""
        self.shell.until_said("muster gangs", "no answer from Muster")

    def running(self, job: str) -> None:
        """Check that all pods of that job run, untouched by any upgrade."""
        pods = self.get(f"pods -l batch.kubernetes.io/job-name={job}")["items"]
        assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 4

    def later_version(self) -> None:
        """Make the changes of a new checkout: another version of the chart, of Muster and of a CRD."""
        chart = self.directory / "charts" / "muster"
        for path, old, new in (
            (chart / "Chart.yaml", "0.1.0", "0.2.0"),
            (chart / "templates/components/podgroup-crd/podgroups.yaml", "name: Min Member", f"name: {NEW}"),
        ):
            assert old in path.read_text()
            path.write_text(path.read_text().replace(old, new))


def test_the_page_leads_from_the_installation_to_the_end(cluster: Playground, tmp_path: Path) -> None:
    here = Newcomer(cluster, tmp_path, "kube-system")
    seen: list[str] = []
    outputs: dict[str, str] = {}
    for step in helm.steps():
        if isinstance(step, Block):
            helm.write(tmp_path, step)
            continue
        first_words = " ".join(step.text.split()[:2])
        if first_words == "helm upgrade" and "helm upgrade" in seen:
            here.later_version()
        outputs[step.text] = here.type(step.text)
        seen.append(first_words)
        match first_words, seen.count(first_words):
            case "helm install", 1:
                assert len(here.manifest()) > 70
            case "helm upgrade", 1:
                assert here.settings()["preemption"] == "on"
            case "helm upgrade", 2:
                assert here.image() == "registry.example.com/muster:0.2.0"
                assert NEW in here.columns()
                here.running("fix")
            case "helm rollback", 1:
                assert here.image() == "registry.example.com/muster:0.1.0"
                assert NEW not in here.columns()
                assert "preemption" not in here.settings()
                here.running("fix")
            case "helm uninstall", 1:
                here.until_muster_has_ended()
    explained = outputs["muster explain job-first"]
    assert "preempted" in explained or "fix" in explained
    assert [seen.count(f"helm {verb}") for verb in ("install", "upgrade", "rollback", "uninstall")] == [1, 2, 1, 1]
    assert here.left() == {_CRD}, "they are kept, and nothing else is"
    here.running("fix")


def test_everything_at_once_in_a_namespace_of_its_own(cluster: Playground, tmp_path: Path) -> None:
    here = Newcomer(cluster, tmp_path, "team-platform")
    values = {
        # The kinds of the Prometheus Operator are not here.
        "components": {switch(name): name != "prometheus-operator" for name in components()},
        "admission": {"excludedNamespaces": ["left-alone"]},
        "schedulerNames": ["muster", "second"],
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"example.com/owner": "platform"},
        "config": {"preemption": "on"},
        "replicas": 3,
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    # The CRDs of the release before are there, and are taken over from another namespace: that is asked for.
    here.type(
        "helm install muster charts/muster --namespace team-platform --create-namespace --values values.yaml "
        "--take-ownership"
    )
    names = here.manifest()
    assert {"configmap/muster-alerts", "configmap/muster-dashboard", "serviceaccount/muster-trials"} <= set(names)
    here.type("kubectl -n team-platform rollout status deployment/muster --timeout=60s")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(_job()))
    for namespace in ("team", "left-alone"):
        here.type(f"kubectl create namespace {namespace}")
    # The API server may still know the policy of the release before, which excludes no namespace.
    suspends = "kubectl create -n {} -f job.yaml --dry-run=server -o jsonpath={{.spec.suspend}}"
    here.shell.until_said(f"{suspends.format('team')}; {suspends.format('left-alone')}", "truefalse")
    here.type("kubectl create -n team -f job.yaml")
    here.type("kubectl wait -n team job/train --for=jsonpath={.status.ready}=2 --timeout=60s")
    started = here.get("-n team job train")
    assert started["spec"]["template"]["spec"]["schedulerName"] == "muster", "the first name is written into jobs"
    assert "muster.dev/plan" in started["metadata"]["annotations"], "Muster has started it"
    here.type("helm uninstall muster --namespace team-platform --wait --cascade foreground")
    here.until_muster_has_ended()
    assert here.left() == {_CRD}
    here.type(f"kubectl delete crd -l {_OF_RELEASE}")
    assert here.left() == set()


def test_what_kustomize_has_installed_is_taken_over(cluster: Playground, tmp_path: Path) -> None:
    here = Newcomer(cluster, tmp_path, "kube-system")
    here.type("kubectl apply -k manifests/base")
    before = here.deployment()["metadata"]["uid"]
    helm.write(tmp_path, next(step for step in helm.steps() if isinstance(step, Block)))
    here.type(helm.takeover())
    assert here.deployment()["metadata"]["uid"] == before
    assert here.image() == "registry.example.com/muster:0.1.0"
    here.type("helm uninstall muster --namespace kube-system --wait --cascade foreground")
    assert here.left() == {_CRD}


def _job() -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"muster.dev/gang": "true"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
