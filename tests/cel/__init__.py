"""CEL of admission policies, read without a cluster."""
