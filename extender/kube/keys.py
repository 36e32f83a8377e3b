"""The keys by which a job is managed: what its author writes, and what Muster writes on it and on its pod templates."""

MISSPELT_QUEUE = "kueue.sh/queue-name"
"""The misspelt label that tutorials print."""
QUEUES = ("kueue.x-k8s.io/queue-name", "muster.dev/queue-name", MISSPELT_QUEUE)
"""Labels that name the LocalQueue of a job, which Muster then manages, or of a gang of pods."""
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
"""A label of a job: the WorkloadPriorityClass whose value is the job's priority, waiting and running."""
GANG = "muster.dev/gang"
"""``true``: Muster manages the job; ``false``: Muster leaves it alone, even if it names a queue."""
HOLD = "muster.dev/hold"
REQUEUED_AT = "muster.dev/requeued-at"
"""An instant that people write on a job (`muster requeue`). A new value clears the memory of failed attempts."""
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
"""Kueue's annotation for the least number of pods with which a Job starts."""

PLAN = "muster.dev/plan"
"""Written on an admitted job: the node of each slot, or the deadline for awaited nodes (``kinds/plan.py``)."""
FLAVORS = "muster.dev/flavors"
"""Written on a job until it has stopped: the flavor of each resource, by podset (``kinds/plan.py``)."""
IN_VAIN = "muster.dev/nodes-in-vain"
"""Written on a suspended job whose nodes did not come: how long it backs off (``kinds/plan.py``). The next start
removes it."""
OWN = "muster.dev/own"
"""Written on a job: the author's values in its pod templates where Muster writes (``kinds/template.py``)."""
WORKLOAD = "muster.dev/workload"
"""Written on each pod template, and so on each pod: the UID of the job. The pod's owner may be a Job of a JobSet."""
LED = "muster.dev/led"
"""A label of a pod template that steers its pods, and by which means.

Admission policies select by it, and leave other pods alone. A selector that does not match costs the API server
nothing.
"""
LED_BY_AFFINITY, LED_BY_INDEX = "true", "index"
PODSET = "muster.dev/podset"
INDEX_LABEL = "muster.dev/index-label"
"""Written on a pod template of a kind of the settings: the podset of its pods, and the label that has each pod's
index."""
COMPONENT = "muster.dev/component"
"""Written for the pods of an AppWrapper: the number of the component that they are made of."""
NODES = "muster.dev/nodes"
"""Written on a pod template: the nodes by index, joined with commas; lists of a JobSet's Jobs joined with semicolons.

The admission policy reads it, and removes it from the pods.
"""
NODE_LABELS = "muster.dev/node-labels"
"""Written on a pod template of a job that was started without a plan: the labels that its nodes must have.

It is used where a node selector could not be written and removed again. The admission policy makes the labels the node
selector of the pods.
"""
