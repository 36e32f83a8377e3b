"""A bearer token in a file that is replaced from time to time."""

from __future__ import annotations

from pathlib import Path

from kubernetes.aio.client import Configuration


class TokenFile:
    """A bearer token in a file that somebody else renews: a kubelet, or ``muster token``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def refresh(self, configuration: Configuration) -> None:
        """A hook of the configuration, called before every request: a look at the file takes 2 us.

        While it cannot be read the last token is used, which may be good for a while; the API server says when not.
        """
        try:
            found = self._path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return
            token = self._path.read_text().strip()
        except (OSError, ValueError):
            return
        if token:
            configuration.api_key["BearerToken"] = f"Bearer {token}"
            self._seen = seen
