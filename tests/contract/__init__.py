"""Calls that real kube-schedulers have made, as recorded, against the verbs."""
