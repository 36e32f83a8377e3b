"""The core under a virtual clock, on the jobs of a trace, a scenario or a snapshot: `muster simulate`."""
