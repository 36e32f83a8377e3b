"""Answers to people's questions: why a gang waits, what would start it, what the domains have left.

Remedies (``remedies.py``) are tried in a statement before they are named: nodes (``inquiry.py``), closed nodes
(``opening.py``) and quota (``quota.py``). docs/waiting.md lists the reasons.
"""
