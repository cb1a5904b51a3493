"""Every reason for which a feature may silently be off is named, with what to do."""

from dataclasses import replace
from typing import Any

import pytest

from kvlease.cli.diagnosis.finding import Finding, Level
from kvlease.cli.diagnosis.survey import Fault, Pace, Probe, Service, SideChannel, Survey
from kvlease.cli.doctor import examine
from kvlease.client.types import Engine, EngineRole, PrefillReport, PrefillState, Ticket
from kvlease.connector.prefix import DigestKey
from kvlease.connector.settings import DEFAULT_DIGEST_KEY
from tests.cli.records import engine
from tests.cli.test_verdict import TURN

PREFILL, DECODE = engine("p", role=EngineRole.PREFILL), engine("d", role=EngineRole.DECODE)
SERVICES = tuple(Service(name, f"{name}:1") for name in ("registry", "router", "gateway"))


def survey(*engines: Any, **more: Any) -> Survey:
    told: dict[str, Any] = {"services": SERVICES, "models": frozenset({"m"}), "engines": engines or (PREFILL, DECODE)}
    return Survey(**told | more)


def found(level: Level, surveyed: Survey) -> list[Finding]:
    return [finding for finding in examine(surveyed) if finding.level is level]


def report(**more: Any) -> PrefillReport:
    told: dict[str, Any] = {
        "prompt_tokens": 600,
        "local_tokens": 0,
        "reused_tokens": 0,
        "computed_tokens": 600,
        "miss_reason": "",
        "kv_bytes": 0,
        "prefill_duration": 0.1,
        "added_wait": 0.0,
    }
    return PrefillReport(**told | more)


def turn(*, leased: int = 500, **more: Any) -> Ticket:
    return replace(TURN, report=report(**more), leased_tokens=leased)


def test_a_deployment_without_a_fault_has_no_findings_but_good_ones() -> None:
    whole = survey(
        http={"p": "", "d": ""},
        side_channels={"d": SideChannel("127.0.0.1", 5600)},
        pace=Pace(theirs=1.0, ours=1.01, doubt=0.01),
        tickets=(turn(reused_tokens=500),) * 9,
        probes=(Probe("m", first=turn(leased=0), second=turn(reused_tokens=500)),),
    )

    assert {finding.level for finding in examine(whole)} == {Level.OK}


FAILED = replace(TURN, prefill_state=PrefillState.FAILED)
SILENT = tuple(replace(turn(leased=0, miss_reason="NO_LEASE"), age=4.5 * number) for number in range(6))
REFUSED = Service("registry", "registry:1", "no credentials", Fault.REFUSED)
SAYS_SO = Service("router", "router:1", "no router answers at router:1: refused")
SWAPPED = Service("registry", "router:1", "Method not found!", Fault.OTHER)
HTTP = Service("registry", "gateway:1", "http1.x", Fault.HTTP)
UNSPOKEN = Service("gateway", "http://gateway:1", "closed", Fault.HANDSHAKE)
BROKEN = (SERVICES[0], Service("router", "router:1", "refused"), SERVICES[2])


@pytest.mark.parametrize(
    ("surveyed", "subject", "named"),
    [
        (survey(services=BROKEN), "router", "no answer at router:1"),
        (survey(services=(SAYS_SO,)), "router", "no answer at router:1: refused"),
        (survey(services=(REFUSED,)), "registry", "answers at registry:1, but refuses you: no credentials"),
        (survey(services=(SWAPPED,)), "registry", "what answers at router:1 is no registry"),
        (survey(services=(HTTP,)), "registry", "an HTTP server, perhaps the gateway"),
        (survey(services=(UNSPOKEN,)), "gateway", "something listens at http://gateway:1, but the TLS handshake"),
        (Survey(services=SERVICES), "engines", "none has registered"),
        (
            survey(PREFILL, replace(DECODE, rival_http_url="http://o:1")),
            "engine ids",
            "http://127.0.0.1:1 and http://o:1",
        ),
        (survey(DECODE), "roles", "no prefill engine"),
        (survey(engine("both")), "roles", "no prefill engine"),
        (survey(PREFILL), "roles", "no decode engine"),
        (survey(replace(PREFILL, bidirectional=False), DECODE), "flags", "off on p (prefill): nothing is read back"),
        (survey(PREFILL, replace(DECODE, bidirectional=False)), "flags", "off on d (decode): nothing is kept"),
        (survey(replace(PREFILL, vllm_version="0.32.0"), DECODE), "versions", "vLLM 0.32.0"),
        (survey(replace(PREFILL, kv_layout="other"), DECODE), "versions", "differ"),
        (survey(replace(PREFILL, digest_key_id="other"), DECODE), "keys", "other: p"),
        (survey(PREFILL, replace(DECODE, retention_budget_blocks=0)), "budget", "may keep nothing"),
        (survey(http={"p": "refused", "d": ""}), "http", "p is not reached at http://127.0.0.1:1"),
        (survey(side_channels={"d": SideChannel("10.0.0.1", 5600, "timed out")}), "side channel", "10.0.0.1:5600"),
        (survey(routes={"m": "no engine"}), "router", "m is not routed"),
        (survey(models=frozenset()), "gateway", "does not list m"),
        (survey(probes=(Probe("m", error="503"),)), "trial", "503"),
        (survey(tickets=(FAILED, FAILED, turn())), "prefill", "of the last 3 turns sent to p 2 failed"),
        (survey(probes=(Probe("m", first=FAILED, second=FAILED),)), "trial", "prefill failed"),
        (
            survey(probes=(Probe("m", first=turn(leased=0), second=turn(miss_reason="DIGEST_KEY_DIFFERS")),)),
            "trial",
            "different keys",
        ),
    ],
)
def test_what_does_not_work_is_a_failure_that_names_the_cause(surveyed: Survey, subject: str, named: str) -> None:
    failures = found(Level.FAIL, surveyed)

    assert [(failure.subject, named in failure.what) for failure in failures] == [(subject, True)]
    assert failures[0].advice


FAR = [
    replace(each, http_url="http://10.0.0.1:8000", digest_key_id=DigestKey(DEFAULT_DIGEST_KEY.encode()).key_id)
    for each in (PREFILL, DECODE)
]


NO_MATCH = Probe("m", first=turn(leased=0), second=turn(miss_reason="NO_MATCH"))
LOST = replace(DECODE, ref=replace(DECODE.ref, engine_id="gone"), healthy=False, silent=9.5)
WARNINGS = [
    (survey(PREFILL, DECODE, LOST), "engines", "gone has been silent for 9.5s"),
    (survey(PREFILL, DECODE, replace(LOST, draining=True)), "engines", "gone is draining"),
    (survey(PREFILL, DECODE, replace(PREFILL, vllm_version="0.32.0")), "versions", "only like ones work together"),
    (survey(PREFILL, replace(DECODE, connector_version="2")), "versions", "connectors differ: 1, 2"),
    (survey(*FAR), "keys", "default"),
    (survey(PREFILL, replace(DECODE, leased_blocks=490)), "budget", "490 of the 500"),
    (survey(PREFILL, replace(DECODE, retention_budget_blocks=20), tickets=(turn(),)), "budget", "600 tokens were seen"),
    (survey(pace=Pace(theirs=0.5, ours=1.0, doubt=0.01)), "clocks", "took 0.50 s for 1.00 s"),
    (survey(tickets=(turn(miss_reason="WAIT_OVER"),) * 3), "turns", "3 of the last 3"),
    (survey(tickets=SILENT), "turns", "5 of the last 5 later turns found nothing kept any more (NO_LEASE), 4.5s after"),
    (survey(tickets=(turn(reused_tokens=200),) * 6), "histories", "6 were like it for a part only"),
    (survey(tickets=(replace(TURN, terms=replace(TURN.terms, prefill=None)),) * 6), "turns", "decode alone"),
    (survey(probes=(Probe("m"),)), "trial", "router knows nothing"),
    (survey(tickets=(turn(), FAILED)), "prefill", "of the last 2 turns sent to p 1 failed"),
]


@pytest.mark.parametrize(("surveyed", "subject", "named"), WARNINGS)
def test_what_works_less_well_than_it_might_is_a_warning(surveyed: Survey, subject: str, named: str) -> None:
    warned = found(Level.WARN, surveyed)

    assert [(each.subject, named in each.what) for each in warned] == [(subject, True)]
    assert warned[0].advice


@pytest.mark.parametrize(
    ("tickets", "advice"),
    [
        ((turn(miss_reason="NO_MATCH"),) * 6, "the chat template, or the client, puts something that changes"),
        ((turn(reused_tokens=200),) * 4 + (turn(miss_reason="NO_MATCH"),) * 2, "the chat template changes or drops"),
    ],
)
def test_a_prefix_that_changes_is_told_from_a_template_that_drops_answers(
    tickets: tuple[Ticket, ...], advice: str
) -> None:
    (warned,) = found(Level.WARN, survey(tickets=tickets))

    assert warned.subject == "histories"
    assert warned.advice.startswith(advice)


def test_a_tail_that_differs_is_no_history_that_does() -> None:
    assert not found(Level.WARN, survey(tickets=(turn(leased=278, reused_tokens=256),) * 6))


@pytest.mark.parametrize(
    ("matched", "reasoning", "named", "advice"),
    [
        (512, False, "did not come back token for token", "chat template"),
        (512, True, "carries reasoning", "reasoning_content"),
        (0, False, "not even the first prompt", "date"),
    ],
)
def test_a_template_that_changes_the_history_is_told_from_where_it_does(
    matched: int, *, reasoning: bool, named: str, advice: str
) -> None:
    second = turn(leased=760, reused_tokens=matched, miss_reason="" if matched else "NO_MATCH")
    probe = Probe("m", first=turn(leased=0), second=second, reasoning=reasoning)

    (warned,) = found(Level.WARN, survey(probes=(probe,)))

    assert named in warned.what
    assert advice in warned.advice


def test_what_follows_from_a_registry_that_is_down_is_not_told_again() -> None:
    down = (Service("registry", "registry:1", "refused"), *SERVICES[1:])

    assert [finding.subject for finding in found(Level.FAIL, Survey(services=down))] == ["registry"]


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"services": BROKEN}, "router"),
        ({"engines": (PREFILL, replace(DECODE, retention_budget_blocks=0))}, "budget"),
        ({"engines": (PREFILL, replace(DECODE, bidirectional=False))}, "flags"),
        ({"engines": (PREFILL,), "routes": {"m": "no healthy decode engine"}}, "roles"),
    ],
)
def test_what_follows_from_a_cause_that_is_told_is_left_out(more: dict[str, Any], cause: str) -> None:
    missed = turn(miss_reason="WAIT_OVER")
    told: dict[str, Any] = {"tickets": (missed,) * 6, "probes": (Probe("m", first=turn(leased=0), second=missed),)}

    found = examine(survey(**told | more))

    assert [finding.subject for finding in found if finding.level is not Level.OK] == [cause]


def test_keys_that_differ_are_not_taken_for_a_template() -> None:
    surveyed = survey(replace(PREFILL, digest_key_id="other"), DECODE, probes=(NO_MATCH,))

    assert [failure.subject for failure in found(Level.FAIL, surveyed)] == ["keys", "trial"]
    assert not found(Level.WARN, surveyed)


def test_what_no_lease_shows_is_said_to_be_left_out() -> None:
    told = {finding.subject: finding.what for finding in examine(survey())}

    for subject in ("clocks", "side channel"):
        assert told[subject].startswith("not looked at: no lease of the tenant")


@pytest.mark.parametrize("restarted", [PREFILL, DECODE])
def test_turns_of_engines_that_were_started_again_since_say_nothing(restarted: Engine) -> None:
    engines = [replace(x, ref=replace(x.ref, incarnation="2")) if x is restarted else x for x in (PREFILL, DECODE)]
    tickets = (turn(miss_reason="NOT_BIDIRECTIONAL"), FAILED)

    assert found(Level.FAIL, survey(*engines, tickets=tickets)) == []
    assert found(Level.WARN, survey(*engines, tickets=tickets)) == []
