"""The keys that a job is managed by: what its author says, and what Muster writes on it and on its pod templates."""

MISSPELT_QUEUE = "kueue.sh/queue-name"
"""As tutorials print it."""
QUEUES = ("kueue.x-k8s.io/queue-name", "muster.dev/queue-name", MISSPELT_QUEUE)
"""Labels that name the LocalQueue of a job, which is managed by that, or of a gang of pods."""
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
"""A label of a job: the WorkloadPriorityClass whose value is its priority, waiting and running."""
GANG = "muster.dev/gang"
"""``true``: it is managed; ``false``: it is left alone, even if it names a queue."""
HOLD = "muster.dev/hold"
REQUEUED_AT = "muster.dev/requeued-at"
"""On a job, by people (`muster requeue`): an instant. What is remembered of attempts that have failed is forgotten when
it changes."""
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Kueue's annotation for the least number of pods with which a Job starts."""

PLAN = "muster.dev/plan"
"""On the job, while it is admitted: the node of each slot, or until when nodes are awaited (``kinds/plan.py``)."""
FLAVORS = "muster.dev/flavors"
"""On the job, until it has stopped: the flavor of each resource, by podset (``kinds/plan.py``)."""
IN_VAIN = "muster.dev/nodes-in-vain"
"""On a suspended job whose nodes did not come: how long it rests (``kinds/plan.py``). It comes off with its next
start."""
OWN = "muster.dev/own"
"""On the job: what its author had written in its pod templates where Muster writes, by template
(``kinds/template.py``)."""
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
NODE_LABELS = "muster.dev/node-labels"
"""On a pod template of a job that was let go, where no node selector can be written and taken off again: the labels of
its nodes. The admission policy makes them the node selector of the pods."""
