"""One workload: its members and slots, its job, its release, and what it has failed at."""
