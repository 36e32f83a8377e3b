"""Muster and other schedulers on the jobs of a trace or scenario, with the control plane collapsed."""
