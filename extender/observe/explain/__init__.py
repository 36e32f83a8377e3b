"""Answers to people's questions: why a gang waits, what would start it, what the domains have left.

Nodes (``inquiry.py``), closed nodes (``opening.py``) and quota (``quota.py``) are each tried on a snapshot or on a copy
of the quota tree before a remedy is named (``remedies.py``): docs/waiting.md.
"""
