"""Grants and orders, as an owner gets them."""

from kvlease.v1.lease_pb2 import ConversationKey, Handle, LeaseKind, RetireReason
from kvlease.v1.registry_pb2 import FreeOrder, GrantLeaseRequest, Order


def grant(
    lease_id: str = "l",
    *,
    kind: "LeaseKind.ValueType" = LeaseKind.LEASE_KIND_DECODE,
    conversation: str = "c",
    blocks: int = 4,
) -> GrantLeaseRequest:
    return GrantLeaseRequest(
        lease_id=lease_id,
        kind=kind,
        conversation=ConversationKey(tenant="t", conversation_id=conversation),
        ticket_id="ticket",
        parent_lease_id="parent",
        handle=Handle(request_id="r", block_count=blocks, token_count=64),
    )


def free(lease_id: str = "l") -> Order:
    return Order(lease_id=lease_id, free=FreeOrder(reason=RetireReason.RETIRE_REASON_EXPIRED))


def remaining(lease_id: str, seconds: int) -> Order:
    order = Order(lease_id=lease_id)
    order.remaining.FromSeconds(seconds)
    return order
