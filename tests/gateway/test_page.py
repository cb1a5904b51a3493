"""The status page in a real browser, which is looked for on this machine and never fetched."""

import json
import re
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from tests.gateway.stack import Stack

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")

expect.set_options(timeout=30_000)  # ms

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        await browser.close()


async def opened(browser: Browser, stack: Stack, *, width: int = 1280) -> tuple[Page, list[str]]:
    """The page, and what the browser finds wrong with it."""
    page = await browser.new_page(viewport={"width": width, "height": 800})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    await page.goto(f"{stack.gateway.url}/ui")
    return page, wrong


async def test_it_draws_what_the_gateway_knows_without_a_complaint(browser: Browser, stack: Stack) -> None:
    page, wrong = await opened(browser, stack)

    await expect(page.locator("#engines li")).to_have_count(2)
    await expect(page.locator("#engines h3").first).to_have_text("decode · decode")
    await expect(page.locator("#reuse svg")).to_have_attribute(
        "aria-label", re.compile("0 reused, 0 local, 0 computed")
    )
    await expect(page.locator("#leases-note")).to_have_text("No lease is live.")
    assert wrong == []


async def test_a_reason_is_told_in_plain_words_beside_its_name(browser: Browser, stack: Stack) -> None:
    async def missed(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(json=await answer.json() | {"misses": {"NO_MATCH": 2, "SOMETHING_NEW": 1}})

    page = await browser.new_page()
    await page.route("**/ui/status.json", missed)
    await page.goto(f"{stack.gateway.url}/ui")

    known, unknown = page.locator("#misses li").first, page.locator("#misses li").last
    await expect(known).to_contain_text("NO_MATCH")
    await expect(known).to_contain_text("the prompt does not begin like what was kept")
    await expect(unknown.locator("code")).to_have_text("SOMETHING_NEW")


async def test_it_fits_a_phone_where_times_stand_for_the_time_line(browser: Browser, stack: Stack) -> None:
    stack.registry.grant("a-conversation", ttl=50.0)
    page, _ = await opened(browser, stack, width=360)
    await expect(page.locator("#engines li")).to_have_count(2)

    assert await page.evaluate("document.documentElement.scrollWidth") == 360
    await expect(page.locator("#leases tr")).to_contain_text(re.compile(r"a-conversation\d+ s"))
    await expect(page.locator("#line-note")).to_be_hidden()

    await page.set_viewport_size({"width": 1280, "height": 800})
    await expect(page.locator("#line-note")).to_contain_text("middle line")


async def test_names_are_shown_and_never_run(browser: Browser, stack: Stack) -> None:
    stack.registry.engines["decode"].engine.models.append("<img src=x onerror=document.title='run'>")
    page, wrong = await opened(browser, stack)

    await expect(page.locator("#engines")).to_contain_text("<img src=x")
    assert await page.title() == "kvlease"
    assert wrong == []


async def test_a_key_is_asked_for_where_one_is_needed_and_sent_from_then_on(browser: Browser, stack: Stack) -> None:
    async def guard(route: Route) -> None:
        if await route.request.header_value("authorization") == "Bearer right":
            await route.continue_()
        else:
            await route.fulfill(status=401, body=json.dumps({"error": {"message": "no"}}))

    page = await browser.new_page()
    await page.route("**/ui/status.json", guard)
    await page.goto(f"{stack.gateway.url}/ui")

    await page.get_by_label("API key").fill("wrong")
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_role("status")).to_have_text("the gateway refuses this key")
    await page.get_by_label("API key").fill("right")
    await page.get_by_role("button", name="Show").click()

    await expect(page.locator("#engines li")).to_have_count(2)
    await expect(page.get_by_label("API key")).to_be_hidden()
    assert "right" not in page.url


async def test_paused_it_asks_for_nothing(browser: Browser, stack: Stack) -> None:
    page, _ = await opened(browser, stack)
    await expect(page.locator("#engines li")).to_have_count(2)

    await page.get_by_role("button", name="Pause").click()
    resume = page.get_by_role("button", name="Resume")
    await expect(resume).to_have_attribute("aria-pressed", "true")
    stack.registry.engines["decode"].engine.models.append("another")
    await page.wait_for_timeout(2500)
    await expect(page.locator("#engines")).not_to_contain_text("another")
    await resume.click()

    await expect(page.locator("#engines")).to_contain_text("another")
