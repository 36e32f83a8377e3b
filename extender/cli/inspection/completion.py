"""Completion in shells: names of gangs, queues, namespaces, states, levels and contexts.

Each function gets the options that were typed before. Where nothing answers, nothing is offered: a shell should neither
wait nor show an error in the middle of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from extender.cli.inspection.names import Known
    from extender.cli.inspection.reach import Muster

AnswerT = TypeVar("AnswerT")
Offer = tuple[str, str]


def gangs(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return names for `muster explain` and the commands that act: gangs, then what makes their pods, then pods."""
    from extender.cli.inspection.kubeconfig import home
    from extender.cli.inspection.names import completions

    known = _known(context)
    kubeconfig, name = context.params.get("kubeconfig"), context.params.get("context")
    offered = completions(known, context.params.get("namespace"), home(kubeconfig, name))
    offers = [offer for offer in offered if offer[0].startswith(incomplete)]
    bare = [offer for offer in offers if "pod/" not in offer[0]]
    return offers if incomplete.partition("/")[1] or not bare else bare


def namespaces(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the namespaces that have gangs."""
    return _starting((workload.namespace for workload in _known(context)), incomplete)


def states(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the states that gangs are in, or all if none answers."""
    from extender.observe.explain.remedies import CODES

    there = [gang.state for gang in _answers(context, lambda muster: muster.gangs())]
    return _starting(there or sorted(CODES), incomplete)


def levels(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the levels of the topology by their short names."""
    return _starting(
        (domain_stock.level for domain_stock in _answers(context, lambda muster: muster.domains())), incomplete
    )


def queues(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return ClusterQueues, cohorts and LocalQueues."""
    every = _answers(context, lambda muster: muster.queues())
    names = (f"{queue.namespace}/{queue.name}" if queue.namespace else queue.name for queue in every)
    return _starting(names, incomplete)


def local_queues(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the LocalQueues of the namespace."""
    from extender.cli.inspection.kubeconfig import home

    where = context.params.get("namespace") or home(context.params.get("kubeconfig"), context.params.get("context"))
    every = _answers(context, lambda muster: muster.queues())
    return _starting((queue.name for queue in every if queue.namespace == where), incomplete)


def contexts(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return the contexts of the kubeconfig."""
    from extender.cli.inspection.kubeconfig import context_names

    return _starting(context_names(context.params.get("kubeconfig")), incomplete)


def _starting(names: Iterable[str], incomplete: str) -> list[Offer]:
    return [(name, "") for name in dict.fromkeys(names) if name.startswith(incomplete)]


def _known(context: typer.Context) -> list[Known]:
    from extender.cli.inspection.names import known_of

    return known_of(_answers(context, lambda muster: muster.gangs()))


def _answers(context: typer.Context, question: Callable[[Muster], list[AnswerT]]) -> list[AnswerT]:
    """Return what Muster answers; nothing if there is no way to it, or it takes too long."""
    from extender.cli.inspection.reach import RefusedError, UnreachableError, reach, way_of

    given = context.params
    try:
        cluster = (given.get(name) for name in ("url", "kubeconfig", "context", "muster_namespace"))
        files = (given.get(name) for name in ("ca_file", "cert_file", "key_file"))
        with reach(way_of(*cluster, *files, quiet=True)) as muster:
            return question(muster)
    except (UnreachableError, RefusedError, OSError):
        return []
