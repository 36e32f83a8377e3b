"""The way to the API server: its address, credentials, connections, and pages of lists."""
