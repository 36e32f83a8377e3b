"""The way to the API server: where it is, as whom it is asked, and bytes out and in."""
