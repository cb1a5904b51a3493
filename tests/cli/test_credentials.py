"""`kvlease certs dev` and `kvlease keys new`."""

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from kvlease.cli.__main__ import main
from kvlease.rpc import Role, keys

Capture = pytest.CaptureFixture[str]


def names(certificate: Path) -> x509.SubjectAlternativeName:
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    return found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_everybody_gets_a_certificate_that_says_who_it_is(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "certs"

    code = main(("certs", "dev", str(folder), "--host", "router.example", "--engine", "10.0.0.1:5600", "--tenant", "a"))

    assert code == 0
    made = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert made == [
        *("registry.pem", "router.pem", "gateway.pem", "operator.pem"),
        *("engine-10.0.0.1%3A5600.pem", "application-a.pem"),
    ]
    router, engine = names(folder / "router.pem"), names(folder / made[4])
    assert router.get_values_for_type(x509.DNSName) == ["localhost", "router.example"]
    assert engine.get_values_for_type(x509.UniformResourceIdentifier) == [
        "spiffe://kvlease.test/kvlease/engine/10.0.0.1%3A5600"
    ]
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_certificates_are_believed_by_those_who_look_closely(tmp_path: Path) -> None:
    assert main(["certs", "dev", str(tmp_path)]) == 0

    authority, gateway = (
        x509.load_pem_x509_certificate((tmp_path / f"{x}.pem").read_bytes()) for x in ("ca", "gateway")
    )
    strict = PolicyBuilder().store(Store([authority])).build_server_verifier(x509.DNSName("localhost"))
    assert strict.verify(gateway, []) == [gateway, authority]


def test_a_ca_that_is_there_is_kept_and_all_else_issued_anew(tmp_path: Path) -> None:
    arguments = ("certs", "dev", str(tmp_path))
    main(arguments)
    ca, router = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "router.pem").read_bytes()

    main(arguments)

    assert (tmp_path / "ca.pem").read_bytes() == ca
    assert (tmp_path / "router.pem").read_bytes() != router


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()

    assert main(("certs", "dev", str(tmp_path / "file"))) == 1
    assert "file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "role", "tenant", "engine"),
    [
        ((), Role.APPLICATION, "default", ""),
        (("--tenant", 'te"am'), Role.APPLICATION, 'te"am', ""),
        (("--role", "engine", "--engine", "d0"), Role.ENGINE, "", "d0"),
        (("--role", "operator"), Role.OPERATOR, "", ""),
    ],
)
def test_a_key_is_written_for_the_file_and_shown_beside_it(
    arguments: tuple[str, ...], role: Role, tenant: str, engine: str, capsys: Capture
) -> None:
    assert main(("keys", "new", *arguments)) == 0

    told = capsys.readouterr()
    token = told.err.split()[-1]
    assert token not in told.out
    key = keys.parse(told.out, "keys.toml").find(token)
    assert key is not None
    assert (key.role, key.tenant, key.engine) == (role, tenant, engine)


def test_a_key_that_makes_no_sense_is_refused(capsys: Capture) -> None:
    assert main(("keys", "new", "--role", "router", "--engine", "d0")) == 2
    assert "engine id" in capsys.readouterr().err
