"""The keys by which pods name their gang, in Muster's words and in those of other projects.

``naming.py`` reads all of them into one GroupRef, and decides whose keys count if a pod has several.
"""

from extender.kube.dialects.naming import NAMES, READ, group_of
from extender.kube.dialects.words import COSCHEDULING_POD_GROUP, MARKS, MIN_MEMBER, POD_GROUP

__all__ = ["COSCHEDULING_POD_GROUP", "MARKS", "MIN_MEMBER", "NAMES", "POD_GROUP", "READ", "group_of"]
