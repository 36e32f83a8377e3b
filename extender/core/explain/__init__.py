"""What people read: why a workload waits, reports of queues and jobs, and hints. Nothing is decided by it."""
