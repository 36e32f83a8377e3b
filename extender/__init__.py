"""Muster: an HTTP scheduler extender that starts gangs of pods all or none on a stock kube-scheduler."""
