"""A page in Chromium that keeps count of errors, takes pictures, and is judged by axe."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
Scheme = Literal["light", "dark"]
Size = Literal["desktop", "phone"]
# Chromium reports a page's own status of 4xx as an error; a test that asks for one says so.
_STATUS = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")


@dataclass
class Visit:
    """A page, and where its pictures go."""

    page: Page
    folder: Path
    name: str
    expected_statuses: set[int] = field(default_factory=set)

    def picture(self, what: str) -> None:
        """Keep a picture of the whole page."""
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{self.name}-{what}")
        self.page.screenshot(path=self.folder / f"{safe}.png", full_page=True)

    def faults(self) -> list[str]:
        """What axe finds wrong, with the places."""
        self.page.evaluate(AXE)
        found: list[dict[str, Any]] = self.page.evaluate("axe.run().then((r) => r.violations)")
        return [
            f"{v['impact']} {v['id']}: {[node['target'] for node in v['nodes']]}" for v in found
        ]

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return max(0, width)


class Visitor:
    """Opens pages in contexts of their own, and gathers what went wrong in any."""

    def __init__(self, browser: Browser, folder: Path, name: str) -> None:
        self._browser = browser
        self._folder = folder
        self._name = name.removeprefix("test_").partition("[")[0]
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []

    def open(
        self, *, size: Size = "desktop", scheme: Scheme = "light", scripts: bool = True
    ) -> Visit:
        """A page as a new visitor has it: no cookies yet."""
        width, height = SIZES[size]
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=scripts,
        )
        context.set_default_timeout(20_000)
        self._contexts.append(context)
        page = context.new_page()
        visit = Visit(page, self._folder, f"{self._name}-{size}-{scheme}")
        page.on("console", lambda message: self._note(message, visit))
        page.on("pageerror", lambda error: self.errors.append(f"script: {error}"))
        page.on("requestfailed", lambda r: self._note_failure(r.url, r.failure or ""))
        return visit

    def close(self) -> None:
        """End every context."""
        for context in self._contexts:
            context.close()

    def _note_failure(self, url: str, failure: str) -> None:
        # Whoever leaves a page ends what it still loads.
        if failure != "net::ERR_ABORTED":
            self.errors.append(f"failed: {url} {failure}")

    def _note(self, message: ConsoleMessage, visit: Visit) -> None:
        status = _STATUS.match(message.text)
        is_expected = status is not None and int(status[1]) in visit.expected_statuses
        if message.type in ("error", "warning") and not is_expected:
            self.errors.append(f"{message.type}: {message.text} at {visit.page.url}")
