"""Facts about Kubernetes: each is a test on a real control plane, and tests/facts/all.md is made from them."""
