"""Quota as pure decisions: trees, flavors, shares and orders of queues."""
