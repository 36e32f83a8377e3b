"""One workload: its members and slots, what it asks of the planner, what it has failed at, and what is said of it."""
