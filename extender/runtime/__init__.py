"""The driver that carries out what the core asks for: pure, run by the event loop and by the simulator alike."""
