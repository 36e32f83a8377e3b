"""Preemption as pure decisions: which workloads may be evicted, and which are chosen."""
