"""Faults on a real control plane: what was tried, how often, and what came of it."""
