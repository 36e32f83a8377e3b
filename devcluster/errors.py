"""The one exception whose text is meant for the user who starts a cluster."""


class ClusterError(Exception):
    """Something outside this code is missing or failed; the message says what and what to do about it."""
