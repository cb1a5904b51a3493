"""A keys file with a token for everybody, certificates, and how calls show them."""

from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from kvlease.cli.authority import Authority
from kvlease.client.security import Security
from kvlease.rpc.identity import Role
from kvlease.rpc.keys import hash_of
from kvlease.rpc.tls import Tls

HOSTS = ("localhost", "127.0.0.1")
DAY = timedelta(days=1)


def token_of(role: Role, name: str = "") -> str:
    """Returns the token of a role; *name* is a tenant's or an engine's."""
    return f"kvk_{role.value}_{name}"


def shown(role: Role, name: str = "", tenant: str = "") -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a call that shows a token, and perhaps names a tenant."""
    named = (("x-kvlease-tenant", tenant),) if tenant else ()
    return (("authorization", f"Bearer {token_of(role, name)}"), *named)


def keys_file(folder: Path, *, limits: str = "") -> Path:
    """Writes a keys file: every role, two tenants (a, b) with *limits* behind, two engines (d0, p0)."""
    entries = [_entry(role) for role in Role if role is not Role.APPLICATION]
    entries += [_entry(Role.APPLICATION, tenant=tenant) for tenant in ("a", "b")]
    entries += [_entry(Role.ENGINE, engine=engine) for engine in ("d0", "p0")]
    file = folder / "keys.toml"
    file.write_text("\n".join([*entries, limits]))
    return file


def _entry(role: Role, **names: str) -> str:
    digest = hash_of(token_of(role, "".join(names.values()))).hex()
    lines = [f'sha256 = "{digest}"', f'role = "{role.value}"', *(f'{key} = "{name}"' for key, name in names.items())]
    return "\n".join(["[[keys]]", *lines])


@cache
def certificates() -> Path:
    """Returns a folder of certificates, made once."""
    folder = Path(mkdtemp(prefix="kvlease-certs-"))
    authority = Authority.open(folder, life=DAY)
    for path in ("registry", "router", "gateway", "operator", "engine", "engine/d0", "engine/p0", "application/a"):
        authority.issue(path.replace("/", "-"), path, HOSTS, life=DAY)
    return folder


def tls(name: str, *, mutual: bool = True) -> Tls:
    folder = certificates()
    return Tls(cert=folder / f"{name}.pem", key=folder / f"{name}.key", client_ca=folder / "ca.pem" if mutual else None)


def security(name: str = "") -> Security:
    """Returns what a client shows that has the certificate of that name; empty: none."""
    folder = certificates()
    if not name:
        return Security(ca=folder / "ca.pem")
    return Security(ca=folder / "ca.pem", cert=folder / f"{name}.pem", key=folder / f"{name}.key")
