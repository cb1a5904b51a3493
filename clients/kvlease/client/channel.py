"""How the client reaches a server: the target of an address and the options of every channel."""

import json

import grpc
import grpc.aio

from kvlease.client.address import SCHEMES, check
from kvlease.client.errors import Malformed
from kvlease.client.security import Security, Shown

DEFAULT_REGISTRY = "127.0.0.1:7440"
DEFAULT_ROUTER = "127.0.0.1:7441"
WATCH_TIMEOUT = 3600.0
TENANT_KEY = "x-kvlease-tenant"
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # a handle of a million tokens at block size 16 fits many times

OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 64 * 1024),
    # A peer that is gone without a word is noticed within 15 s, also between calls.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A server that comes back is found again within a good second, also at another address.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 1_000),  # in fact gRPC's time limit for one attempt to connect
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ("grpc.service_config_disable_resolution", 1),  # no TXT look-ups
    ("grpc.enable_http_proxy", 0),  # a proxy set for the internet is no way to a control plane
)


def target(address: str) -> str:
    """Gives gRPC's target for an address.

    `host:port` is looked up again whenever a connection is lost. `ip:port,ip:port` is a fixed list of replicas.
    Anything with a gRPC scheme (`dns:///...`, `ipv4:...`, `unix:...`) is taken as it is. Raises Malformed for the rest.
    """
    try:
        check(address)
    except ValueError as error:
        raise Malformed(str(error), violations={"address": str(error)}) from None
    if address.startswith(SCHEMES):
        return address
    if "," in address:
        return ("ipv6:" if address.startswith("[") else "ipv4:") + address
    return f"dns:///{address}"


def open_aio(address: str, shown: Shown, security: Security) -> grpc.aio.Channel:
    """Opens a channel for asyncio."""
    options = OPTIONS + security.options
    if shown.credentials is None:
        return grpc.aio.insecure_channel(target(address), options)
    return grpc.aio.secure_channel(target(address), shown.credentials, options)


def open_sync(address: str, shown: Shown, security: Security) -> grpc.Channel:
    """Opens a channel for threads."""
    options = OPTIONS + security.options
    if shown.credentials is None:
        return grpc.insecure_channel(target(address), options)
    return grpc.secure_channel(target(address), shown.credentials, options)


def metadata(tenant: str) -> tuple[tuple[str, str], ...]:
    """Gives the metadata that names the caller's tenant; the server's default tenant if empty."""
    if not tenant:
        return ()
    if not (tenant.isascii() and tenant.isprintable()):
        raise Malformed("a tenant is printable ASCII", violations={"tenant": "not printable ASCII"})
    return ((TENANT_KEY, tenant),)
