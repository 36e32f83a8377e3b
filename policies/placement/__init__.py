"""A node for every member of a gang: the request, the search over domains, and the rules that it keeps.

``place.py`` takes a ``request.py`` and searches domains (``search.py``, ``capacity.py``) in a ``snapshot.py``. It keeps
the ``rules.py`` of the topology, and says what is lacking (``shortfall.py``) and what closes nodes (``closed.py``).
``fitting.py`` checks a known placement. Roles that compete for the same nodes are counted exactly (``exact.py``).

Pods can make demands on each other: ports, affinity, spread. ``relations.py`` turns them into caps on nodes where that
suffices. Otherwise members are placed one by one as kube-scheduler would (``related.py``, ``one_by_one.py``).
Preferences become scores (``wishes.py``).
"""
