"""Pages about many runs in a browser: a review by keyboard alone; axe, phones, hostile texts."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from browser.conftest import Visit
from builders import AGENT_ID
from evalwright.engine.overrides import read_overrides
from host.server import ServedHost, running_host
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant
from reports.run.page_samples import Told, bad, ok

PATHS = ("/review", "/review/{run}/wrong", "/trends", "/signals", "/agents", f"/agents/{AGENT_ID}")
PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    with running_host(tmp_path_factory.mktemp("host") / "host.db") as served:
        yield served


def enter(visit: Visit, host: ServedHost, tenant: Tenant) -> Page:
    """Sign in with the cookies of somebody who has signed in."""
    visit.context.add_cookies(
        [
            {"name": name, "value": value, "url": host.url}
            for name, value in tenant.visitor.cookies.items()
        ]
    )
    return visit.page


def test_a_review_needs_no_mouse(visit: Visit, host: ServedHost):
    tenant = a_tenant(host)
    run = tenant.keep("r", {"one": Told("x", bad()), "two": Told("y", bad())})
    page = enter(visit, host, tenant)
    page.goto(f"{host.url}/review")
    page.keyboard.press("r")
    page.wait_for_url(f"**/review/{run}/one")
    page.keyboard.press("y")
    page.keyboard.press("r")
    page.keyboard.type("it is on its way")
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.keyboard.type("It was shipped.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(f"**/review/{run}/two")
    page.keyboard.press("x")
    page.keyboard.press("s")
    page.wait_for_url("**/review")
    assert page.get_by_text("Everything is reviewed").is_visible()
    assert [each.task_id for each in read_overrides(tenant.log, run)] == ["one"]

    page.goto(f"{host.url}/review/{run}/one")
    assert page.get_by_text("it is on its way").is_visible()
    with page.expect_download() as download:
        page.keyboard.press("t")
    assert "It was shipped." in download.value.path().read_text()
    assert visit.errors == []


@pytest.mark.parametrize("visit", [{}, PHONE], indirect=True, ids=["light", "dark phone"])
def test_axe_finds_nothing_and_hostile_texts_do_nothing(visit: Visit, host: ServedHost):
    tenant = a_tenant(host)
    for n in range(3):
        tasks = {"wrong": Told(EVIL, bad(EVIL, EVIL, reason=EVIL)), "fine": Told("y", ok())}
        run = tenant.keep(f"r{n}", tasks | {"flaps": Told("z", ok() if n % 2 else bad())})
    page = enter(visit, host, tenant)
    tenant.visitor.get("/review")
    tenant.visitor.post("/review/next")
    for path in PATHS:
        page.goto(host.url + path.replace("{run}", run))
        found = [
            f"{each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in Axe().run(page).response["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert (path, found) == (path, [])
        width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1], path
        charts, drawn = page.locator("[data-chart]"), page.locator("[data-chart] canvas")
        assert charts.count() == drawn.count() == (2 if path == "/trends" else 0), path
        assert not page.evaluate("Boolean(window.pwned || window.hacked)")
    assert visit.dialogs == []
    assert visit.errors == []
