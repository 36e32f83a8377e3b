"""A stand-in for NVIDIA's DRA driver: GPUs and IMEX channels as devices of nodes, and a controller of ComputeDomains.

There is no GPU here and no kubelet that prepares a claim. What the driver shows to the API server is played by its
documented protocol (dra-driver-nvidia-gpu 0.5, August 2026), and kube-scheduler allocates as it does anywhere.
"""

from devcluster.nvidia.driver import NvidiaDriver

__all__ = ["NvidiaDriver"]
