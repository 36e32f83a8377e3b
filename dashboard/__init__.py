"""The dashboard: a process of its own that shows people the cluster as far as their own rights in it allow."""
