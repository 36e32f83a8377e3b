"""Victims for a workload that has no room: candidates, protection, cost, and whether the whole plan fits then.

``candidates.py`` has the workloads that may be evicted, ``allowed.py`` and ``reclaim.py`` the rules that protect them.
``victims.py`` searches the domains that can be made to hold the plan, best first (``domains.py``), and in each the
cheapest candidates (``cheapest.py``): by sums where these tell enough, else by the placement itself.
"""
