"""Planted bugs: the campaign has to find them.

They change the core's events and effects, or the driver's requests and answers. No bug knows a name inside the core,
except those of ``statuses``: nothing is decided by a status yet.
"""
