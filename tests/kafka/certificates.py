"""A key with its own certificate for 127.0.0.1, as a broker reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "changeit"


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write the key with its certificate, which `PASSWORD` protects, and the certificate alone; the paths of both."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=2))
    certificate = builder.add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
    ).sign(key, hashes.SHA256())
    keys, alone = folder / f"{name}.p12", folder / f"{name}.pem"
    protected = BestAvailableEncryption(PASSWORD.encode())
    keys.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, protected))
    alone.write_bytes(certificate.public_bytes(Encoding.PEM))
    return keys, alone
