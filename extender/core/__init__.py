"""The core: a state machine, `Engine.handle(event, now) -> effects`, without clock, network or task."""
