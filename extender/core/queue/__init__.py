"""Who is next, and the plan of one workload."""
