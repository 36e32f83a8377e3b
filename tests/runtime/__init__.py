"""The driver and the event loop: which write goes out when, and what follows from its outcome."""
