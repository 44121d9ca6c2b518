"""Pages about many runs in a browser: a review by keyboard alone; axe, phones, hostile texts."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from browser.conftest import Visit
from browser.test_browser_axe import WIDE, serious
from builders import AGENT_ID
from evalwright.contracts.summary import SafetyFinding
from evalwright.engine.overrides import read_overrides
from evalwright.host.web import recent_runs
from host.server import ServedHost, running_host
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant
from host.web.test_web_trends import keep
from reports.run.page_samples import Told, bad, ok

COMPARED = "/compare?baseline={first}&new={run}"
PATHS = (
    "/review",
    "/review/{run}/wrong",
    "/trends",
    "/signals?kind=leak",
    COMPARED,
    "/matrix?run={first}&run={run}&run={second}",
    "/agents",
    f"/agents/{AGENT_ID}",
)
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
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.keyboard.press("y")
    page.keyboard.press("r")
    page.keyboard.type("it is on its way")
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.keyboard.type("It was shipped.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(f"**/review/{run}/two")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.keyboard.press("x")
    page.keyboard.press("s")
    page.wait_for_url("**/review")
    expect(page.get_by_text("Everything is reviewed")).to_be_visible()
    assert [each.task_id for each in read_overrides(tenant.log, run)] == ["one"]

    page.goto(f"{host.url}/review/{run}/one")
    expect(page.get_by_text("it is on its way")).to_be_visible()
    with page.expect_download() as download:
        page.keyboard.press("m")
    assert "It was shipped." in download.value.path().read_text()
    assert visit.errors == []


def test_axe_finds_nothing_serious_while_a_comparison_is_loading(
    visit: Visit, host: ServedHost, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recent_runs, "LIGHT", 5)
    tenant = a_tenant(host)
    runs = [tenant.keep(f"r{n}", {"a": Told("x", ok())}) for n in range(2)]
    page = enter(visit, host, tenant)
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/compare*soon=1*", hold)
    with page.expect_request("**/compare*soon=1*"):
        page.goto(host.url + COMPARED.format(first=runs[0], run=runs[1]))
    expect(page.get_by_text("Comparing the tasks of these runs")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert serious(page) == [], scheme
    waiting[0].fulfill(status=204)
    assert visit.errors == []


@pytest.mark.parametrize("visit", [{}, PHONE], indirect=True, ids=["light", "dark phone"])
def test_axe_finds_nothing_and_hostile_texts_do_nothing(visit: Visit, host: ServedHost):
    tenant = a_tenant(host)
    runs = []
    for n in range(3):
        tasks = {"wrong": Told(EVIL, bad(EVIL, EVIL, reason=EVIL)), "fine": Told("y", ok())}
        told = tasks | {"flaps": Told("z", ok() if n % 2 else bad())}
        runs.append(tenant.keep(f"r{n}", told))
    page = enter(visit, host, tenant)
    tenant.visitor.get("/review")
    tenant.visitor.post("/review/next")
    keep(tenant, "found", {"a": False}, findings={"a": [SafetyFinding("leak", "critical")]})
    for path in PATHS:
        page.goto(host.url + path.format(first=runs[0], second=runs[1], run=runs[2]))
        expect(page.locator("[aria-busy]")).to_have_count(0)
        assert (path, serious(page)) == (path, [])
        assert (path, page.evaluate(WIDE)) == (path, [])
        expect(page.locator(".chart-box svg")).to_have_count(2 if path == "/trends" else 0)
        assert not page.evaluate("Boolean(window.pwned || window.hacked)")
    assert visit.dialogs == []
    assert visit.errors == []
