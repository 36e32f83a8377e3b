"""A model of the control plane, part by part, under a virtual clock."""
