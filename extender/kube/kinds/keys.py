"""The keys that a job is managed by: what its author says, and what Muster writes on it and on its pod templates."""

QUEUES = ("kueue.x-k8s.io/queue-name", "muster.dev/queue-name")
"""Labels. The value means nothing yet: a job that names a queue is managed."""
GANG = "muster.dev/gang"
"""``true``: it is managed; ``false``: it is left alone, even if it names a queue."""
HOLD = "muster.dev/hold"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Kueue's annotation for the least number of pods with which a Job starts."""

PLAN = "muster.dev/plan"
"""On the job, while it is admitted: the node of each slot (``plan.py``)."""
OWN = "muster.dev/own"
"""On the job: what its author had written in its pod templates where Muster writes, by template (``template.py``)."""
WORKLOAD = "muster.dev/workload"
"""On each pod template, and so on each pod: the UID of the job. The maker of a pod may be a Job of a JobSet."""
LED = "muster.dev/led"
"""A label of a pod template that leads its pods, and says how: admission policies leave those pods alone that need
nothing of them, which costs the API server nothing where a selector says so."""
LED_BY_AFFINITY, LED_BY_INDEX = "true", "index"
PODSET = "muster.dev/podset"
INDEX_LABEL = "muster.dev/index-label"
"""On a pod template of a kind of the settings: which podset its pods are, and which label has the index of each."""
COMPONENT = "muster.dev/component"
"""For the pods of an AppWrapper: the number of the component that they are made of."""
NODES = "muster.dev/nodes"
"""On a pod template: the nodes by index, joined with commas, and those of the Jobs of a JobSet joined with semicolons.
The admission policy reads it, and takes it off the pods."""
