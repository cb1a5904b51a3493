"""The faults that must not be: what is put in, and what has to come out. Tests carry `@pytest.mark.case(number)`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Case:
    """One fault."""

    given: str
    expected: str


def _numbered(*cases: tuple[str, str]) -> Mapping[int, Case]:
    return MappingProxyType({number: Case(*texts) for number, texts in enumerate(cases, start=1)})


CASES = _numbered(
    # right KV or none
    ("the same messages again, after an answer of a block and more", "the answer of a cold run"),
    ("a turn after its lease ran out and others filled decode", "computed and right; the miss has its reason"),
    ("decode asks after prefill's own lease ran out", "computed; nothing read late"),
    ("several turns of one conversation at once", "all right, all reused"),
    ("ten conversations at once with one X-Request-Id", "ten leases, no mixing, all released"),
    ("one conversation id, of two tenants and of two clients at once", "nobody gets another's KV"),
    ("a client's own kv_transfer_params", "stripped, served"),
    ("a turn that prefill has cached whole, its decode engine stopped", "answered"),
    ("the same tokens under two adapters, or two images", "no reuse between them"),
    # never worse than no reuse
    ("a read fails: nobody at the owner's address, owner killed, or silent", "answered and right; then reused again"),
    ("prefill or decode without bidirectional transfer", "served, said once"),
    ("prefill fails or breaks off; none is left; no decode is left", "another, or decode alone; 503 at once"),
    ("odd kv_transfer_params straight to decode", "served; no block stays"),
    ("a conversation of 40 tokens", "neither read nor kept"),
    ("conversation ids that are a number, {}, empty, 10 kB, or have a NUL", "400, or no reuse; none shared"),
    ("a streamed first turn", "leased; the second turn reuses it"),
    ("a generation that fails on decode", "another decode, or 5xx; never 200 without content"),
    ("the registry away for longer than a session lasts", "all served; engines and live leases are back"),
    ("the registry frozen, its connections alive", "all served after a bounded wait"),
    ("twenty second turns without a registry", "all answered; no request left waiting"),
    # no leak
    ("the gateway killed after a turn", "no block held beyond the lease"),
    ("clients that leave at any moment, during a read too", "no block stays, on neither engine"),
    ("a second turn that engines refuse", "the refusal is passed on; no block stays"),
    ("a turn that ends on the client's stop string", "served; what is promised is held"),
    ("a full decode pool of kept conversations, and a new one", "served at once; the least valuable lease goes"),
    ("an engine's KV is to be dropped while it has leases", "its leases can be released first"),
    # leases and time
    ("a registry that answers 3 s late, leases of 5 s", "readers stop early, owners free late"),
    ("a renewal is lost", "the lease lives on"),
    ("owner, reader and registry with clocks of other epochs", "lengths of leases unchanged"),
    ("the registry started again", "no lease lives longer than its owner knows"),
    ("decode paused for twice its session, then continued", "leases gone; back by itself; reused again"),
    ("the registry started again within a heartbeat", "engines notice and announce; reused again"),
    ("decode killed just before the request is sent there", "another serves; the dead one's leases stay dead"),
    ("a flood of look-ups while leases are renewed", "no lease lost"),
    ("the program around a client, or an engine, blocked for twice the ttl", "renewals go on"),
    # routing and HTTP
    ("twenty conversations with one system prompt and no id", "spread over the decode engines"),
    ("the usage of a second turn", "cached_tokens are those that prefill did not compute"),
    ("a stream through the gateway", "each event at once, unchanged but for its usage"),
    ("every documented way to start a service", "it works"),
    # gRPC
    ("the registry created again at another address", "the next call succeeds, nobody is started again"),
    ("5,000 streams opened and cancelled", "no tasks left, memory flat"),
    ("SIGTERM with ten open streams", "NOT_SERVING first, then gone within its grace"),
    ("a handle of 128 k tokens, a list of 1,000, a very long error", "all arrive"),
    ("a process that forks; engines of two ranks", "no hang"),
    ("grpcurl lists, describes and calls", "it works, with version 1.8.6"),
)
