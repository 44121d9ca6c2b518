"""A task in the browser: its conversation in parts, with links; payloads when they are opened."""

import re
from html import unescape

import pytest

from builders import AGENT_ID, a_usage
from evalwright.contracts.attachments import Attached
from evalwright.contracts.events import (
    Decided,
    Found,
    Payload,
    Reasoned,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.summary import SafetyFinding
from evalwright.host.web import run_views
from host.server import ServedHost
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant
from reports.run.page_samples import Told, a_trace, bad, ok

PICTURE = {"name": "photo.png", "type": "image/png", "bytes": 3, "sha256": "1" * 64}
PAGE = {"name": "a.html", "type": "text/html", "bytes": 3, "sha256": "2" * 64}
WITH_FILES = ["What is this?", {"image": PICTURE}, {"file": PAGE}]
ATTACHED = {"1" * 64: Attached("image/png", "YWJj"), "2" * 64: Attached("text/html", "YWJj")}
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def tenant(lasting: ServedHost) -> Tenant:
    return a_tenant(lasting)


def steps_in(page: str) -> list[str]:
    """The ids of the steps of a conversation."""
    return re.findall(r'<li (?=[^>]*id="(\w+)")', page)


def calls(count: int, text: str = "x") -> list[Payload]:
    return [
        each
        for n in range(count)
        for each in (
            ToolCalled(AGENT_ID, "shop:get", f"c{n}", {"n": n, "text": text}),
            ToolReturned(AGENT_ID, "shop:get", f"c{n}", {"state": text}, duration_ms=3),
        )
    ]


def shown(tenant: Tenant, path: str, **headers: str) -> str:
    answer = tenant.visitor.get(path, **headers)
    assert answer.status == 200, answer.text
    return answer.text


def test_a_call_is_shown_with_its_result_time_tokens_and_cost(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=[a_usage(0.25), *calls(1, "A-17")])})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    (call,) = re.findall(r'<details class="call.*?</details>', page, re.DOTALL)
    assert ">shop:get</span>" in call
    assert ">3 ms</span>" in call
    assert "Returned" in call
    assert '"state": "A-17"' in unescape(call)
    assert "100 tokens in, 20 out" in page
    assert "$0.25" in page
    assert "tool calls: recorded · model usage: recorded · messages: not observed" in page


def test_the_page_says_first_how_the_task_came_out_and_why(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("no", bad(reason="it is too short")), "b": Told("x", ok())})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert re.search(r'data-verdict="fail".*?<h1[^>]*>Failed: .*?it is too short', page, re.DOTALL)
    assert len(re.findall(r"<h1", page)) == 1
    assert 'data-verdict="pass"' in shown(tenant, f"/runs/{run}/tasks/b")


def test_each_turn_of_a_conversation_stands_before_the_answer_to_it(tenant: Tenant):
    said = [{"role": "user", "content": text} for text in ("My money back.", "It is A-17.")]
    turns = [Decided(AGENT_ID, "Which order?", turn=1), *calls(1)]
    run = tenant.keep("run", {"a": Told("Too late.", ok(), question=said, more=turns)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    talk = page[page.index('id="asked"') :]
    words = ("My money back.", "Which order?", "It is A-17.", "shop:get", "Too late.")
    places = [talk.index(each) for each in words]
    assert places == sorted(places)
    assert '"role"' not in unescape(page)
    assert "(the first of 2 messages)" in page


def test_messages_of_other_roles_are_bubbles_too(tenant: Tenant):
    said = [("system", "Be kind."), ("user", "Hi."), ("assistant", "Hello."), ("user", "Bye.")]
    asked = {"messages": [{"role": role, "content": text} for role, text in said]}
    run = tenant.keep("run", {"a": Told("Bye!", ok(), question=asked)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    bubbles = re.findall(r'class="bubble.*?<b>(.*?)</b>.*?class="says">(.*?)<', page, re.DOTALL)
    known = [(role.capitalize(), text) for role, text in said]
    assert [(by, text.strip()) for by, text in bubbles][:4] == known


def test_a_task_without_an_answer_says_why_with_the_traceback_at_its_step(tenant: Tenant):
    trace = 'Traceback:\n  File "a.py", line 7'
    error = {"code": "agent_error", "message": "no way in", "details": {"traceback": trace}}
    run = tenant.keep("run", {"a": Told({"error": error}, outcome="failed")})
    page = unescape(shown(tenant, f"/runs/{run}/tasks/a"))
    assert re.search(r'data-verdict="unsure".*?<h1[^>]*>No answer.*?>No way in<', page, re.DOTALL)
    (step,) = re.findall(r'<details class="call bad".*?</details>', page, re.DOTALL)
    assert trace in step
    assert "agent_error: no way in" in step


def test_every_step_has_a_link_of_its_own(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(2))})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    asked, *steps = steps_in(page)
    assert asked == "asked"
    assert page.count("data-step") == 1 + len(steps)
    links = re.findall(r'href="([^"]*)" aria-label="Link to this step"', page)
    address = f"/runs/{run}/tasks/a"
    assert links == [f"{address}?step={step[1:]}#{step}" for step in steps]
    assert len(steps) == 3, "two calls with their results, and the answer"


def test_reasoning_is_folded_and_a_long_payload_comes_when_it_is_opened(tenant: Tenant):
    more = [Reasoned(AGENT_ID, "short thought"), *calls(1, "long " * 1000)]
    run = tenant.keep("run", {"a": Told("yes", ok(), more=more)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    thought, call = re.findall(r'<details class="call[^>]*>.*?</details>', page, re.DOTALL)
    assert "short thought" in thought
    assert not re.match(r"<details[^>]* open", thought)
    assert "Sent" in call
    assert page.count("long ") < 2000
    (href,) = set(re.findall(r'hx-get="([^"]*/steps/[^"]*)"', page))
    assert f'<a class="button small quiet" href="{href}"' in page, "without a script"
    whole = shown(tenant, href)
    assert whole.count("long ") == 2000
    assert tenant.visitor.get(f"/runs/{run}/tasks/a/steps/99").status == 404
    assert tenant.visitor.get(f"/runs/{run}/tasks/a/steps/x").status == 404


def test_a_long_thought_comes_when_it_is_opened(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=[Reasoned(AGENT_ID, "well " * 2000)])})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert page.count("well ") < 1200
    (href,) = set(re.findall(r'hx-get="([^"]*/steps/[^"]*)"', page))
    assert shown(tenant, href).count("well ") == 2000


def test_a_long_conversation_comes_in_parts_and_a_link_leads_to_the_right_one(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(200))})
    address = f"/runs/{run}/tasks/a"
    page = shown(tenant, address)
    assert page.count("data-step") == 60
    assert "142 more steps" in page
    assert f'href="{address}?from=60"' in page, "without a script"
    part = shown(tenant, f"{address}?from=180", HX_Request="true")
    assert part.count("data-step") == 22
    assert "more steps" not in part
    assert "<main" not in part
    assert 'id="s304"' not in page
    linked = shown(tenant, f"{address}?step=304")
    assert re.search(r'<li id="s304"><details [^>]* open>', linked)
    assert "Earlier steps" in linked


def test_a_long_conversation_has_an_outline_and_a_link_to_its_first_failure(tenant: Tenant):
    lost = ToolReturned(AGENT_ID, "shop:get", "c69", status="error", duration_ms=3)
    more = [*calls(70)[:-1], lost]
    run = tenant.keep("run", {"a": Told("yes", ok(), more=more), "b": Told("x", ok())})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    outline = page[page.index('aria-label="Outline') :].partition("</nav>")[0]
    assert 'aria-label="Map of 72 steps, 1 with a failure"' in outline
    text = " ".join(re.sub(r"<[^>]+>", " ", outline).split())
    assert re.search(r"> Where is it\? 1.30 shop:get .30 31.60 shop:get .11 61.72", text)
    assert text.endswith(", with a failure")
    first = unescape(re.findall(r'href="([^"]*)"[^>]*>(?:(?!</a>).)*First failure', page)[0])
    step = first.rpartition("#")[2]
    assert f'id="{step}"' in shown(tenant, first.partition("#")[0])
    assert 'class="outline' not in shown(tenant, f"/runs/{run}/tasks/b")


def test_the_waterfall_shows_each_call_on_a_bar_of_its_time_and_leads_to_it(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=[a_usage(0.25), *calls(3)])})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    fall = page[page.index('<div class="fall">') :]
    fall = fall[: fall.index('<div class="legend">')]
    bars = re.findall(r'<a href="#(\w+)">.*?<svg role="img" aria-label="from [^"]*, 3 ms"', fall)
    assert len(bars) == 3
    assert fall.count("<a ") == 4, "and the request of the model"
    assert set(re.findall(r'href="#(\w+)"', fall)) <= set(steps_in(page))
    assert "style=" not in page


def test_a_bar_of_the_waterfall_leads_to_a_step_that_is_on_a_further_part(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), more=calls(200))})
    address = f"/runs/{run}/tasks/a"
    page = shown(tenant, f"{address}?from=180")
    fall = page[page.index('<div class="fall">') : page.index('<div class="legend">')]
    (href, *_) = re.findall(rf'href="({address}[^"]*)"', fall)
    assert f'id="{href.partition("#")[2]}"' in shown(tenant, href.partition("#")[0])


def keys_in(page: str) -> list[tuple[str, str]]:
    """The keys that lead to other tasks, and where they lead."""
    found = re.findall(r'href="([^"]*)" data-key="([kjf])"', page)
    return [(key, address) for address, key in found]


def test_keys_lead_to_the_tasks_beside_and_to_the_next_failure(tenant: Tenant):
    tasks = {name: Told("x", bad() if name in "bd" else ok()) for name in "abcd"}
    run = tenant.keep("run", tasks)
    page = shown(tenant, f"/runs/{run}/tasks/b")
    found = dict(keys_in(page))
    assert {key: href.rpartition("/")[2] for key, href in found.items()} == {
        "k": "a",
        "j": "c",
        "f": "d",
    }
    assert "Task 2 of 4" in page


def test_the_tasks_beside_one_of_a_large_run_follow_its_page(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_views, "FEW_EVENTS", 5)
    run = tenant.keep("run", {name: Told("said", bad()) for name in "abc"})
    address = f"/runs/{run}/tasks/b"
    page = shown(tenant, address)
    assert f'hx-get="{address}?beside=1"' in page
    assert 'data-key="j"' not in page
    assert f'<noscript> <a href="{address}?wait=1">Show them</a></noscript>' in page
    assert "said" in page
    assert "Task 2 of 3" in shown(tenant, f"{address}?wait=1")
    beside = shown(tenant, f"{address}?beside=1", HX_Request="true")
    assert "<main" not in beside
    assert keys_in(beside) == [
        (key, f"/runs/{run}/tasks/{name}") for key, name in (("k", "a"), ("j", "c"), ("f", "c"))
    ]
    assert "Task 2 of 3" in shown(tenant, address), "now it is known"
    assert tenant.visitor.get(f"/runs/{run}/tasks/d?beside=1").status == 404


def test_a_finding_leads_to_the_step_that_shows_it(tenant: Tenant):
    found = Found("signals", [SafetyFinding("secret_in_output", "high")])
    run = tenant.keep("run", {"a": Told(f"it is {TOKEN}", bad(), more=[*calls(1), found])})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    beside = page[page.index("<h2>Findings</h2>") :]
    (step,) = re.findall(rf'class="link" href="/runs/{run}/tasks/a\?step=\d+#(s\d+)"', beside)
    assert re.search(rf'<li class="bubble bad" data-step id="{step}">', page)


def test_nothing_that_an_agent_said_becomes_markup(tenant: Tenant):
    more = [Reasoned(AGENT_ID, EVIL), *calls(1, EVIL), *a_trace(EVIL, EVIL)]
    told = Told(EVIL, bad(EVIL, EVIL, reason=EVIL), question=EVIL, more=more)
    address = f"/runs/{tenant.keep('r', {'a': told})}/tasks/a"
    page = shown(tenant, address)
    steps = re.findall(r'id="s(\d+)"', page)
    assert len(steps) > 3
    for each in (page, *(shown(tenant, f"{address}/steps/{step}") for step in steps)):
        plain = each.replace('<img src="/static/', "").replace('<script src="/static/', "")
        for tag in ("<img", "<iframe", "<script"):
            assert tag not in plain


def test_secrets_are_masked_in_steps_payloads_and_results(tenant: Tenant):
    more = calls(1, f"key {TOKEN} " + "x" * 5000) + a_trace("A-17", name=f"shop:{TOKEN}")
    run = tenant.keep("run", {"a": Told(f"it is {TOKEN}", bad(actual=TOKEN), more=more)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert TOKEN not in page
    steps = re.findall(r"id=\"s(\d+)\"", page)
    assert len(steps) > 2
    for step in steps:
        assert TOKEN not in shown(tenant, f"/runs/{run}/tasks/a/steps/{step}")


def test_an_image_of_the_input_is_shown_and_no_other_kind_is_run_as_a_page(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok(), question=WITH_FILES)}, attachments=ATTACHED)
    page = shown(tenant, f"/runs/{run}/tasks/a")
    (address,) = re.findall(r'<img src="([^"]*)" alt="photo.png"', page)
    assert "What is this?" in page
    kept = tenant.visitor.get(f"/review/{run}/a/test.yaml").text
    assert "data: YWJj" in kept
    assert "sha256" not in kept
    image = tenant.visitor.send("GET", unescape(address))
    assert (image.status, image.headers["content-type"]) == (200, "image/png")
    assert image.headers["x-content-type-options"] == "nosniff"
    other = tenant.visitor.send("GET", f"/runs/{run}/tasks/a/attachments/{'2' * 64}")
    assert other.headers["content-type"] == "application/octet-stream"
    assert other.headers["content-disposition"] == "attachment"
    assert tenant.visitor.get(f"/runs/{run}/tasks/a/attachments/{'3' * 64}").status == 404


def test_nobody_sees_the_images_of_another_tenant(tenant: Tenant, lasting: ServedHost):
    run = tenant.keep("run", {"a": Told("yes", ok(), question=WITH_FILES)}, attachments=ATTACHED)
    address = f"/runs/{run}/tasks/a/attachments/{'1' * 64}"
    assert tenant.visitor.get(address).status == 200
    assert a_tenant(lasting).visitor.get(address).status == 404
