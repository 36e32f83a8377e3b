"""Queues and their quota: the objects, whose turn it is, what is used, and with which flavors a workload is planned."""
