"""Jobs that are planned before their pods exist: start, upkeep, stop, capacity, and other makers of pods."""
