"""What the status page draws."""

import httpx

from tests.gateway.stack import Stack


async def status(stack: Stack) -> dict[str, object]:
    answer = await stack.http.get("/ui/status.json")
    assert answer.status_code == httpx.codes.OK
    shown: dict[str, object] = answer.json()
    return shown


async def test_engines_are_shown_with_role_and_health(stack: Stack) -> None:
    shown = await status(stack)

    engines = shown["engines"]
    assert isinstance(engines, list)
    assert [(each["id"], each["role"], each["healthy"]) for each in engines] == [
        ("decode", "decode", True),
        ("prefill", "prefill", True),
    ]
    assert shown["registry_reached"] is True


async def test_a_registry_that_is_gone_is_told_and_what_was_known_stays(stack: Stack) -> None:
    stack.registry.stop()

    shown = await status(stack)

    assert shown["registry_reached"] is False
    assert len(shown["engines"]) == 2  # type: ignore[arg-type]


async def test_the_page_needs_nothing_from_elsewhere_and_may_not_be_framed(stack: Stack) -> None:
    page = await stack.http.get("/ui")
    style, script = await stack.http.get("/ui/status.css"), await stack.http.get("/ui/status.js")

    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in page.text.replace("http-equiv", "")
    assert [answer.headers["content-type"].partition(";")[0] for answer in (page, style, script)] == [
        "text/html",
        "text/css",
        "text/javascript",
    ]


async def test_nothing_here_can_be_written(stack: Stack) -> None:
    for path in ("/ui", "/ui/status.json"):
        assert (await stack.http.post(path)).status_code == httpx.codes.METHOD_NOT_ALLOWED
