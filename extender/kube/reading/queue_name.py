"""The LocalQueue that a workload names, by a label of the job or of a gang's pods, or the Queue of Volcano, by an
annotation."""

from __future__ import annotations

from extender.kube.keys import MISSPELT_QUEUE, QUEUES
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import plain
from policies.model.queues import VOLCANO

OF_VOLCANO = "scheduling.volcano.sh/queue-name"
"""The annotation of jobs and pods that names a Queue of Volcano."""
PODSET_GROUP = "kueue.x-k8s.io/podset-group-name"
"""The annotation of pod templates that groups podsets: podsets with the same value get the same flavors."""
SHOWN = QUEUES[1]
"""The annotation that shows the job's queue on an object in which the job is read."""
TWO_QUEUES = "its labels {} and {} name different queues"
MISSPELT = f"{MISSPELT_QUEUE} is a misspelt {QUEUES[0]}, which Muster reads all the same: write {QUEUES[0]}"

MISSPELT_OF_PODS = f"{MISSPELT} in the pod template"


def queue_of(meta: Meta) -> tuple[str, str]:
    """The queue's name, empty for none, and what contradicts it. An empty label names nothing, as in Kueue."""
    labels = meta.labels
    if not labels:
        return "", ""
    names = [(key, labels[key]) for key in QUEUES if labels.get(key)]
    if not names:
        return "", ""
    key, name = names[0]
    other = next((two for two, another in names if another != name), None)
    return plain(name), "" if other is None else TWO_QUEUES.format(key, other)


def any_queue_of(meta: Meta) -> tuple[str, str]:
    """The queue of a job or pod, and what contradicts it. A Queue of Volcano counts if no LocalQueue is named."""
    name, problem = queue_of(meta)
    return name or of_volcano((meta.annotations or {}).get(OF_VOLCANO)), problem


def of_volcano(name: str | None) -> str:
    """The core's name for a Queue of Volcano."""
    return f"{VOLCANO}{plain(name)}" if name else ""


def shown_queue(meta: Meta) -> str:
    """The queue that the admission policy shows on the object in which a job is read; the job's labels are missing
    there."""
    return plain((meta.annotations or {}).get(SHOWN, ""))


def is_misspelt(meta: Meta) -> bool:
    """Whether a queue is named by the misspelt key, and by no right one."""
    labels = meta.labels or {}
    return bool(labels.get(MISSPELT_QUEUE)) and not any(labels.get(key) for key in QUEUES if key != MISSPELT_QUEUE)
