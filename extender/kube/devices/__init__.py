"""Read the devices of Kubernetes (``resource.k8s.io/v1``): slices, classes, claims and templates of claims."""
