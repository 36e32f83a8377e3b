"""The campaign of faults on a real control plane: what was tried, how often, and how it ended."""
