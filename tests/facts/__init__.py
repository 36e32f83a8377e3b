"""Facts about Kubernetes: each is a test on a real control plane, and docs/kubernetes-facts.md is made from them."""
