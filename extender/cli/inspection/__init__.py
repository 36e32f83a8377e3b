"""The commands that look at a running Muster: `muster explain`, `gangs`, `domains`, `queues`, `defrag`."""
