"""A cluster in one file: the fields that are kept of each object, and pseudonyms for its names."""
