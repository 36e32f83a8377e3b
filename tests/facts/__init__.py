"""What Kubernetes does: each fact is a test on a real control plane. docs/kubernetes-facts.md is made from them."""
