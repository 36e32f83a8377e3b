"""Planted bugs: whether the campaign finds them.

They change what the core hears and what it asks for, or what the driver sends and is answered. None knows a name inside
the core, but for those of ``statuses``: nothing is decided by a status yet.
"""
