"""The real controllers of the kinds of jobs, each built from the Go module of its project and run on a cluster.

`python -m devcluster.controllers jobset` starts a control plane with one of them, to play with.
"""

from devcluster.controllers.catalogue import CATALOGUE, Controller
from devcluster.controllers.install import build_controller, install_crds, start_controller

__all__ = ["CATALOGUE", "Controller", "build_controller", "install_crds", "start_controller"]
