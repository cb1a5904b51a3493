"""Who may call what: one table of all RPCs. What is not in it, nobody may call."""

from collections.abc import Mapping
from types import MappingProxyType

from kvlease.rpc.identity import Role

REGISTRY = "/kvlease.v1.RegistryService/"
ROUTING = "/kvlease.v1.RoutingService/"

_ENGINE = frozenset({Role.ENGINE})
_FRONT = frozenset({Role.GATEWAY, Role.APPLICATION})
_READERS = _FRONT | {Role.OPERATOR}

ACCESS: Mapping[str, frozenset[Role]] = MappingProxyType(
    {
        REGISTRY + "OpenSession": _ENGINE,
        REGISTRY + "Heartbeat": _ENGINE,
        REGISTRY + "CloseSession": _ENGINE,
        REGISTRY + "AnnounceLeases": _ENGINE,
        REGISTRY + "GrantLease": _ENGINE,
        REGISTRY + "ReleaseLease": _ENGINE,
        REGISTRY + "ReleaseAll": _ENGINE,
        REGISTRY + "ClaimLease": _ENGINE,
        REGISTRY + "RenewClaim": _ENGINE,
        REGISTRY + "FinishClaim": _ENGINE,
        REGISTRY + "EndTurn": _ENGINE | {Role.ROUTER},  # engines: only that they kept nothing
        REGISTRY + "RenewLeases": _FRONT,
        REGISTRY + "EndConversation": _READERS,
        REGISTRY + "RevokeLeases": frozenset({Role.OPERATOR}),
        REGISTRY + "DrainEngine": frozenset({Role.OPERATOR}),
        REGISTRY + "GetLease": _READERS,
        REGISTRY + "ListLeases": _READERS,
        REGISTRY + "LocateConversations": frozenset({Role.ROUTER}),
        REGISTRY + "WatchLeases": _READERS,
        REGISTRY + "ListEngines": _READERS | {Role.ROUTER},
        ROUTING + "Route": _FRONT,
        ROUTING + "ResolveTicket": _ENGINE,
        ROUTING + "PublishPrefill": _ENGINE,
        ROUTING + "CompleteTicket": _FRONT,
        ROUTING + "CancelTicket": _FRONT | _ENGINE,  # prefill's own engine tells that its leg failed
        ROUTING + "GetTicket": _READERS,
        ROUTING + "ListTickets": _READERS,
    }
)
