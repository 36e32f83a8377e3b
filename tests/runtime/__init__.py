"""The driver and the event loop: which write is sent when, and the consequences of its outcome."""
