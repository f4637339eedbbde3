"""How a person goes through the operations page."""

from __future__ import annotations

import asyncio

from tests.ops_page.browser import Browser
from tests.ops_page.keys import OPS_KEY
from tests.waiting import wait_until


async def seen(browser: Browser, what: str, css: str = "body", *, timeout_s: float = 20) -> None:
    """Wait until the page shows it."""

    async def shows() -> bool:
        return what in await asyncio.to_thread(browser.text, css)

    await wait_until(shows, timeout_s=timeout_s, what=f"{what!r} is in {css}")


def sign_in(browser: Browser, url: str, key: str = OPS_KEY) -> None:
    browser.get(f"{url}/ops")
    browser.type("#key", key)
    browser.click("button.main")
