"""The words of KAI-Scheduler: pods name a PodGroup of ``scheduling.run.ai/v2alpha2``, and which of its subgroups they
are in. KAI's podgrouper writes both where it runs."""

from __future__ import annotations

from extender.kube.dialects.words import Words
from extender.kube.reading.numbering import KAI_SUBGROUP
from policies.model import Dialect

POD_GROUP_NAME = "pod-group-name"

WORDS = Words(Dialect.KAI, (POD_GROUP_NAME,), role=KAI_SUBGROUP)
