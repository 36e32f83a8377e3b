"""The words of Volcano: pods name a PodGroup of ``scheduling.volcano.sh/v1beta1``, and which of its tasks they are
(volcano.sh/apis, scheduling/v1beta1/labels.go, batch/v1alpha1/labels.go)."""

from __future__ import annotations

from extender.kube.dialects.words import Words
from policies.model import Dialect

GROUP_NAME = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_NAME = "scheduling.volcano.sh/group-name"
TASK_SPEC = "volcano.sh/task-spec"

WORDS = Words(Dialect.VOLCANO, (GROUP_NAME, VOLCANO_GROUP_NAME), role=TASK_SPEC)
