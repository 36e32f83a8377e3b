"""Golden digests: whether the core has the same effects as before, however its code and its words change."""
