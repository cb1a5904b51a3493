"""A certificate authority in a folder, for development: what it issues says who a process is, by a SPIFFE id."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DOMAIN = "kvlease.test"
_BACKDATED = timedelta(minutes=5)  # for clocks that are behind


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates into its folder."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def open(cls, folder: Path, *, life: timedelta) -> Self:
        """Returns the folder's authority; makes one, good for *life*, where there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
            key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
        except FileNotFoundError:
            return cls._make(folder, life)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{folder / 'ca.key'} is no key of an authority that was made here")  # noqa: TRY004
        return cls(folder, certificate, key)

    @classmethod
    def _make(cls, folder: Path, life: timedelta) -> Self:
        key, name = ec.generate_private_key(ec.SECP256R1()), _name("kvlease development CA")
        certificate = (
            _builder(name, name, key, key, life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(folder / "ca", certificate, key)
        return cls(folder, certificate, key)

    def issue(self, file: str, path: str, hosts: Sequence[str], *, life: timedelta) -> None:
        """Writes `FILE.pem` and `FILE.key`: a process whose id ends in *path*, and which is reached at *hosts*."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.UniformResourceIdentifier(f"spiffe://{DOMAIN}/kvlease/{path}"), *map(_host, hosts)]
        certificate = (
            _builder(_name(file), self.certificate.subject, key, self.key, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        _write(self.folder / file, certificate, key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    life: timedelta,
) -> x509.CertificateBuilder:
    """Names both keys by their digests: Python believes no chain without, from 3.13 on."""
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _BACKDATED,
        not_valid_after=now + life,
    )
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return made.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    ).add_extension(identifier, critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    _replace(path.with_name(f"{path.name}.key"), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    _replace(path.with_name(f"{path.name}.pem"), certificate.public_bytes(Encoding.PEM))


def _replace(path: Path, data: bytes) -> None:
    """Writes a file that nobody else may read, and that is there whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(path)
