"""A cluster in one file: what is kept of each object, and names that tell nothing of their owner."""
