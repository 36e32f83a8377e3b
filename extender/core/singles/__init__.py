"""Pods of no gang, and pods of native groups: kube-scheduler places them, and the core leaves them their turn."""
