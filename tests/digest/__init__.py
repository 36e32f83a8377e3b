"""Golden digests: whether the core asks for the same effects as before, whatever its code and its words are now."""
