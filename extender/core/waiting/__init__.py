"""Who waits: the line, a turn in it, what was found for whom, and what has changed since."""
