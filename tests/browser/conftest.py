"""A real browser for the pages; where there is none the tests say so, and CI does not accept it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Request,
    expect,
    sync_playwright,
)

expect.set_options(timeout=90_000)  # of pages that never come: a busy machine takes its time
# The shell is the same browser without windows, and opens a page with a fifth of the work.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)


# With `SLOW_PAGES=6` the processor is six times slower, and events and answers come late: a test
# that reads a page without waiting for it then fails, and not by chance only.
SLOW = float(os.environ.get("SLOW_PAGES", "0"))
LATE = """(() => {
  const add = EventTarget.prototype.addEventListener, ask = window.fetch;
  const late = ["hashchange", "popstate", "toggle"];
  EventTarget.prototype.addEventListener = function (name, heard, options) {
    const later = (event) => setTimeout(() => heard.call(this, event), 700);
    add.call(this, name, late.includes(name) ? later : heard, options);
  };
  window.fetch = async (...asked) => {
    await new Promise((done) => setTimeout(done, 500));
    return ask(...asked);
  };
})();"""


# Of a module, not of the session: while it runs no other loop can, and other tests need theirs.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started once for each module."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is not installed, and CI must try the pages in a browser")
        pytest.skip("Chromium is not installed: the pages are not tried in a browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Visit:
    """A tab that notes all that a page should not do."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.calls: list[str] = []
        context.expose_binding("__called", lambda _, *said: self.calls.append(repr(said)))
        self.page.on("dialog", self._dismiss)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._listen)
        context.on("request", self._note)
        if SLOW:
            self._slow_down()

    def _slow_down(self) -> None:
        session = self.context.new_cdp_session(self.page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOW})
        self.context.add_init_script(LATE)

    def _dismiss(self, dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _listen(self, message) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _note(self, request: Request) -> None:
        self.requests.append(request.url)

    def open(self, path: Path, fragment: str = "") -> Page:
        self.page.goto(path.as_uri() + fragment)
        return self.page

    def plant_script(self) -> None:
        """Add a picture with a script to the page; return when it was refused and had its turn."""
        with self.page.expect_console_message(lambda said: "Content Security Policy" in said.text):
            self.page.evaluate("""() => new Promise((had_its_turn) => {
                document.body.insertAdjacentHTML("beforeend", '<img src=x onerror="__pwned=1">');
                document.body.lastElementChild.addEventListener("error", () => had_its_turn());
            })""")

    @property
    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests if not url.startswith("file:")]


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A fresh tab; `@pytest.mark.parametrize("visit", [{...}], indirect=True)` sets its options."""
    context = browser.new_context(**getattr(request, "param", {}))
    context.set_default_timeout(90_000)
    yield Visit(context)
    context.close()
