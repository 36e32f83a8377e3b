"""Victims for a workload without room: candidates, protection, cost, and whether the whole plan fits afterwards.

``candidates.py`` has the workloads that may be evicted, ``allowed.py`` and ``reclaim.py`` the rules that protect them.
``victims.py`` searches the domains that can be made to hold the plan, best first (``domains.py``). In each it chooses
the cheapest candidates (``cheapest.py``): by sums if these are enough, else by the placement itself.
"""
