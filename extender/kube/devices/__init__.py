"""Devices of Kubernetes (``resource.k8s.io/v1``), read: slices, classes, claims and templates of claims."""
