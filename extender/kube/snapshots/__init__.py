"""A cluster in one file: what is kept of each object, and pseudonyms for its names."""
