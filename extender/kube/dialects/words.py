"""The keys of one project, and the sets of keys of projects that need no code of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from extender.kube.reading.numbering import KAI_SUBGROUP
from extender.kube.reading.objects import Meta
from policies.model import Dialect, Minima


def nothing(_: Meta, __: str) -> None:
    """None: no key keeps Muster from reading the gang."""


class Words(NamedTuple):
    """The keys of one project, each an annotation or a label of a pod.

    ``names``: any of them names the gang.
    ``sizes``: any of them states its minMember; empty if an object does.
    ``role``: states the pod's role in the gang.
    ``naming``: finds the names, if ``names`` alone cannot.
    ``minima``: the minimum of each role of the gang, or why it cannot be read, if pods state it.
    ``refused(meta, name)``: a sentence about what else is stated and not implemented; None if there is nothing.
    """

    dialect: Dialect
    names: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    role: str = ""
    refused: Callable[[Meta, str], str | None] = nothing
    more: tuple[str, ...] = ()
    """Further keys that are read."""
    naming: Callable[[Meta], list[tuple[str, str]]] | None = None
    minima: Callable[[Meta], Minima | str] | None = None

    def named(self, meta: Meta) -> list[tuple[str, str]]:
        """Each name that the pod states, after its key. An empty one names nothing, as in the projects themselves."""
        if self.naming is not None:
            return self.naming(meta)
        return [(key, name) for key in self.names for name in meta.values_of(key) if name]

    @property
    def read(self) -> tuple[str, ...]:
        """Every key that is read."""
        return (*self.names, *self.sizes, *([self.role] if self.role else []), *self.more)


POD_GROUP = "muster.dev/pod-group"
MIN_MEMBER = "muster.dev/min-member"
MARKS = (POD_GROUP, MIN_MEMBER)
"""The keys that Muster itself writes on the pods of a job that it has planned as a whole."""
OWN = Words(Dialect.ANNOTATION, (POD_GROUP,), (MIN_MEMBER,))
"""Muster's own keys, which need no object in the cluster."""

COSCHEDULING_POD_GROUP = "scheduling.x-k8s.io/pod-group"
COSCHEDULING = Words(Dialect.COSCHEDULING, (COSCHEDULING_POD_GROUP,))
"""The coscheduling plugin's keys: pods name a PodGroup of ``scheduling.x-k8s.io/v1alpha1``."""

GROUP_NAME = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_NAME = "scheduling.volcano.sh/group-name"
TASK_SPEC = "volcano.sh/task-spec"
VOLCANO = Words(Dialect.VOLCANO, (GROUP_NAME, VOLCANO_GROUP_NAME), role=TASK_SPEC)
"""Volcano's keys: pods name a PodGroup of ``scheduling.volcano.sh/v1beta1``, and their task
(volcano.sh/apis, scheduling/v1beta1/labels.go, batch/v1alpha1/labels.go)."""

KAI_GROUP_NAME = "pod-group-name"
KAI = Words(Dialect.KAI, (KAI_GROUP_NAME,), role=KAI_SUBGROUP)
"""KAI's keys: pods name a PodGroup of ``scheduling.run.ai/v2alpha2``, and their subgroup. KAI's podgrouper writes both
where it runs."""

KUEUE_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
KUEUE = Words(Dialect.KUEUE, (KUEUE_GROUP_NAME,), (KUEUE_TOTAL_COUNT,))
"""Kueue's keys for groups of plain pods (kueue.sigs.k8s.io/docs/tasks/run/plain_pods).

Kueue admits such a group once all of its pods exist, and removes its gate. Muster starts it as a whole.
"""
