"""Why a turn reused what it did, in words. Pure: from what a router and a registry tell, to what people can act on."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvlease.cli.output import length
from kvlease.client.types import Engine, EngineRole, PrefillState, Ticket, TicketState
from kvlease.connector.prefix import STRIDE

SMALL = f"a prompt and its answer of less than {STRIDE} tokens together are not kept"

REUSED, PARTLY, NOT_REUSED, UNKNOWN = "reused", "partly reused", "not reused", "not known"
ALONE = "on decode alone"

_WAIT = "give it more time (KVLEASE_WAIT of the engine), or find out why registry or router are slow to answer it"
_REACH = "see the engine's log: KVLEASE_REGISTRY and KVLEASE_ROUTER must be reachable from where it runs"
_FLAG = 'start it with "bidirectional_kv_xfer": true in kv_connector_extra_config'
_SAME = "send the earlier messages exactly as they were, the assistant's included: what was changed cannot be reused"
_LAST = "nothing that changes (a date, an id) may come before the history"
ONE_ID = "give each engine its own KVLEASE_ENGINE_ID, or leave it out"
_ROOM = "more KV memory for decode, or a larger --retention of the registry"
_MAY_BE = "it expired unrenewed, was ended or revoked, went for others, or there was no room for it"
WHO_KNOWS = (
    "`kvlease watch` tells which while it happens, as does the registry's log with --debug; decode's log "
    "tells of refused grants. Hold the conversation while tools run (`client.conversation()`), and compare the time "
    "above with --answered-ttl and --tools-ttl of the registry"
)

REASONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "FIRST_TURN": ("nothing was kept: the first turn, or the first that this router knows of", ""),
        "NO_LEASE": ("no decode engine kept the conversation any more", ""),
        "NO_MATCH": ("the prompt does not begin like what was kept", f"{_SAME}; {_LAST}"),
        "LEASE_NOT_FOUND": ("the lease went away while it was asked for", ""),
        "FOUND_LOCALLY": ("prefill's own prefix cache had as much", ""),
        "OWN_LEASE": ("the engine itself keeps it: its prefix cache has what can be had", ""),
        "BELOW_THRESHOLD": (
            "fewer tokens could be read than are worth a read",
            "normal for short histories; `kv_recompute_threshold` of the prefill engine sets the limit",
        ),
        "WAIT_OVER": ("the claim was not answered within the wait", _WAIT),
        "ROUTER_SILENT": ("the router did not prove the ticket in time", _WAIT),
        "UNREACHABLE": ("the engine could not reach registry or router", _REACH),
        "NO_SESSION": ("the engine has no session with the registry", _REACH),
        "SESSION_NOT_FOUND": ("the registry has forgotten the engine", _REACH),
        "PROMISE_TOO_SHORT": (
            "the engine that keeps it has been silent for too long to promise it",
            "see why its heartbeats are late: is it overloaded, or its network?",
        ),
        "TICKET_FORGED": (
            "the ticket was not signed by this deployment's routers",
            "give all routers the same --ticket-key, and engines and gateways the same routers",
        ),
        "TICKET_NOT_FOUND": ("the turn was over before prefill asked for it", ""),
        "INCARNATION_MISMATCH": ("the engine has been started again since the turn was routed", ""),
        "DIGEST_KEY_DIFFERS": (
            "the engines digest tokens with different keys",
            "set the same KVLEASE_DIGEST_KEY on all engines",
        ),
        "FORMAT_UNKNOWN": (
            "the engines' connectors do not understand each other",
            "install the same version of kvlease on all engines",
        ),
        "BODY_UNREADABLE": (
            "the engines' connectors do not understand each other",
            "install the same versions of kvlease and vLLM on all engines",
        ),
        "READ_FAILED": (
            "the read from decode failed",
            "see prefill's log; is decode's side channel (VLLM_NIXL_SIDE_CHANNEL_HOST) reachable from prefill?",
        ),
        "NOT_BIDIRECTIONAL": ("the prefill engine does not read KV back", _FLAG),
        "PREFILL_FAILED": (
            "prefill failed, and decode computed the prompt",
            "the gateway's log says what prefill answered, or that it could not be reached (KVLEASE_HTTP_URL)",
        ),
        "READ_LATE": ("the read took longer than its claim", "see why reads are slow: network, or UCX's choice of it"),
        "READ_GIVEN_UP": ("the scheduler went on without the read", "see prefill's log"),
        "NOT_READ": ("the request ended before anything was read", ""),
        "ABORTED": ("the request was aborted", ""),
        "FAULT": ("a fault of the connector", "see prefill's log, and report it"),
        "INTERNAL": ("a fault of registry or router", "see its log, and report it"),
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a turn's prompt. *advice* is empty where nothing is to be done."""

    outcome: str
    why: str
    advice: str = ""


def judge(turn: Ticket, before: Ticket | None, engines: Mapping[str, Engine]) -> Verdict:
    """Judges a turn by its record, that of the turn *before* it in its conversation, and the engines of now, by id."""
    if not turn.terms.conversation_id:
        return Verdict(NOT_REUSED, "the request named no conversation", "send `conversation_id`, or X-Conversation-ID")
    if turn.terms.prefill is None:
        why = f"no prefill engine took part: decode computed what its own prefix cache did not have: {turn.decision}"
        return Verdict(ALONE, why, _about_decode_only(turn, engines))
    report = turn.report
    if report is None:
        return _without_report(turn)
    had = report.local_tokens + report.reused_tokens
    if report.reused_tokens:
        return _reused(turn, had)
    if report.miss_reason:
        return _missed(turn, before, engines, report.miss_reason, had)
    return _silent(turn, engines)


def prefill_failed(turn: Ticket) -> bool:
    """Whether its prefill failed; that of a turn that was taken back ended with it."""
    return turn.prefill_state is PrefillState.FAILED and turn.state is not TicketState.CANCELLED


def _reused(turn: Ticket, had: int) -> Verdict:
    short = turn.leased_tokens - had
    if short <= 0:
        return Verdict(REUSED, "all that was kept")
    kept = f"{had} of the {turn.leased_tokens} tokens that were kept"
    if turn.report and turn.report.prompt_tokens - had < STRIDE:
        why = f"{kept}, in steps of {STRIDE}: the prompt ends within the next, as when a question is asked anew"
        return Verdict(PARTLY, why)
    return Verdict(PARTLY, f"{kept}: the prompt differs from about token {had} on", _SAME)


def _missed(turn: Ticket, before: Ticket | None, engines: Mapping[str, Engine], reason: str, had: int) -> Verdict:
    why, advice = REASONS.get(reason, (f"the engine says {reason}", ""))
    if reason == "NO_LEASE":
        small = before and turn.report and turn.report.prompt_tokens <= STRIDE
        why, advice = (f"nothing was kept: {SMALL}", "") if small else _no_lease(turn, before, engines)
    if reason == "BELOW_THRESHOLD" and had:
        return Verdict(REUSED, f"prefill's own prefix cache had {had} tokens, and the rest is not worth a read")
    if reason == "FOUND_LOCALLY" or (turn.leased_tokens and had >= turn.leased_tokens):
        return Verdict(REUSED, why, advice)
    return Verdict(NOT_REUSED, why, advice)


def _no_lease(turn: Ticket, before: Ticket | None, engines: Mapping[str, Engine]) -> tuple[str, str]:
    if turn.leased_tokens:
        return "the lease went away between routing and prefill", ""
    if before is None:
        return REASONS["FIRST_TURN"]
    silence = before.age - turn.age
    told = f"nothing was kept {length(silence)} after the turn before: "
    if before.state is not TicketState.COMPLETED:
        return f"{told}that is {before.state}", ""
    return _gone(told, before, engines)


def _gone(told: str, before: Ticket, engines: Mapping[str, Engine]) -> tuple[str, str]:
    """Says what is certain of a lease that should be there; or what it may be, and who knows."""
    ref = before.terms.decode
    decode = engines.get(ref.engine_id)
    if decode is None:
        return f"{told}{ref.engine_id} is gone", "see whether it runs, and reaches the registry"
    if decode.rival_http_url:
        return f"{told}{ref.engine_id} is announced by two processes, of which each displaces the other", ONE_ID
    if decode.ref != ref:
        return f"{told}{ref.engine_id} was started again since", ""
    if not decode.bidirectional:
        return f"{told}{ref.engine_id} keeps nothing", _FLAG
    room = decode.retention_budget_blocks * decode.block_size
    if before.report and room < before.report.prompt_tokens:
        return f"{told}{ref.engine_id} may keep {room:,} tokens, and the conversation had more", _ROOM
    return f"{told}{_MAY_BE}", WHO_KNOWS


def _about_decode_only(turn: Ticket, engines: Mapping[str, Engine]) -> str:
    if "registry" in turn.decision:
        return "see the router's log: its --registry must be reachable from where it runs"
    others = (engine for name, engine in engines.items() if name != turn.terms.decode.engine_id and engine.healthy)
    if not any(engine.role is not EngineRole.DECODE and turn.model in engine.models for engine in others):
        return 'start a prefill engine for it: "kv_role": "kv_producer"'
    return "have a prefill engine of the same version, layout and digest key; `kvlease doctor --no-requests` tells more"


def _without_report(turn: Ticket) -> Verdict:
    if prefill_failed(turn):
        return Verdict(NOT_REUSED, *REASONS["PREFILL_FAILED"])
    if turn.state is TicketState.ROUTED:
        return Verdict(UNKNOWN, "prefill has not told yet")
    if turn.state is TicketState.CANCELLED:
        return Verdict(UNKNOWN, "the turn was taken back before prefill was done")
    return Verdict(UNKNOWN, f"prefill has told nothing, and the turn is {turn.state}", _REACH)


def _silent(turn: Ticket, engines: Mapping[str, Engine]) -> Verdict:
    """Judges a turn of which prefill did not even ask what there is."""
    prefill = engines.get(turn.terms.prefill.engine_id) if turn.terms.prefill else None
    if prefill is not None and not prefill.bidirectional:
        return Verdict(NOT_REUSED, f"{prefill.ref.engine_id} does not read KV back", _FLAG)
    return Verdict(NOT_REUSED, "prefill did not ask for it", "see prefill's log")
