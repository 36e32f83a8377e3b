"""`muster release`: what waits goes back to how its author wrote it."""
