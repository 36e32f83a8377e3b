"""Every command of the documents is typed, page by page, on the cluster of `make devcluster ARGS=--muster`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.documents import first_gang
from tests.documents.elsewhere import to_type, typed_whole
from tests.documents.pages import PAGES, ROOT, Block, blocks, commands
from tests.documents.playground import Playground, playground

# The page on uninstalling takes Muster away.
TYPED = sorted(
    (page for page in PAGES if not typed_whole(page) and any(to_type(page))),
    key=lambda page: page.name == "uninstall.md",
)
SHOWN = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]
POLICIES = [block for block in SHOWN if "AdmissionPolicy" in block.text]
PODS = [block for block in SHOWN if "kind: Pod\n" in block.text]
OVERLAYS = [block for block in SHOWN if "manifests/base" in block.text]

FINDINGS = 1
"""The exit code of `muster doctor` where something can be fixed: a simulated cluster is not all that it should be."""

WAITING = """
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-llm-0
  namespace: NAMESPACE
  annotations: {muster.dev/pod-group: train-llm, muster.dev/min-member: "4"}
spec:
  schedulerName: muster
  containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 8}}}]
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """A shell in a directory with the files of a checkout and of a user, so that the checkout itself stays as it is."""
    here = tmp_path_factory.mktemp("checkout")
    for name in ("docs", "manifests"):
        shutil.copytree(ROOT / name, here / name)
    (here / "jobs.csv").write_text("submission_time,duration,num_gpu\n0,600,8\n60,600,64\n120,600,16\n")
    shutil.copy(ROOT / "manifests/base/kube-scheduler-config.yaml", here / "kube-scheduler.yaml")
    shutil.copy(ROOT / "manifests/base/muster.yaml", here / "muster.yaml")
    with playground(here) as running:
        yield running


def test_the_first_gang_is_as_its_page_shows_it(shell: Playground) -> None:
    assert len(list(commands(first_gang.PAGE))) == 10, "as the README says"
    page = first_gang.PAGE.read_text()
    assert first_gang.lasting(first_gang.typed(shell)) == first_gang.lasting(page)


@pytest.fixture(scope="module")
def typed() -> set[str]:
    """The commands that were typed already: one that is on several pages is typed once."""
    return set()


@pytest.fixture(scope="module")
def with_waiting_gangs(shell: Playground) -> Playground:
    """Muster's Deployment, the queue of the tutorial, and the gang that pages ask about in both of their namespaces."""
    for command in (
        "kubectl apply -k manifests/base",
        "kubectl apply -k manifests/components/queues",
        "kubectl wait --for=condition=Established crd --all",
        "kubectl apply -f manifests/examples/queues/tutorial.yaml",
        "kubectl wait --for=condition=Active clusterqueue heavy-ml-cluster-queue --timeout=60s",
    ):
        done = shell.run(command)
        assert done.returncode == 0, done.stdout
    for namespace in ("default", "team-a"):
        done = shell.run("kubectl apply -f -", stdin=WAITING.replace("NAMESPACE", namespace))
        assert done.returncode == 0, done.stdout
    shell.until_said("muster gangs --state MembersMissing", "team-a")
    return shell


@pytest.mark.parametrize("block", PODS, ids=lambda block: f"{block.page.name}:{block.line}")
def test_the_api_server_takes_the_pods_that_are_shown(with_waiting_gangs: Playground, block: Block) -> None:
    done = with_waiting_gangs.run("kubectl create --dry-run=server --validate=strict -f -", stdin=block.text)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a user's own, with the checkout and the settings in it."""
    here = tmp_path_factory.mktemp("deploy")
    shutil.copytree(ROOT / "manifests", here / "muster" / "manifests")
    (here / "muster.yaml").write_text("scheduler_names: [muster, other]\n")
    return here


@pytest.mark.parametrize("block", OVERLAYS, ids=lambda block: f"{block.page.name}:{block.line}")
def test_the_overlays_that_are_shown_can_be_built(with_waiting_gangs: Playground, beside: Path, block: Block) -> None:
    (beside / "kustomization.yaml").write_text(block.text)
    built = with_waiting_gangs.run(f"kubectl kustomize {beside}")
    assert built.returncode == 0, built.stdout
    done = with_waiting_gangs.run("kubectl apply --dry-run=server -f -", stdin=built.stdout)
    assert done.returncode == 0, done.stdout
    assert "deployment.apps/muster" in done.stdout
    for image in yaml.safe_load(block.text).get("images", ()):
        name = image.get("newName", image["name"])
        assert f"image: {name}:{image['newTag']}" in built.stdout
        assert "newName" not in image or image["name"] not in built.stdout
    if "muster.yaml" in block.text:
        assert "scheduler_names: [muster, other]" in built.stdout


@pytest.mark.parametrize("block", POLICIES, ids=lambda block: f"{block.page.name}:{block.line}")
def test_the_api_server_takes_the_policies_that_are_shown(with_waiting_gangs: Playground, block: Block) -> None:
    done = with_waiting_gangs.run("kubectl apply --dry-run=server --validate=strict -f -", stdin=block.text)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
def test_what_a_page_says_to_type_works(with_waiting_gangs: Playground, typed: set[str], page: Path) -> None:
    for command in to_type(page):
        if command.text not in typed:
            done = with_waiting_gangs.run(command.text)
            fine = (0, FINDINGS) if command.text.startswith("muster doctor") else (0,)
            assert done.returncode in fine, f"{command}\nexit code {done.returncode}\n{done.stdout}"
            typed.add(command.text)
