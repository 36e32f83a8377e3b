"""Requests of pods of real manifests, and the nodes, of 22, on which kube-scheduler 1.37.2 lets them: Muster agrees."""
