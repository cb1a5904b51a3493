"""An engine as the servers see it, for as long as a benchmark needs it: a session, leases, prompts to claim with."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import grpc
from google.protobuf.duration_pb2 import Duration

from benchmarks.codec.handle import Given
from kvlease.v1 import lease_pb2, registry_pb2
from kvlease.v1.registry_pb2_grpc import RegistryServiceStub

MODEL = "model"
BLOCKS = 1 << 40  # so many that no budget is ever short
BOUNDARIES = 64
ANNOUNCED = 256
TIMEOUT = 10.0


@dataclass(slots=True)
class Engine:
    """One session."""

    stub: RegistryServiceStub
    given: Given
    ref: lease_pb2.EngineRef
    credential: registry_pb2.SessionCredential = field(init=False)
    number: int = 0

    def open(self, role: registry_pb2.EngineRole.ValueType) -> None:
        """Opens the session, and lets the registry know that it was told so."""
        engine = registry_pb2.Engine(
            ref=self.ref,
            role=role,
            models=[MODEL],
            http_url="http://127.0.0.1:1",
            vllm_version="0",
            kv_layout="layout",
            block_size=16,
            total_blocks=BLOCKS,
            digest_key_id=self.given.key.key_id,
            bidirectional=True,
        )
        request = registry_pb2.OpenSessionRequest(engine=engine)
        self.credential = self.stub.OpenSession(request, timeout=TIMEOUT).credential
        self.beat()

    def beat(self) -> None:
        """Keeps the session alive, and its promise to readers."""
        for _ in range(2):  # the second tells that the first was answered
            self.number = self.stub.Heartbeat(self.heartbeat(), timeout=TIMEOUT).number

    def heartbeat(self) -> registry_pb2.HeartbeatRequest:
        load = registry_pb2.EngineLoad(running=8, free_blocks=BLOCKS // 2)
        return registry_pb2.HeartbeatRequest(credential=self.credential, received_number=self.number, load=load)

    def grant(self, name: str, conversation: str) -> registry_pb2.GrantLeaseRequest:
        """A lease on a history of the given length."""
        handle = lease_pb2.Handle()
        handle.CopyFrom(self.given.message)
        handle.engine.CopyFrom(self.ref)
        return registry_pb2.GrantLeaseRequest(
            credential=self.credential,
            lease_id=name,
            kind=lease_pb2.LEASE_KIND_DECODE,
            conversation=key(conversation),
            ticket_id=f"ticket-{name}",
            handle=handle,
            stop_reason=lease_pb2.STOP_REASON_TOOLS_CALLED,
        )

    def hold(self, conversations: Sequence[str]) -> None:
        """Holds a lease of each, announced many at a time, which is faster than granting."""
        for start in range(0, len(conversations), ANNOUNCED):
            leases = [self._held(name) for name in conversations[start : start + ANNOUNCED]]
            self.stub.AnnounceLeases(
                registry_pb2.AnnounceLeasesRequest(credential=self.credential, leases=leases), timeout=TIMEOUT
            )

    def _held(self, conversation: str) -> lease_pb2.Lease:
        given = self.grant(f"lease of {conversation}", conversation)
        return lease_pb2.Lease(
            lease_id=given.lease_id,
            kind=given.kind,
            conversation=given.conversation,
            handle=given.handle,
            stop_reason=given.stop_reason,
            remaining=Duration(seconds=480),
        )

    def claim(self, name: str, conversation: str) -> registry_pb2.ClaimLeaseRequest:
        """A claim of the next turn's prompt, which begins with that history."""
        chain = self.given.chain
        whole = len(chain.digests) // 8
        strides = range(max(1, whole - BOUNDARIES), whole)
        digests = b"".join(chain.digests[8 * (i - 1) : 8 * i] for i in strides)
        branch = registry_pb2.BranchTarget(
            conversation=key(conversation), key_id=chain.key_id, stride=chain.stride, strides=strides, digests=digests
        )
        return registry_pb2.ClaimLeaseRequest(credential=self.credential, claim_id=name, branch=branch)

    def finish(self, name: str) -> registry_pb2.FinishClaimRequest:
        outcome = registry_pb2.READ_OUTCOME_USED
        return registry_pb2.FinishClaimRequest(
            credential=self.credential, claim_id=name, outcome=outcome, tokens=24_000
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """A prefill engine, which reads, and a decode engine, which owns."""

    reader: Engine
    owner: Engine

    @classmethod
    def on(cls, channel: grpc.Channel, given: Given) -> "Pair":
        """Opens both sessions at a registry."""
        roles = (("prefill-0", registry_pb2.ENGINE_ROLE_PREFILL), ("decode-0", registry_pb2.ENGINE_ROLE_DECODE))
        stub = RegistryServiceStub(channel)
        refs = [lease_pb2.EngineRef(engine_id=name, incarnation=secrets.token_hex(6)) for name, _ in roles]
        pair = cls(*(Engine(stub, given, ref) for ref in refs))
        for engine, (_, role) in zip((pair.reader, pair.owner), roles, strict=True):
            engine.open(role)
        return pair

    def beat(self) -> None:
        self.reader.beat()
        self.owner.beat()


def key(conversation: str) -> lease_pb2.ConversationKey:
    return lease_pb2.ConversationKey(tenant="default", conversation_id=conversation)
