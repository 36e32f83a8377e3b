"""Free TCP ports on 127.0.0.1."""

import random
import socket
from collections import deque

# Below the ports that the kernel gives to outgoing connections. Otherwise such a connection could take a port between
# our look and the moment when a program listens on it.
LOWEST, HIGHEST = 10_000, 32_000
ATTEMPTS = 200
REMEMBERED = 64
"""How many reservations are kept: when the next ones push one out, its program listens on the port already."""

_given: deque[socket.socket] = deque()
"""A socket for each port that this process has given out lately.

While it is open, no other process of a devcluster gives the port out.
"""


def free_port() -> int:
    """Return a port that nothing listened on a moment ago, and that no other caller was given.

    Other programs may still take the port, such as one that chooses its own. Callers retry on a clash.
    """
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
            # Go's listeners do the same: a port whose last connection is still closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on 127.0.0.1 between {LOWEST} and {HIGHEST} in {ATTEMPTS} attempts")
