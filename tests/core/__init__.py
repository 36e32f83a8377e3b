"""Scripts of events with the effects that they must have, for each part of the core."""
