"""Kueue's and Volcano's queue objects: follow them, read their quota, write their status and Workload records.

They are read in one of their versions into ``policies.model.queues``, and not while Kueue's controller runs.
"""
