"""The decisions of Muster: pure functions over a snapshot of the cluster, with no I/O, clock or logging."""
