"""Planted bugs: whether the campaign finds them.

None of them knows a name inside the core: they change what it hears and what it asks for, or what the driver sends and
is answered.
"""
