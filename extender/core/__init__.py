"""The core: events in, effects out. It knows no clock, no network and no task; ``now`` is always an argument."""
