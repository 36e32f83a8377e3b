"""Queue objects as they are read, and the status and records that Muster writes on them."""
