"""Names the test that types a page's commands, and the commands that no test types as they stand.

tests/integration/test_documents.py types all pages but those of WHOLE. An exception holds for its own page alone: it
cannot switch off the same command on another page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.documents.pages import ROOT, Command, commands

WHOLE = {
    "docs/acting.md": "tests/integration/test_act.py",
    "docs/examples.md": "tests/integration/test_examples.py",
    "docs/first-gang.md": "tests/integration/test_documents.py",
    "docs/helm.md": "tests/integration/test_helm.py",
}
"""Pages that a test of their own types from the first command to the last. They have no exceptions."""

PLAYGROUND = ("make devcluster", "export KUBECONFIG=")
"""The commands by which a page opens its cluster: tests/documents/playground.py starts it, and sets their output."""

_CONTAINERS = "needs containers"
_BENCH = "measures for minutes to hours; tests/integration/test_benchmark.py runs small ones"
_BENCH_GANGS = "tests/integration/test_bench_gangs.py types it"
_CHART = "tests/integration/test_helm.py types docs/helm.md, which has the same with a file of values"
_SOAK = "runs until it is stopped; its command line is tested in tests/simulation"
_RELEASE = "a release of one's own; tests/test_releases.py and tests/test_dependencies.py run it on a copy"
_TRACE = "its trace is published by others, and not part of this project"

ELSEWHERE: dict[str, dict[str, str]] = {
    "README.md": {
        "make demo": "minutes of a real control plane: .ci/run tests its parts, the README shows its picture",
        "make test": "this is inside it",
        "muster bench gangs ": _BENCH_GANGS,
        "docker ": _CONTAINERS,
        "helm install ": _CHART,
    },
    "CONTRIBUTING.md": {"make ": "builds and tests the checkout, for minutes to hours"},
    "charts/muster/README.md": {"helm install ": _CHART},
    "docs/api.md": {
        "kubectl -n kube-system port-forward ": "needs a Deployment of Muster, and runs until it is stopped",
        "export MUSTER_URL=": "the address of that port-forward; the playground has its own",
    },
    "docs/benchmarks.md": {
        ".venv/bin/muster bench ": _BENCH,
        "kubectl -n kube-system exec ": "needs a container; what it runs is tested in tests/test_loadtest.py",
    },
    "docs/dashboard.md": {
        "helm upgrade ": _CHART,
        "muster ui": "runs until it is stopped; tests/integration/test_dashboard.py starts it",
        "curl ": "needs the Service in the cluster; tests/integration/test_dashboard.py asks the same",
    },
    "docs/defrag.md": {"muster defrag ": "needs jobs that may move; tests/test_inspection.py types it"},
    "docs/install.md": {
        "pipx install": "installs from the network; tests/test_package.py does the same with uv",
        "make wheel": "tests/test_package.py makes and installs one",
        "kubectl apply -k .": "a user's overlay; tests/integration/test_documents.py renders those of the pages",
        "docker ": _CONTAINERS,
        "kind ": _CONTAINERS,
        "kubectl patch node muster-control-plane": "a node of kind",
    },
    "docs/kyverno.md": {"kubectl apply ": "needs Kyverno; tests/documents/test_kyverno.py reads it"},
    "docs/load-test.md": {
        "muster bench gangs ": _BENCH_GANGS,
    },
    "docs/migrate-volcano.md": {
        "kubectl apply -f manifests/examples/volcano": (
            "needs Volcano's CRDs; tests/kube/queues/test_volcano.py reads it"
        ),
    },
    "docs/proof.md": {"make soak": _SOAK},
    "docs/release.md": {
        ".ci/": _RELEASE,
        "make image": "minutes, and root; tests/test_image.py does the same without a control plane",
    },
    "docs/simulate.md": {"muster simulate --trace week.csv": _TRACE},
    "docs/tls.md": {
        "MUSTER_LISTEN_HOST=0.0.0.0 muster serve": (
            "shown with its refusal, word for word: tests/test_security_document.py"
        ),
    },
    "docs/trace.md": {"awk -F, ": _TRACE, "muster simulate --trace week.csv": _TRACE},
}
"""Reasons why no test types a command, by page and first words. That they can be typed is tested, too."""


def exception(command: Command) -> str | None:
    """Return the first words by which the command's page has an exception for it."""
    begins = ELSEWHERE.get(_name(command.page), {})
    return next((words for words in begins if command.text.startswith(words)), None)


def to_type(page: Path) -> Iterator[Command]:
    """Yield the commands of a page that a test types on the playground."""
    for command in commands(page):
        if not command.text.startswith(PLAYGROUND) and exception(command) is None:
            yield command


def typed_whole(page: Path) -> bool:
    """Return whether a test of its own types the page."""
    return _name(page) in WHOLE


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()
