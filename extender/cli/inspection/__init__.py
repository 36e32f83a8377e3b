"""The commands that look at a running Muster from outside: `muster explain`, `gangs`, `domains`."""
