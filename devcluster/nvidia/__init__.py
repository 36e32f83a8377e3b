"""A stand-in for NVIDIA's DRA driver: GPUs and IMEX channels as devices of nodes, and a controller of ComputeDomains.

There is no GPU here and no kubelet that prepares a claim. The stand-in follows the driver's documented protocol
(dra-driver-nvidia-gpu 0.5, August 2026) towards the API server, and kube-scheduler allocates as it does anywhere.
"""

from devcluster.nvidia.driver import NvidiaDriver

__all__ = ["NvidiaDriver"]
