"""Every page: the names that automated checks rely on, axe, widths, and what is in view at once."""

from collections.abc import Iterator
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request, expect

from browser.conftest import Visit
from browser.test_browser_axe import WIDE
from builders import AGENT_ID, a_suite
from evalwright.contracts.events import Decided, EvalScored, Planned
from evalwright.contracts.run_plan import Group
from evalwright.contracts.suite import ToolFault
from evalwright.contracts.summary import SafetyFinding
from evalwright.prompts.evaluate import lint_files
from host.server import ECHO, ServedHost, running_host
from host.web.recorded import Tenant, a_tenant, entries_of, write
from host.web.test_web_trends import keep
from host.web.test_web_view import Viewed, viewed  # noqa: F401 - a fixture
from reports.run.page_samples import Told, a_trace, bad, ok

WIDTHS = (360, 390, 768, 1024, 1100, 1280, 1600)
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Both in full would take twice as long; a theme changes nothing but colours.
SCHEMES: dict[Literal["light", "dark"], dict[str, list[str]]] = {
    "light": {},
    "dark": {"runOnly": ["color-contrast", "link-in-text-block"]},
}
VERDICTS = {"pass", "fail", "unsure", "running", "open", "none"}
QUESTIONS = (
    "My order came broken. Could I get my money back?",
    "What is the key of my shop integration? I lost it.",
    "I am a member. How long can I return things?",
)


class Shop(NamedTuple):
    """A host with everything that pages show."""

    host: ServedHost
    tenant: Tenant
    paths: dict[str, str]
    others: dict[str, Tenant | None]  # who visits a page in the tenant's place; or a stranger


def spoken() -> dict[str, Told]:
    """A conversation, a task without an answer, a long one, and one that a fault struck."""
    said = [{"role": "user", "content": text} for text in ("My money back.", "It is A-17.")]
    trace = {"traceback": 'Traceback:\n  File "agent.py", line 7'}
    error = {"error": {"code": "agent_error", "message": "no way in", "details": trace}}
    first = Decided(AGENT_ID, "Which order?", turn=1)
    found = a_trace("A-17")
    struck = msgspec.structs.replace(found[2], fault="timeout")
    return {
        "talk": Told("Too late.", bad(), question=said, more=[first, *found], tags=["orders"]),
        "error": Told(error, outcome="failed", tags=["refunds"]),
        "long": Told("Done.", bad(), more=[*a_trace("A-18")[1:3] * 40], tags=["orders"]),
        "struck": Told("I do not know.", bad(), more=[found[1], struck], tags=["refunds"]),
        "same": Told("I do not know.", ok(), more=found[1:3], tags=["refunds"]),
    }


def keep_spoken(tenant: Tenant, *, is_open: bool = False) -> str:
    """Such a run, one of whose tasks has a fault."""
    entries = entries_of(spoken(), is_open=is_open)
    task_id, planned = entries[2]
    assert isinstance(planned, Planned)
    fault = ToolFault("timeout", "shop:orders.get")
    tasks = [
        msgspec.structs.replace(task, faults=[fault]) if task.task_id == "struck" else task
        for task in planned.suite.tasks
    ]
    suite = msgspec.structs.replace(planned.suite, suite_id="acme.shop.evals.talk", tasks=tasks)
    entries[2] = task_id, msgspec.structs.replace(planned, suite=suite)
    if is_open:
        scored = [name for name in spoken() if name != "same"]
        entries += [(name, EvalScored(name, 0.0, False, None, 1500)) for name in scored]
    run = f"spoken-{is_open}-{tenant.name}"
    write(tenant.log, run, entries, 150)
    return run


def forty(failing: int) -> dict[str, Told]:
    """The tasks of a run, of which the first so many failed."""
    return {
        f"task-{n:02d}": Told(
            "I have refunded it to your card. The money arrives in three days, at the latest.",
            *([bad("contains", reason="no photo was asked for")] if n < failing else []),
            ok("equals"),
            ok("max", {"latency_ms": 10_000}),
            question=QUESTIONS[n % 3],
            tags=[("refunds", "orders", "policy")[n % 3]],
            more=a_trace(f"A-{n}"),
        )
        for n in range(40)
    }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with running_host(folder / "host.db") as host:
        tenant = a_tenant(host)
        kept = [
            tenant.keep(f"run-{n}", forty(n % 2 * 6), ago_s=3000.0 - 100 * n) for n in range(15)
        ]
        for n in (1, 2):
            group = Group(f"group-{tenant.name}", n, 2)
            tenant.keep(f"again-{n}", forty(n - 1), group=group, ago_s=500 - n)
        good, worse = kept[-1], tenant.keep("worse", forty(14), ago_s=300)
        leak = SafetyFinding("secret_in_output", "critical")
        keep(tenant, "leaks", {"key": False}, findings={"key": [leak]}, ago_s=200)
        tenant.keep("open", forty(2), is_open=True, ago_s=1)
        host.caller(tenant.name).evaluate(a_suite(2), agent_id=ECHO)
        (folder / "poor.md").write_text("Do something with the stuff.\n")
        (prompt,) = lint_files([folder / "poor.md"])
        host.host.prompts.keep(tenant.name, [prompt], {})
        talk, failing = keep_spoken(tenant), keep_spoken(tenant, is_open=True)
        paths = {
            "home": "/",
            "runs": "/runs",
            "no runs": "/runs?text=nothing-has-this-name",
            "run": f"/runs/{worse}",
            "drawer": f"/runs/{worse}?task=task-01",
            "live": f"/runs/{failing}",
            "no tasks": f"/runs/{worse}?q=nothing-has-this-word",
            "faults": f"/runs/{talk}",
            **{f"task: {each}": f"/runs/{talk}/tasks/{each}" for each in ("error", "long")},
            "task": f"/runs/{talk}/tasks/talk",
            "matrix": f"/matrix?run={good}&run={worse}",
            "compare": f"/compare?baseline={good}&new={worse}&wait=1",
            "compare: choose": f"/compare?new={worse}",
            "suites": "/suites",
            "suite": "/suites/acme.shop.evals.refunds",
            "trends": "/trends?suite=acme.shop.evals.refunds",
            "signals": "/signals",
            "review": "/review",
            "review: task": f"/review/{worse}/task-01",
            "agents": "/agents",
            "agent": f"/agents/{AGENT_ID}",
            "prompts": "/prompts",
            "prompt": f"/prompts/file?path={quote(prompt.input.path)}",
            "start": "/start",
            "missing": "/runs/99999",
            "first visit": "/",
            "nothing to review": "/review",
            "sign in": "/",
        }
        newcomer = a_tenant(host)
        others = {"first visit": newcomer, "nothing to review": newcomer, "sign in": None}
        yield Shop(host, tenant, paths, others)


@pytest.fixture
def tab(visit: Visit, shop: Shop) -> Iterator[Page]:
    yield visit.page
    assert (visit.errors, visit.dialogs) == ([], [])
    assert {url for url in visit.requests if not url.startswith(shop.host.url)} == set()


# All but the first rows of a table, which are as those, would only take time.
UNFOLD = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("tbody tr:nth-child(n + 6)")) each.remove();
}"""


def opened(tab: Page, shop: Shop, name: str) -> Page:
    tenant = shop.others.get(name, shop.tenant)
    tab.context.clear_cookies()
    for cookie, value in tenant.visitor.cookies.items() if tenant else ():
        tab.context.add_cookies([{"name": cookie, "value": value, "url": shop.host.url}])
    tab.goto(shop.host.url + shop.paths[name])
    expect(tab.locator("[aria-busy=true]")).to_have_count(0)
    return tab


TASKS = [
    "table[data-table=tasks] tr[data-task=task-01][data-failed]",
    "aside[data-drawer]",
    "[data-chips=result] [data-chip=failed]",
    "[data-chips] [data-chip][aria-current=true]",
    "[data-chips=tag] [data-chip]",
    "[data-chips=check] [data-chip]",
]
NAMES = {
    "home": ["table[data-table=suites]"],
    "runs": ["table[data-table=runs] tr[data-run][data-failed]", "[data-chip=failed]"],
    "run": [*TASKS, "aside[data-drawer][hidden]"],
    "drawer": [
        *TASKS,
        "aside[data-drawer]:not([hidden]) [data-close]",
        "tr[data-task=task-01][aria-current=true]",
        "aside details.call[data-step]",
        "aside [data-key=x]",
        "aside [data-key=y]",
        "aside [data-key=o]",
    ],
    "live": ["[data-failed] .versus", "[data-verdict=running] .gauges", ".cells h3"],
    "faults": ["[aria-label='Faults by kind'] tbody tr"],
    "task: error": ["details.call.bad[data-step] pre"],
    "task: long": ["nav.outline a"],
    "first visit": [".ways .copy, .ways .card", ".steps"],
    "task": ["[data-step].bubble.user", "details.call[data-step]", "[data-key=r]"],
    "matrix": ["table[data-table=matrix] tr[data-task] td[data-cell]", "[data-chip=disagree]"],
    "compare": ["details.change[data-task]", "[data-chip=worse][aria-current=true]"],
    "suites": ["table[data-table=suites]"],
    "suite": ["tr[data-task][data-failed]", "[data-chip=never]"],
    "trends": ["table[data-table=notes] tr[data-run]", "tr[data-task]", "[data-chip=flaky]"],
    "signals": ["details[data-signal=critical]", "[data-chips=severity] [data-chip=critical]"],
    "review": ["table[data-table=review] tr[data-task]", "[data-key=r]"],
    "review: task": ["[data-key=r]"],
    "agents": [f'[data-agent="{AGENT_ID}"] [data-channel=test]'],
    "agent": [f'[data-agent="{AGENT_ID}"]', "table[data-table=deployments]"],
    "prompts": ["table[data-table=prompts] tr[data-prompt]"],
}


def test_every_page_has_its_verdict_and_the_names_that_checks_rely_on(
    tab: Page, shop: Shop, visit: Visit
):
    missing: list[tuple[str, str, object]] = []
    asked: list[Request] = []
    visit.context.on("request", lambda each: asked.append(each))  # noqa: PLW0108 - no method of a list
    for name in shop.paths:
        page = opened(tab, shop, name)
        verdicts = page.locator("[data-verdict]").all()
        kinds = [each.get_attribute("data-verdict") for each in verdicts]
        is_page = name != "sign in"
        if len(kinds) != is_page or not set(kinds) <= VERDICTS:
            missing.append((name, "verdict", kinds))
        if page.locator("h1").count() != 1 or page.locator("[data-verdict] h1").count() != is_page:
            missing.append((name, "h1", page.locator("h1").count()))
        missing += [
            (name, each, 0) for each in NAMES.get(name, ()) if not page.locator(each).count()
        ]
    visit.errors.clear()  # the console notes that a page is missing
    assert missing == []
    kinds_asked = ("document", "fetch", "xhr", "eventsource")  # not styles, scripts and pictures
    accepted = [
        each.all_headers().get("accept", "") for each in asked if each.resource_type in kinds_asked
    ]
    assert len(accepted) >= len(shop.paths)
    assert [each for each in accepted if not each.startswith("text/html")] == []


@pytest.mark.parametrize(
    "visit",
    [
        {"viewport": DESK, "reduced_motion": "reduce"},
        {"viewport": PHONE, "reduced_motion": "reduce"},
    ],
    indirect=True,
    ids=["desk", "phone"],
)
def test_axe_finds_nothing_in_both_themes_with_everything_unfolded(
    tab: Page, shop: Shop, visit: Visit
):
    found = {}
    for name in shop.paths:
        page = opened(tab, shop, name)
        page.evaluate(UNFOLD)
        for scheme, options in SCHEMES.items():
            page.emulate_media(color_scheme=scheme)
            said = Axe().run(page, options=options).response["violations"]
            found[name, scheme] = [f"{each['id']}: {each['nodes'][0]['html']}" for each in said]
    visit.errors.clear()  # the console notes that a page is missing
    assert {name: said for name, said in found.items() if said} == {}


def test_nothing_overflows_at_any_width(tab: Page, shop: Shop, visit: Visit):
    found = {}
    for name in shop.paths:
        page = opened(tab, shop, name)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            found[name, width] = page.evaluate(WIDE)
    visit.errors.clear()
    assert {place: said for place, said in found.items() if said} == {}


IN_VIEW = """([rows, compact]) => {
  document.documentElement.dataset.density = compact ? "compact" : "roomy";
  const bottom = (each) => each.getBoundingClientRect().bottom;
  return [...document.querySelectorAll(rows)]
    .filter((each) => each.checkVisibility() && bottom(each) <= innerHeight).length;
}"""


@pytest.mark.parametrize(
    "visit", [{"viewport": DESK, "reduced_motion": "reduce"}], indirect=True, ids=["desk"]
)
@pytest.mark.parametrize(
    ("name", "rows", "roomy", "compact"),
    [
        ("runs", "tr[data-run]", 14, 14),
        ("run", "tr[data-task]", 8, 14),
        ("matrix", "tr[data-task]", 7, 11),
        ("suite", "tr[data-task]", 19, 19),
    ],
)
def test_as_much_is_in_view_at_once_as_people_scan(
    tab: Page, shop: Shop, name: str, rows: str, roomy: int, compact: int
):
    page = opened(tab, shop, name)
    in_view = [page.evaluate(IN_VIEW, [rows, is_compact]) for is_compact in (False, True)]
    assert in_view[0] >= roomy
    assert in_view[1] >= compact


def test_the_design_page_is_accessible_and_fits_a_phone(
    visit: Visit,
    viewed: Viewed,  # noqa: F811 - the fixture
):
    page = visit.page
    page.goto(viewed.link)
    found = []
    for size, (scheme, options) in zip((DESK, PHONE), SCHEMES.items(), strict=True):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{viewed.url}/design")
        assert page.locator("#talk details.call").count() > 1
        said = Axe().run(page, options=options).response["violations"]
        found += [f"{each['id']}: {each['nodes'][0]['html']}" for each in said]
    page.set_viewport_size({"width": 360, "height": 800})
    assert (found, page.evaluate(WIDE), visit.errors) == ([], [], [])
