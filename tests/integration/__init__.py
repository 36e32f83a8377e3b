"""Muster on a real control plane with the real controllers of jobs."""
