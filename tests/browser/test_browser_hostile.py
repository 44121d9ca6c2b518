"""Names that others chose, on every page that shows them: nothing runs, breaks out, or is lost."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest

from browser.conftest import Visit
from browser.test_browser_axe import WIDE
from builders import a_suite
from evalwright.prompts.evaluate import lint_files
from host.server import WRONG, ServedHost, running_host
from host.web.visitor import signed_in

NARROW = {"viewport": {"width": 360, "height": 780}}
HOSTILE = [
    "<script>__called(1)</script>",
    '"><img src=x onerror=__called(2)>',
    "javascript:__called(3)",
    "right\u202eto left\u202c",
    "../../sign-out",
    "a%2Fb/c?d=e#f&g",
    "x" * 60,
    "\U0001f468\u200d\U0001f525 \u00e9",
    "line\u2028break\u2029",
    "bell\x07 escape\x1b",
    "{{ 7*7 }}'\"`\\",
]


class Named(NamedTuple):
    """A host in which everything has a hostile name."""

    host: ServedHost
    cookies: dict[str, str]
    run_id: str


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "a.md").write_text("You are a clerk. Be nice or so.")
    (linted,) = lint_files([folder / "a.md"])
    with running_host(folder / "host.db") as host:
        caller = host.caller("acme")
        suite = caller.publish(a_suite(2))
        run_id = caller.evaluate(suite, agent_id=WRONG, tags=list(filter(str.isprintable, HOSTILE)))
        caller.evaluate(suite, agent_id=WRONG)
        visitor = signed_in(host.url, caller.key or "")
        visitor.get(f"/review/{run_id}/task-1")
        said = {"verdict": "pass", "reason": "\n".join(HOSTILE), "answer": "\n".join(HOSTILE)}
        assert visitor.post(f"/review/{run_id}/task-1", said).status == 303
        for number, each in enumerate(HOSTILE):
            result = msgspec.to_builtins(linted)
            result["input"] = {"path": f"{each}.md", "type": "markdown"}
            assert caller.post("/v1/prompts/results", {"results": [result]}).status == 200
            told = {"persona": each, "label": each, "description": each, "systemPrompt": each}
            manifest = {"agentId": f"local.shop.n{number}", "modelClass": "general", **told}
            body = {"version": "1.0.0", "manifest": manifest}
            assert caller.post("/v1/agents", body).status == 201, each
            wrong = caller.post("/v1/agents", body | {"version": f"1.0.0{each}"})
            assert wrong.status == 400, "versions and ids are in addresses, and are plain"
        yield Named(host, visitor.cookies, run_id)


@pytest.mark.parametrize("visit", [NARROW], indirect=True)
def test_hostile_names_run_nothing_fit_a_phone_and_lead_to_what_they_name(
    visit: Visit, named: Named
):
    page, url, run = visit.page, named.host.url, named.run_id
    visit.context.add_cookies(
        [{"name": name, "value": value, "url": url} for name, value in named.cookies.items()]
    )
    found: dict[str, list[str]] = {}
    outcomes: dict[str, tuple[int, list[str]]] = {}

    def see(address: str) -> None:
        answer = page.goto(address)
        outcomes[address] = (answer.status if answer else 0, page.evaluate(WIDE))

    for path in ("/", f"/runs/{run}", f"/review/{run}/task-1", "/review?state=done", "/compare"):
        see(url + path)
    for path in ("/prompts", "/agents"):
        see(url + path)
        links = f"[...document.querySelectorAll(':is(tbody, [data-agent]) a[href^=\"{path}\"]')]"
        found[path] = page.evaluate(f"{links}.map(each => each.href)")
    for href in [*found["/prompts"], *(each for each in found["/agents"] if "local.shop" in each)]:
        see(href)
    assert len(set(found["/prompts"])) == len(HOSTILE)
    assert {place: told for place, told in outcomes.items() if told != (200, [])} == {}
    assert len(outcomes) == 7 + 2 * len(HOSTILE)
    foreign = [each for each in visit.requests if not each.startswith(url)]
    assert (foreign, visit.errors, visit.calls, visit.dialogs) == ([], [], [], [])
