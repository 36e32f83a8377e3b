"""Who gives way to a workload that has no room, and whether the whole of it fits then."""
