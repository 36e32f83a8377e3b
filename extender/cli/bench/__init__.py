"""`muster bench gangs`, and what it shares with `muster loadtest`: measures, thresholds, files, comparison."""
