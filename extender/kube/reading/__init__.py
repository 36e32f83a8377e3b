"""What Kubernetes objects say, read field by field into what the core knows."""
