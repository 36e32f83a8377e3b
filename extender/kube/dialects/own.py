"""Muster's own words: they need no object in the cluster."""

from __future__ import annotations

from extender.kube.dialects.words import Words
from policies.model import Dialect

POD_GROUP = "muster.dev/pod-group"
MIN_MEMBER = "muster.dev/min-member"
MARKS = (POD_GROUP, MIN_MEMBER)
"""What Muster writes itself on the pods of a job that it has planned as a whole."""

WORDS = Words(Dialect.ANNOTATION, (POD_GROUP,), (MIN_MEMBER,))
