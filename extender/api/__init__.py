"""The HTTP API as programs see it."""
