"""Commands that act on one workload, with the rights of who types them: hold, resume, requeue, evict."""
