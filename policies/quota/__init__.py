"""Quota: how much of each flavor a queue may use, what queues lend to each other, and which queue is next.

``tree.py`` has the quota of queues and cohorts, ``flavors.py`` the choice for one workload. The order between queues
is one of ``shares.py``, ``proportion.py`` and ``drf.py``. ``volcano.py`` reads Volcano's Queues into the same tree.
"""
