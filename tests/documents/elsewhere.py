"""The commands of the documents that no test runs as they stand, and why. That they can be typed is tested, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    """All commands that begin with these words."""

    begins: str
    why: str


ELSEWHERE = (
    Elsewhere("make demo", "minutes of a real control plane: .ci/run tests its parts, the README shows its picture"),
    Elsewhere("make test", "this is inside it"),
    Elsewhere("make soak", "runs until it is stopped; its command line is tested in tests/simulation"),
    Elsewhere("make upgrade", "minutes of a real control plane; tests/integration/test_upgrade.py is its first part"),
    Elsewhere("make devcluster", "runs until it is stopped: the test of documents starts it and plays on it"),
    Elsewhere("export ", "what it prints is the environment of all commands that are run"),
    Elsewhere(
        "kubectl apply -f manifests/examples/volcano",
        "needs Volcano's CRDs; tests/kube/queues/test_documents.py reads it",
    ),
    Elsewhere("pipx install", "installs from the network; tests/test_package.py does the same with uv"),
    Elsewhere("make wheel", "tests/test_package.py makes and installs one"),
    Elsewhere("make image", "minutes, and root; tests/test_image.py does the same without a control plane"),
    Elsewhere(".ci/", "a release of one's own; tests/test_releases.py runs it on a copy"),
    Elsewhere("kubectl apply -k manifests/examples/kyverno", "needs Kyverno; tests/documents/test_kyverno.py reads it"),
    Elsewhere("helm install muster charts/muster", "tests/integration/test_helm.py types docs/helm.md"),
    Elsewhere("kind ", "needs containers"),
    Elsewhere("docker ", "needs containers"),
    Elsewhere("awk -F, ", "its trace is published by others, and not part of this project"),
    Elsewhere("muster simulate --trace week.csv", "the same"),
    Elsewhere("kubectl -n kube-system port-forward ", "needs a Deployment of Muster, and runs until it is stopped"),
    Elsewhere("kubectl patch node muster-control-plane", "a node of kind"),
    Elsewhere("muster bench gangs ", "tests/integration/test_bench_gangs.py types it"),
    Elsewhere(
        ".venv/bin/python -m benchmarks.gangs_audit",
        "minutes; tests/integration/test_bench_gangs.py judges a small one",
    ),
    Elsewhere(
        ".venv/bin/muster bench ", "measures for minutes to hours; tests/integration/test_benchmark.py runs small ones"
    ),
    Elsewhere("muster bench ", "the same"),
    Elsewhere("kubectl -n kube-system exec ", "needs a container; what it runs is tested in tests/test_loadtest.py"),
    Elsewhere(
        "MUSTER_LISTEN_HOST=0.0.0.0 muster serve",
        "shown with its refusal, word for word: tests/test_security_document.py",
    ),
)


def elsewhere(command: str) -> Elsewhere | None:
    return next((one for one in ELSEWHERE if command.startswith(one.begins)), None)
