"""Certificate authority for servers and clients, valid for one test."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=36_500)


class CertificateAuthority:
    """Issues certificates for servers and clients as PEM files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.secret = ec.generate_private_key(ec.SECP256R1())
        self.ca = self._write("ca", self._certify(self.secret, self.name, ca=True), None)[0]

    def issue(self, name: str, *, until: datetime = UNTIL) -> tuple[Path, Path]:
        """Issue a certificate and its key, replacing earlier ones."""
        secret = ec.generate_private_key(ec.SECP256R1())
        return self._write(name, self._certify(secret, name, until, ca=False), secret)

    def _certify(
        self, secret: Any, name: str, until: datetime = UNTIL, *, ca: bool
    ) -> x509.Certificate:
        try:
            alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            alternative = x509.DNSName(name)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(secret.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(SINCE)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .sign(self.secret, hashes.SHA256())
        )

    def _write(self, name: str, certificate: x509.Certificate, secret: Any) -> tuple[Path, Path]:
        files = self.folder / f"{self.name}-{name}.pem", self.folder / f"{self.name}-{name}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        if secret is not None:
            files[1].write_bytes(
                secret.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
            files[1].chmod(0o600)
        return files
