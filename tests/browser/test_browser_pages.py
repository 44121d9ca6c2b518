"""The pages of a host in a browser: signing in, starting, watching, and what goes wrong."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.conftest import Visit
from browser.test_browser_axe import CUT, WIDE, serious
from builders import AGENT_ID, a_score, a_suite, a_task, as_log, opening
from evalwright.engine.clock import run_id_at
from evalwright.host.web.sessions import KIND
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from host.caller import Caller
from host.server import GATED, WRONG, HostProcess, ServedHost, running_host
from host.web.visitor import signed_in
from subjects.command import Evalwright
from subjects.ports import lasting_port
from subjects.waiting import Journal

SCHEMES = ("light", "dark")
NARROW = {"width": 360, "height": 740}
ZOOMED = {"width": 320, "height": 256}  # a window of 1280 by 1024 at 400 %
JUMPS = """window.jumps = 0; new PerformanceObserver((list) => {
    for (const each of list.getEntries()) jumps += each.value;
}).observe({ type: "layout-shift", buffered: true });"""
SEARCH = "Search runs"
EVIL = "<img src=x onerror=__called(1)><script>__called(2)</script>"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    with running_host(tmp_path_factory.mktemp("pages") / "host.db") as served:
        yield served


def sign_in(page: Page, url: str, key: str) -> None:
    page.goto(url)
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Pages and account")).to_be_visible()


def sign_out(page: Page) -> None:
    """As a reader does: the menu of the account, then its last entry."""
    page.get_by_label("Pages and account").click()
    page.get_by_role("button", name="Sign out").click()


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A tenant of the test's own."""
    return re.sub(r"[^a-z]+", "-", request.node.name.lower())[:60]


@pytest.fixture
def caller(host: ServedHost, tenant: str) -> Caller:
    """A client of that tenant."""
    return host.caller(tenant)


@pytest.fixture
def process(evalwright: Evalwright, journal: Journal) -> HostProcess:
    """`evalwright serve` with the scripted agents; not started yet."""
    return HostProcess(evalwright, journal.environment)


@pytest.fixture
def tab(visit: Visit, host: ServedHost, caller: Caller) -> Iterator[Page]:
    """A tab of somebody who has signed in; nothing of another host may be asked for by it."""
    assert caller.key is not None
    cookies = signed_in(host.url, caller.key).cookies.items()
    visit.context.add_cookies(
        [{"name": name, "value": value, "url": host.url} for name, value in cookies]
    )
    visit.page.goto(host.url)
    yield visit.page
    foreign = {url for url in visit.requests if urlsplit(url).netloc != urlsplit(host.url).netloc}
    assert (foreign, visit.errors, visit.calls, visit.dialogs) == (set(), [], [], [])


def test_a_run_is_started_in_a_form_and_seen_to_its_end(tab: Page, caller: Caller, visit: Visit):
    suite = caller.publish(a_suite(3))
    tab.reload()
    tab.get_by_role("link", name="Start a run").first.click()
    tab.locator(f'input[name=suite][value="{suite}"]').check()
    expect(tab.get_by_text("3 tasks. No run of this agent")).to_be_visible()
    tab.get_by_label("Agent").select_option(WRONG)
    tab.get_by_label("Budget").fill("nothing")
    tab.get_by_role("button", name="Start", exact=True).click()
    expect(tab.get_by_text("Give an amount of dollars above 0")).to_be_visible()
    expect(tab.get_by_label("Agent")).to_have_value(WRONG)
    tab.get_by_label("Budget").fill("1")
    tab.get_by_role("button", name="Start", exact=True).click()
    expect(tab.locator("[data-verdict=fail] h1")).to_have_text(re.compile("Do not ship"))
    expect(tab.locator("tr[data-task][data-failed]")).to_have_count(3)
    first = tab.url
    tab.get_by_role("button", name="Run the failed ones again").click()
    expect(tab).not_to_have_url(first)
    expect(tab.locator("[data-verdict=fail] h1")).to_have_text(re.compile("Do not ship"))
    expect(tab.locator("tr[data-task][data-failed]")).to_have_count(3)
    visit.errors.clear()  # the console notes that a form was refused


def test_filters_change_the_table_and_the_address_as_they_are_typed(tab: Page, caller: Caller):
    suite = caller.publish(a_suite(1))
    caller.evaluate(suite, agent_id=WRONG, tags=["nightly"])
    caller.evaluate(suite)
    tab.get_by_label("Pages", exact=True).get_by_role("link", name="Runs").click()
    rows = tab.locator("tr[data-run]")
    expect(rows).to_have_count(2)
    tab.locator('[data-chip="failed"]').click()
    expect(rows).to_have_count(1)
    expect(tab.locator('[data-chip="failed"]')).to_have_attribute("aria-current", "true")
    expect(tab).to_have_url(re.compile(r"/runs\?status=failed$"))
    tab.get_by_label(SEARCH).last.press_sequentially("night")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile(r"text=night"))
    expect(rows).to_have_count(1)
    tab.reload()
    expect(tab.get_by_label(SEARCH).last).to_have_value("night")
    expect(rows).to_have_count(1)


def test_a_filter_is_kept_by_name_in_this_browser_until_it_is_forgotten(
    tab: Page, host: ServedHost, caller: Caller
):
    caller.evaluate(a_suite(1))
    own = tab.get_by_label("Filters of your own")
    tab.goto(f"{host.url}/runs?status=failed&tag=nightly")
    tab.get_by_text("Keep this filter").click()
    tab.get_by_label("Name of the filter").fill("What broke <at> night")
    tab.keyboard.press("Enter")
    expect(own.locator("[aria-current=true]")).to_have_text("What broke <at> night")
    tab.goto(f"{host.url}/runs")
    expect(tab.get_by_text("Keep this filter")).to_be_hidden()
    own.get_by_role("link", name="What broke <at> night").click()
    tab.wait_for_url("**/runs?status=failed&tag=nightly")
    tab.get_by_text("Keep this filter").click()
    tab.get_by_role("button", name="Forget").click()
    expect(own.get_by_role("link")).to_have_count(0)


def test_a_promotion_is_blocked_with_its_reason_and_allowed_with_evidence(
    tab: Page, visit: Visit, host: ServedHost, caller: Caller
):
    state = tab.locator('[data-table="deployments"] td').first
    promote = tab.get_by_role("button", name="Promote", exact=True)
    run_id = caller.evaluate(a_suite(1))
    tab.goto(f"{host.url}/agents/{AGENT_ID}")
    for reached in ("● test", "● staged"):
        promote.click()
        expect(state).to_have_text(reached)
    promote.click()
    expect(tab.get_by_role("alert")).to_contain_text("Blocked: the version has no completed")
    expect(state).to_have_text("● staged")
    tab.get_by_label("Evidence", exact=True).select_option(run_id)
    promote.click()
    expect(state).to_have_text("✓ active")
    expect(tab.get_by_role("alert")).to_have_count(0)
    expect(tab.get_by_role("link", name=run_id)).to_be_visible()
    visit.errors.clear()  # the console notes the refusal


def test_a_session_that_ended_is_told_and_signing_in_leads_back(
    tab: Page, visit: Visit, host: ServedHost, caller: Caller
):
    caller.evaluate(a_suite(1))
    tab.goto(f"{host.url}/runs?status=passed")
    records = host.log.records
    ended = [RecordChange(KIND, "", each.key, None) for each in records.list(KIND, "")]
    records.write(ended).result()
    tab.get_by_label(SEARCH).last.focus()
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("Your session has ended.")).to_be_visible()
    tab.get_by_role("link", name="Sign in again").click()
    tab.get_by_label("Key").fill(caller.key or "")
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.locator("tr[data-run]")).to_have_count(1)
    expect(tab).to_have_url(re.compile(r"/runs\?status=passed"))
    visit.errors.clear()  # the console notes both refusals


def test_a_lost_connection_is_told_until_it_is_back(tab: Page, visit: Visit):
    visit.context.set_offline(True)
    expect(tab.get_by_text("The connection is lost")).to_be_visible()
    visit.context.set_offline(False)
    expect(tab.get_by_text("The connection is lost")).to_be_hidden()
    visit.errors.clear()  # the console notes what could not be loaded


def test_a_host_that_does_not_answer_is_told_until_it_does(tab: Page, caller: Caller, visit: Visit):
    caller.evaluate(a_suite(1))
    tab.goto(f"{tab.url}runs")
    told = tab.get_by_text("The host cannot answer at the moment.")
    tab.route("**/*text=*", lambda route: route.abort("connectionrefused"))
    tab.get_by_label(SEARCH).last.fill("nobody")
    tab.keyboard.press("Enter")
    expect(told).to_be_visible()
    tab.unroute("**/*text=*")
    tab.get_by_label(SEARCH).last.fill("nobody else")
    tab.keyboard.press("Enter")
    expect(told).to_be_hidden()
    visit.errors.clear()  # the console notes what could not be loaded


def test_what_others_wrote_executes_nothing(tab: Page, host: ServedHost, caller: Caller):
    run_id = caller.evaluate(a_suite(1), tags=[EVIL])
    for path in ("/", f"/runs?text={EVIL}", f"/runs?suite={EVIL}", f"/start?suite={EVIL}"):
        tab.goto(f"{host.url}{path}")
    tab.goto(f"{host.url}/runs/{run_id}")
    expect(tab.get_by_text(EVIL).first).to_be_visible()
    assert tab.evaluate("[...document.images].map((each) => each.className || each.alt)") == [""]
    assert tab.locator("main img, main script").count() == 0


def test_nothing_is_cut_off_or_jumps_whatever_names_are_long(
    tab: Page, host: ServedHost, caller: Caller, visit: Visit
):
    suite = a_suite([a_task("a-task-with-quite-a-long-name-" * 3), a_task("b")])
    done = caller.evaluate(suite, agent_id=WRONG, tags=["x" * 100])
    caller.evaluate(suite)
    found = {}
    tab.add_init_script(JUMPS)
    for path in ("/", "/runs", "/runs?status=open", "/start", "/prompts", f"/runs/{done}"):
        tab.goto(f"{host.url}{path}")
        tab.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        tab.set_viewport_size(NARROW)
        found[path, "narrow"] = tab.evaluate(CUT)
        found[path, "wide"] = tab.evaluate(WIDE)
        tab.set_viewport_size(ZOOMED)
        found[path, "zoomed"] = tab.evaluate(WIDE)
        tab.set_viewport_size({"width": 1280, "height": 800})
        tab.reload()
        found[path, "jumps"] = tab.evaluate("jumps > 0.02 ? jumps : 0")
    sign_out(tab)
    expect(tab.get_by_label("Key")).to_be_visible()
    tab.wait_for_load_state()
    found["sign-in", ""] = serious(tab)
    visit.errors.clear()  # the page to sign in again is a refusal
    assert {place: said for place, said in found.items() if said} == {}


def test_the_page_of_an_agent_with_approvals_and_a_canary_is_for_everybody(
    visit: Visit, tmp_path: Path
):
    asked = {"deployments": {"require_eval": False, "approval": {"quorum": 1}}}
    manifest = {"persona": "Clerk", "modelClass": "general", "systemPrompt": "Be kind."}
    agent = "local.shop.clerk"
    with running_host(tmp_path / "host.db", settings=asked) as host:
        caller, other = host.caller("acme"), host.caller("acme")
        for version, share in (("1.0.0", None), ("2.0.0", 10), ("3.0.0", None)):
            body = {"version": version, "manifest": {"agentId": agent, **manifest}}
            assert caller.post("/v1/agents", body).status == 201
            asker = signed_in(host.url, caller.key or "")
            for fields in ({}, {}, {"share": share or ""}):
                asker.get(f"/agents/{agent}")
                asker.post(f"/agents/{agent}", {"version": version, **fields})
            approver = signed_in(host.url, other.key or "")
            page = approver.get(f"/agents/{agent}").text
            run_id = page.partition('name="run" value="')[2].partition('"')[0]
            if version != "3.0.0":
                vote = {"run": run_id, "action": "accept"}
                assert approver.post(f"/agents/{agent}/vote", vote).status == 303
        sign_in(visit.page, f"{host.url}/agents/{agent}", other.key or "")
        tab = visit.page
        expect(tab.get_by_role("button", name="Approve version 3.0.0")).to_be_visible()
        expect(tab.get_by_label("Share of version 2.0.0, in percent")).to_have_value("10")
        for scheme in SCHEMES:
            tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert serious(tab) == [], scheme
        for size in (NARROW, ZOOMED):
            tab.set_viewport_size(size)
            assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        tab.set_viewport_size(NARROW)
        assert tab.evaluate(CUT) == []
        tab.reload()  # the checker had opened the menu over it
        tab.get_by_label("Share of version 2.0.0, in percent").fill("25")
        tab.get_by_role("button", name="Set the share of version 2.0.0").click()
        expect(tab.get_by_text("25% of the traffic")).to_be_visible()


def test_nothing_private_is_shown_after_signing_out_nor_in_the_frame_of_another_site(
    tab: Page, visit: Visit, host: ServedHost, caller: Caller
):
    run_id = caller.evaluate(a_suite(1))
    frame = f'<iframe src="{host.url}/runs/{run_id}" width="900" height="600"></iframe>'
    visit.context.route(
        "http://evil.example/", lambda route: route.fulfill(content_type="text/html", body=frame)
    )
    tab.goto("http://evil.example/")
    expect(tab.frame_locator("iframe").locator("[data-verdict]")).to_have_count(0)
    tab.goto(f"{host.url}/runs/{run_id}")
    expect(tab.locator("[data-verdict]")).to_be_visible()
    sign_out(tab)
    tab.wait_for_url(f"{host.url}/")
    tab.go_back()
    expect(tab.get_by_label("Key")).to_be_visible()
    expect(tab.locator("[data-verdict]")).to_have_count(0)
    visit.errors.clear()  # the console notes the frame and the refusals
    visit.requests.clear()  # and there was another site


def test_the_keyboard_alone_leads_from_the_list_to_a_run(tab: Page, caller: Caller):
    run_id = caller.evaluate(a_suite(1))
    tab.goto(f"{tab.url}runs")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to content"
    for _ in range(40):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.href ?? ''").endswith(f"/runs/{run_id}"):
            break
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text(re.compile("May ship"))
    expect(tab).to_have_url(re.compile(f"/runs/{run_id}$"))


def test_a_run_is_watched_while_its_host_is_killed_and_started_again(
    browser: Browser, process: HostProcess, journal: Journal
):
    port = str(lasting_port())
    process.start("--port", port)
    caller = process.caller()
    tasks = [a_task("quick", input="yes"), a_task("slow", input="wait")]
    run_id = caller.start(a_suite(tasks, pass_score=0.1), GATED)
    page = browser.new_page()
    try:
        sign_in(page, f"{process.url}/runs/{run_id}", caller.key or "")
        expect(page.get_by_role("link", name="yes: passed")).to_be_visible()
        expect(page.get_by_role("link", name="wait: running")).to_be_visible()
        process.kill()
        expect(page.get_by_text("trying to reconnect")).to_be_visible()
        journal.open_gate()
        process.start("--port", port)
        expect(page.locator("[data-verdict=pass] h1")).to_be_visible()
        expect(page.get_by_text("trying to reconnect")).to_be_hidden()
    finally:
        page.close()
        process.kill()


def test_ten_thousand_tasks_are_watched_without_ten_thousand_elements(
    tab: Page, host: ServedHost, tenant: str
):
    suite = a_suite(10_000)
    scores = [
        a_score(task.task_id, float(number % 3 > 0)) for number, task in enumerate(suite.tasks)
    ]
    entries = [*opening(suite), *((each.task_id, each) for each in scores[:-1])]
    run_id = run_id_at(host.host.clock.now_us(), b"0123456789")
    log = host.log.for_tenant(tenant)
    log.append(
        run_id,
        [NewEvent(each.type, each.task_id, each.at_us, each.body) for each in as_log(entries)],
    )
    log.flush(run_id).result()
    tab.goto(f"{host.url}/runs/{run_id}")
    expect(tab.get_by_text("9,999 of 10,000 tasks are scored")).to_be_visible()
    assert tab.evaluate("document.querySelectorAll('*').length") < 1500
