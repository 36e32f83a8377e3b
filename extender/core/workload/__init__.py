"""A workload: its members and slots, its job, its release, and its failures."""
