"""A certificate authority for one test: it and all it signed are gone with the folder they are in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = timedelta(hours=1)


class Authority:
    """Signs certificates. `certificate` is the file that makes others trust them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        unsigned = _certificate(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = folder / f"{name}.crt"
        self.certificate.write_bytes(unsigned.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, host: str = "127.0.0.1", expired: bool = False) -> tuple[Path, Path]:
        """A certificate for this host and its key, as files; for servers and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        unsigned = (
            _certificate(_named(name), self._name, key, expired=expired)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
            .add_extension(both, critical=False)
        )
        certificate, secret = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(unsigned.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
        return certificate, secret


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    ends = datetime.now(UTC) + (-LIFE if expired else LIFE)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends - 3 * LIFE)
        .not_valid_after(ends)
    )
