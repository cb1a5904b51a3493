"""Checks of what runs, and how it was started."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from kvlease.cli.command import CREDENTIALS, ENCRYPTION, HANDSHAKE
from kvlease.cli.diagnosis.finding import Finding, fail, ok, warn
from kvlease.cli.diagnosis.survey import Fault, Service, Survey
from kvlease.cli.output import length
from kvlease.cli.verdict import ONE_ID
from kvlease.client.types import Engine, EngineRole
from kvlease.connector.prefix import DigestKey
from kvlease.connector.settings import DEFAULT_DIGEST_KEY

API_KEY = "pass --api-key-file (KVLEASE_API_KEY) with a key that is in the gateway's --keys"
_FULL = 0.95
_NO_LEASE = "not looked at: no lease of the tenant (--tenant) shows it"
_LOCAL = ("127.0.0.1", "localhost", "::1")
_SAME_REGISTRY = "does it ask the same registry? see the --registry that it was started with"
_PACE = 0.05  # by what share clocks may differ before it is told


def services(survey: Survey) -> Iterator[Finding]:
    """Each answers."""
    for service in survey.services:
        yield _unanswered(service) if service.error else ok(service.name, f"answers at {service.address}")


def _unanswered(service: Service) -> Finding:
    match service.fault:
        case Fault.REFUSED:
            what = f"answers at {service.address}, but refuses you"
            advice = API_KEY if service.name == "gateway" else CREDENTIALS
        case Fault.HANDSHAKE:
            what, advice = f"something listens at {service.address}, but {HANDSHAKE}", ENCRYPTION
        case Fault.OTHER:
            what = f"what answers at {service.address} is no {service.name}, or an older one"
            advice = f"check --{service.name}"
        case Fault.HTTP:
            what = f"what listens at {service.address} is an HTTP server, perhaps the gateway"
            advice = f"check --{service.name}"
        case Fault.SILENT:
            what = f"no answer at {service.address}"
            advice = f"start it (`kvlease up` runs all three), or say where it is with --{service.name}"
    error = service.error.removeprefix(f"no {service.name} answers at {service.address}: ")
    return fail(service.name, f"{what}: {error}", advice)


def presence(survey: Survey) -> Iterator[Finding]:
    """There are engines, they are in time, and what they serve can be routed."""
    if not survey.engines:
        advice = (
            'start vLLM with "kv_connector_module_path": "kvlease.connector.nixl", and KVLEASE_REGISTRY and '
            "KVLEASE_ROUTER in its environment; its log says whether it found them, and whether it waits for its "
            "KVLEASE_HTTP_URL to accept connections"
        )
        yield fail("engines", "none has registered", advice)
        return
    for engine in survey.engines:
        name = engine.ref.engine_id
        if engine.draining:
            yield warn("engines", f"{name} is draining", "nothing, if that is what you want: it takes no new requests")
        elif not engine.healthy:
            what = f"{name} has been silent for {length(engine.silent)}"
            yield warn("engines", what, "see whether it runs, and reaches the registry")
    yield ok("engines", f"{sum(engine.healthy for engine in survey.engines)} of {len(survey.engines)} are healthy")
    if not survey.may_route:
        yield ok(
            "router", "was not asked to route, which your role may not: turns through the gateway show whether it does"
        )
    for model, error in survey.routes.items():
        if error:
            yield fail("router", f"{model} is not routed: {error}", _SAME_REGISTRY)


def rivals(survey: Survey) -> Iterator[Finding]:
    """No two processes announce themselves by one id."""
    for engine in survey.engines:
        if engine.rival_http_url:
            urls = f"{engine.http_url} and {engine.rival_http_url}"
            what = f"{engine.ref.engine_id} was announced by two processes in the last half minute, {urls}"
            yield fail("engine ids", f"{what}: each time what the other kept is lost", ONE_ID)


def roles(survey: Survey) -> Iterator[Finding]:
    """Every model has prefill and decode, and the gateway knows it."""
    for model in _models(survey):
        prefills = _names(_serving(survey, model, EngineRole.PREFILL))
        decodes = _names(_serving(survey, model, EngineRole.DECODE))
        if not decodes:
            advice = 'start an engine for it with "kv_role": "kv_consumer"'
            yield fail("roles", f"no decode engine serves {model}: nobody can answer", advice)
        elif not prefills or prefills == decodes == prefills[:1]:
            advice = 'start another engine for it with "kv_role": "kv_producer"'
            yield fail("roles", f"no prefill engine serves {model}: decode computes every prompt", advice)
        else:
            yield ok("roles", f"{model} has {len(prefills)} for prefill and {len(decodes)} for decode")
        if survey.models is not None and decodes and model not in survey.models:
            yield fail("gateway", f"does not list {model}", _SAME_REGISTRY)


def flags(survey: Survey) -> Iterator[Finding]:
    """Reading back is switched on, on both sides."""
    without = [engine for engine in survey.engines if engine.healthy and not engine.bidirectional]
    advice = 'start them with "bidirectional_kv_xfer": true in kv_connector_extra_config'
    if without:
        kinds = " and ".join(sorted({engine.role.value for engine in without}))
        effect = (
            "nothing is kept" if all(engine.role is EngineRole.DECODE for engine in without) else "nothing is read back"
        )
        yield fail("flags", f"bidirectional_kv_xfer is off on {_listed(without)} ({kinds}): {effect}", advice)
    elif survey.engines:
        yield ok("flags", "bidirectional_kv_xfer is on everywhere")


def versions(survey: Survey) -> Iterator[Finding]:
    """Prefill and decode of a model understand each other's KV, and their connectors each other."""
    for model in _models(survey):
        prefills = _serving(survey, model, EngineRole.PREFILL)
        decodes = _serving(survey, model, EngineRole.DECODE)
        if not (prefills and decodes):
            continue
        pairs = {_layout(engine) for engine in prefills} & {_layout(engine) for engine in decodes}
        kinds = {_layout(engine) for engine in (*prefills, *decodes)}
        told = "; ".join(sorted(f"vLLM {version}, {layout}" for version, layout in kinds))
        advice = "run the same vLLM with the same model, dtype, block size and KV layout on both sides"
        if not pairs:
            yield fail("versions", f"prefill and decode of {model} differ: {told}", advice)
        elif len(kinds) > 1:
            yield warn("versions", f"engines of {model} differ, and only like ones work together: {told}", advice)
    connectors = {engine.connector_version for engine in survey.engines}
    if len(connectors) > 1:
        told = ", ".join(sorted(connectors))
        yield warn("versions", f"connectors differ: {told}", "install the same version of kvlease on all engines")


def keys(survey: Survey) -> Iterator[Finding]:
    """All engines digest tokens with one key, and others do not know it."""
    used = {engine.digest_key_id for engine in survey.engines}
    if len(used) > 1:
        told = "; ".join(
            f"{key}: {_listed([engine for engine in survey.engines if engine.digest_key_id == key])}"
            for key in sorted(used)
        )
        yield fail(
            "keys", f"engines digest tokens with different keys ({told})", "set the same KVLEASE_DIGEST_KEY on all"
        )
    far = [engine for engine in survey.engines if urlsplit(engine.http_url).hostname not in _LOCAL]
    if far and DigestKey(DEFAULT_DIGEST_KEY.encode()).key_id in used:
        yield warn(
            "keys",
            "the digest key is the default, which everybody knows",
            "set KVLEASE_DIGEST_KEY, the same on all engines",
        )


def budgets(survey: Survey) -> Iterator[Finding]:
    """Decode engines may keep something, and have room for it."""
    longest = max((turn.report.prompt_tokens for turn in survey.tickets if turn.report), default=0)
    for engine in survey.of(EngineRole.DECODE):
        name, budget = engine.ref.engine_id, engine.retention_budget_blocks
        room = budget * engine.block_size
        kept = f"{name} keeps {engine.leased_blocks} of the {budget} blocks ({room:,} tokens) that it may"
        if not budget:
            advice = "start the registry with a --retention above 0"
            yield fail("budget", f"{name} may keep nothing: its retention budget is 0 blocks", advice)
        elif room < longest:
            advice = "more KV memory for decode, or a larger --retention of the registry"
            yield warn("budget", f"{kept}; prompts of {longest:,} tokens were seen, which do not fit", advice)
        elif engine.leased_blocks >= _FULL * budget:
            advice = "more KV memory for decode, a larger --retention of the registry, or a shorter ttl"
            yield warn("budget", f"{kept}: idle conversations go early", advice)
        else:
            yield ok("budget", kept)


def reach(survey: Survey) -> Iterator[Finding]:
    """Engines are reached where they say that they are."""
    for name, error in survey.http.items():
        if error:
            url = next((engine.http_url for engine in survey.engines if engine.ref.engine_id == name), "")
            advice = "set KVLEASE_HTTP_URL of the engine to where gateways reach it"
            yield fail("http", f"{name} is not reached at {url}: {error}", advice)
    if survey.http and not any(survey.http.values()):
        yield ok("http", "all engines are reached at their URLs")
    if survey.engines and not survey.side_channels:
        yield ok("side channel", _NO_LEASE)
    for name, channel in survey.side_channels.items():
        where = f"{channel.host}:{channel.port}"
        if channel.error:
            advice = "set VLLM_NIXL_SIDE_CHANNEL_HOST of the engine to where other engines reach it, and open its port"
            yield fail("side channel", f"{name} is not reached at {where}: {channel.error}", advice)
        else:
            yield ok("side channel", f"{name} is reached at {where}")


def clocks(survey: Survey) -> Iterator[Finding]:
    """The registry's clock runs as ours does. What the clocks show does not matter."""
    pace = survey.pace
    if pace is None:
        if survey.engines:
            yield ok("clocks", _NO_LEASE)
        return
    if abs(pace.theirs - pace.ours) > _PACE * pace.ours + pace.doubt:
        what = f"the registry's clock took {pace.theirs:.2f} s for {pace.ours:.2f} s here"
        yield warn("clocks", what, "is one of the machines suspended, throttled or a guest with an unsteady clock?")
    else:
        yield ok("clocks", "the registry's runs as this machine's does")


def _models(survey: Survey) -> list[str]:
    return sorted({model for engine in survey.engines if engine.healthy for model in engine.models})


def _serving(survey: Survey, model: str, role: EngineRole) -> list[Engine]:
    return [engine for engine in survey.of(role) if model in engine.models]


def _layout(engine: Engine) -> tuple[str, str]:
    return engine.vllm_version, engine.kv_layout


def _names(engines: list[Engine]) -> list[str]:
    return [engine.ref.engine_id for engine in engines]


def _listed(engines: list[Engine]) -> str:
    return ", ".join(_names(engines))
