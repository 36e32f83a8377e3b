"""The words of Kueue's groups of plain pods (kueue.sigs.k8s.io/docs/tasks/run/plain_pods).

Kueue admits such a group when all its pods are there, and takes its gate off; Muster starts it as a whole.
"""

from __future__ import annotations

from extender.kube.dialects.words import Words
from policies.model import Dialect

KUEUE = "kueue.x-k8s.io/"
POD_GROUP_NAME = f"{KUEUE}pod-group-name"
TOTAL_COUNT = f"{KUEUE}pod-group-total-count"

WORDS = Words(Dialect.KUEUE, (POD_GROUP_NAME,), (TOTAL_COUNT,))
