"""What becomes of a job that is written to, without its controller: which pods it makes, and what its object says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from extender.core.effects import StartJob
from extender.core.quota.flavoring import of_job
from policies.model import Job, Pod, PodSet
from policies.model.queues import ResourceFlavor


def started(job: Job, effect: StartJob) -> Job:
    return replace(
        job,
        suspended=False,
        stopped=False,
        marked=True,
        plan=dict(effect.plan),
        flavors=effect.flavors or None,
        reservation=None,
    )


def stopped(job: Job) -> Job:
    """It is suspended, its pods are gone, and nothing of Muster's is on it."""
    return replace(
        job,
        suspended=True,
        stopped=True,
        running=False,
        marked=False,
        plan=None,
        flavors=None,
        reservation=None,
    )


def to_come(
    job: Job, there: Sequence[Pod], start: int, flavors: Mapping[str, ResourceFlavor]
) -> Iterator[tuple[Pod, tuple[str, ...]]]:
    """The pods that its plan has a node for, but for those that are there, each with the nodes that it is led to.
    ``start``: a number of this start alone. ``flavors``: all of them; a pod tolerates what its own ones add."""
    for podset in job.podsets.podsets:
        nodes = (job.plan or {}).get(podset.name, ())[: podset.count]
        wanted = [at for at, node in enumerate(nodes) if node and podset.slot(at) not in job.done]
        here = [pod for pod in there if pod.series == podset.name]
        taken = {pod.index for pod in here}
        anywhere = tuple(dict.fromkeys(nodes[at] for at in wanted))
        template = _tolerant(podset.template, job, podset, flavors)
        for at in [at for at in wanted if at not in taken] if podset.indexed else wanted[len(here) :]:
            yield _pod(template, job, podset, at, start), (nodes[at],) if podset.indexed else anywhere


def _tolerant(template: Pod, job: Job, podset: PodSet, flavors: Mapping[str, ResourceFlavor]) -> Pod:
    """With what Muster writes on it: the tolerations of its flavors."""
    added = of_job(flavors, (job.flavors or {}).get(podset.name, {})).tolerations
    tolerations = tuple(dict.fromkeys((*template.selection.tolerations, *added)))
    return replace(template, selection=replace(template.selection, tolerations=tolerations))


def _pod(template: Pod, job: Job, podset: PodSet, at: int, start: int) -> Pod:
    name = "-".join(filter(None, (job.owner.name, podset.name, str(at))))
    index = at if podset.indexed else None
    return replace(template, uid=f"{job.uid}.{start}/{podset.name}/{at}", name=name, index=index)
