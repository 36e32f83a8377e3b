"""Carries out what the core asks for: one pure driver, run by the event loop of ``Runner`` and by the simulator."""
