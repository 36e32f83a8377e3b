"""The queue: which workload is next, and the plan of one workload."""
