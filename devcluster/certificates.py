"""The cluster's own certificate authority and the certificates it issues; they live and go with its directory."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)
# Kubernetes' own names for its API server, so that a client inside or outside may use any of them.
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class KeyPair:
    """The files of one certificate and its private key, PEM."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates into one directory; `certificate` is what clients trust."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("muster-devcluster")
        extensions = [(x509.BasicConstraints(ca=True, path_length=0), True), (_key_usage(signs=True), True)]
        issued = self._sign(self._name, self._key, extensions)
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(issued.public_bytes(serialization.Encoding.PEM))

    def serving(self, name: str, *services: str) -> KeyPair:
        """A certificate for any server of this cluster on loopback, also under the names of these Services."""
        names: list[x509.GeneralName] = [x509.DNSName(dns) for dns in (*SERVER_NAMES, *services)]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        return self._issue(name, _name(name), [(x509.SubjectAlternativeName(names), False)])

    def client(self, file: str, user: str, group: str | None = None) -> KeyPair:
        """A certificate that makes its holder this Kubernetes user, in this group."""
        return self._issue(file, _name(user, group), [])

    def _issue(self, file: str, subject: x509.Name, extensions: list[tuple[x509.ExtensionType, bool]]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        # Both usages everywhere: etcd checks its own serving certificate as a client certificate too.
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issued = self._sign(subject, key, [*extensions, (usages, False), (_key_usage(signs=False), True)])
        pair = KeyPair(self._directory / f"{file}.crt", self._directory / f"{file}.key")
        pair.certificate.write_bytes(issued.public_bytes(serialization.Encoding.PEM))
        write_private_key(pair.key, key)
        return pair

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extensions: list[tuple[x509.ExtensionType, bool]]
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


def service_account_key(directory: Path) -> Path:
    """The key that signs ServiceAccount tokens, in a file of its own."""
    path = directory / "service-account.key"
    write_private_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path


def write_private_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def _name(user: str, group: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """The key usages that OpenSSL demands, in strict checks, of an authority (``signs``) and of issued certificates."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
