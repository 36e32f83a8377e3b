"""Kubernetes objects, read field by field into what the core knows."""
