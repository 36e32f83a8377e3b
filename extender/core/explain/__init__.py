"""Texts and reports for people: why a workload waits, and how queues and jobs stand. They decide nothing."""
