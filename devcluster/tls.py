"""The TLS settings of a client of this cluster: trust its authority alone, show a client certificate."""

import ssl
from pathlib import Path

from devcluster.certificates import KeyPair


def client_context(authority: Path, pair: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(pair.certificate, pair.key)
    return context
