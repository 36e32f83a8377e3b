"""Objects as they are read, written and followed, against a scripted API server."""
