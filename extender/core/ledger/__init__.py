"""The ledger: what is used and promised (nodes, quota, volumes, devices), what is expected, and what waits."""
