"""The commands that act on one workload with the rights of the caller: hold, resume, requeue, evict."""
