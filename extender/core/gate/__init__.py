"""From a plan to Bindings: steer kube-scheduler, hold bind requests, release a whole gang, or revoke its plan."""
