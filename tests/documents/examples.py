"""docs/examples.md is typed on a cluster of its own: `python -m tests.documents.examples` writes down the output."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.documents import first_gang
from tests.documents.pages import ROOT, commands
from tests.documents.playground import Playground, playground

PAGE = ROOT / "docs" / "examples.md"
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_START = re.compile(r'^make devcluster ARGS="(.*)"$')


def _gangs_are(**states: str) -> Callable[[Playground], None]:
    wanted = {name.replace("_", "-"): state for name, state in states.items()}

    def settle(here: Playground) -> None:
        here.until_gangs(lambda gangs: {name: gang["state"] for name, gang in gangs.items()} == wanted)

    return settle


def _runs(here: Playground) -> None:
    _gangs_are(pytorchjob_resnet="Running")(here)
    here.until_said("kubectl get pytorchjobs", "Running")


def _two_of_three_run(here: Playground) -> None:
    """Wait until two of three run: those whose pods the controller has made first."""
    here.until_gangs(lambda gangs: sorted(gang["state"] for gang in gangs.values()) == ["NoRoom", "Running", "Running"])


SETTLED = {
    "kubectl apply -f manifests/examples/clique/two-jobs.yaml": _gangs_are(job_left="Running", job_right="Running"),
    "kubectl apply -f manifests/examples/clique/pair.yaml": _gangs_are(
        job_left="Running", job_right="Running", job_pair="NoRoom"
    ),
    "kubectl delete job left": _gangs_are(job_right="Running", job_pair="Running"),
    "kubectl apply -f manifests/examples/preemption/batch.yaml": _gangs_are(job_nightly="Running"),
    "kubectl apply -f manifests/examples/preemption/urgent.yaml": _gangs_are(job_nightly="NoRoom", job_fix="Running"),
    "kubectl delete job fix": _gangs_are(job_nightly="Running"),
    "kubectl apply -f manifests/examples/kinds/jobset.yaml": _gangs_are(jobset_training="Running"),
    "kubectl apply -f manifests/examples/kinds/pytorchjob.yaml": _runs,
    "kubectl apply -f manifests/examples/kinds/raycluster.yaml": _gangs_are(raycluster_tuning="Running"),
    "kubectl apply -f manifests/examples/kinds/leaderworkerset.yaml": _two_of_three_run,
    **dict.fromkeys(
        (
            "kubectl delete job right pair",
            "kubectl delete job nightly",
            "kubectl delete jobset training",
            "kubectl delete pytorchjob resnet",
            "kubectl delete raycluster tuning",
            "kubectl delete leaderworkerset vllm",
        ),
        _gangs_are(),
    ),
}


def options() -> list[str]:
    """Returns the options with which the page starts its cluster."""
    (start,) = (match[1] for command in commands(PAGE) if (match := _START.match(command.text)))
    return start.split()


def walked(here: Playground) -> str:
    """Returns the page with the present output of its commands. Raises AssertionError when one of them fails."""
    return first_gang.typed(here, PAGE, SETTLED)


def lasting(page: str) -> list[list[str]]:
    """The words of each block that are the same whenever it is typed, sorted.

    The order of words is left out, because the line breaks of a table depend on the widths of its columns.
    """
    return [sorted(" ".join(first_gang.lasting(f"```console\n{block}```")).split()) for block in _BLOCK.findall(page)]


if __name__ == "__main__":
    with playground(ROOT, *options()) as running:
        PAGE.write_text(walked(running))
