"""Free TCP ports on 127.0.0.1."""

import random
import socket
from collections import deque

# Below the ports that the kernel gives to outgoing connections, so that none of those can take a port between our look
# and the moment when a program listens on it.
LOWEST, HIGHEST = 10_000, 32_000
ATTEMPTS = 200
REMEMBERED = 64
"""By then whoever was given a port listens there."""

_given: deque[socket.socket] = deque()
"""One for each port that this process has given out lately: while it is open, no other process of ours gives it out."""


def free_port() -> int:
    """A port that nothing listened on a moment ago, and that nobody else was given. Where others may still win it, as
    programs that choose their own, callers retry on a clash."""
    for _ in range(ATTEMPTS):
        port = random.randint(LOWEST, HIGHEST)  # noqa: S311 - not a secret
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0muster-devcluster-port-{port}")
        except OSError:
            name.close()
            continue
        _given.append(name)
        if len(_given) > REMEMBERED:
            _given.popleft().close()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As Go's listeners do: a port whose last connection is still closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on 127.0.0.1 between {LOWEST} and {HIGHEST} in {ATTEMPTS} attempts")
