"""The words of the coscheduling plugin (kubernetes-sigs/scheduler-plugins): pods name a PodGroup of
``scheduling.x-k8s.io/v1alpha1``."""

from __future__ import annotations

from extender.kube.dialects.words import Words
from policies.model import Dialect

COSCHEDULING_POD_GROUP = "scheduling.x-k8s.io/pod-group"

WORDS = Words(Dialect.COSCHEDULING, (COSCHEDULING_POD_GROUP,))
