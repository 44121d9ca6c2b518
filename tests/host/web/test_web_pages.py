"""All pages: headers, caches, errors, scopes, static files, sizes."""

import gzip
import hashlib
import json
import re
import tomllib
from collections.abc import Callable
from html import unescape
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pytest

import evalwright
from builders import AGENT_ID, a_suite
from evalwright.host.access.keys import SCOPES
from evalwright.host.web.page import NOBODY, WebPage, time_html, time_words
from evalwright.host.web.sessions import WebSession
from evalwright.host.web.site import KEY_PAGES, PAGES
from evalwright.host.web.static_files import address_of, file_at
from host.caller import Caller
from host.server import WRONG, ServedHost
from host.web.visitor import Visitor

STATIC = files("evalwright.host.web") / "static"
SOURCE = Path(evalwright.__file__).parent
FIELD = re.compile(
    r'<(?:input|option)\b[^>]*? value="([^"]*)"|<textarea\b[^>]*>\n?([^<]*)</textarea>'
)
COLOUR = re.compile(r"(?<!&)#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(")


def values_of(page: str) -> set[str]:
    """The values that the fields of a page would send."""
    return {unescape("".join(found)) for found in FIELD.findall(page)}


def test_no_page_can_be_framed_cached_or_made_to_load_something(visitor: Visitor):
    for path in ("/", "/nothing", "/sign-in"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_a_page_that_does_not_exist_says_so(visitor: Visitor):
    answer = visitor.get("/nothing")
    assert answer.status == 404
    assert "there is no such page" in answer.text


@pytest.mark.parametrize(
    ("guessed", "page"),
    [
        ("/runs/?tag=a%20b", "/runs?tag=a%20b"),
        ("/suites/", "/suites"),
        ("/agents/a%0D%0Ab/", "/agents/a%0D%0Ab"),
    ],
)
def test_addresses_that_people_guess_lead_to_the_page(visitor: Visitor, guessed: str, page: str):
    answer = visitor.get(guessed)
    assert (answer.status, answer.location) == (303, page)


@pytest.mark.parametrize("path", ["//evil.example/", "/nothing/", "/runs//evil.example/"])
def test_no_guess_leads_to_what_is_no_page(visitor: Visitor, path: str):
    assert visitor.get(path).status == 404


def test_a_method_that_a_page_does_not_take_is_refused_with_those_it_takes(visitor: Visitor):
    answer = visitor.send("DELETE", "/start")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


def test_a_program_gets_errors_as_json(visitor: Visitor):
    answer = visitor.get("/nothing", Accept="application/json")
    assert (answer.status, json.loads(answer.text)["error"]) == (404, "not_found")


def test_a_script_gets_a_message_and_no_whole_page(visitor: Visitor, lasting: ServedHost):
    answer = visitor.get("/nothing", HX_Request="true")
    assert answer.status == 404
    assert answer.text.startswith('<div class="note fail" role="alert">')
    answer = Visitor(lasting.url).get("/", HX_Request="true")
    assert answer.status == 401
    assert "<html" not in answer.text


def test_scopes_decide_what_is_in_the_menu(with_scopes: Callable[..., Visitor]):
    visitor = with_scopes("scoped", "suites:read")
    answer = visitor.get("/")
    assert answer.status == 403
    assert "your key lacks the scope runs:read" in answer.text
    assert 'aria-label="Pages"' not in answer.text
    assert visitor.post("/sign-out").status == 303


def test_every_page_names_its_scopes_or_is_open_on_purpose():
    assert [entry.path for entry in PAGES if not entry.scopes] == []
    assert {entry.path for entry in KEY_PAGES if entry.scopes is None} == {"/sign-in"}
    writes = [entry for entry in (*PAGES, *KEY_PAGES) if entry.method != "GET"]
    assert {entry.method for entry in writes} <= {"POST"}


def path_of(entry: WebPage, run_id: str) -> str:
    """The path of a page, about a run."""
    filled = entry.path.replace("{runId}", run_id).replace("{taskId}", "task-1")
    return re.sub(r"\{\w+\}", "1", filled)


def test_nobody_reads_a_page_without_signing_in(lasting: ServedHost):
    stranger = Visitor(lasting.url)
    paths = {path_of(entry, "run_1") for entry in PAGES}
    assert {path: status for path in paths if (status := stranger.get(path).status) != 401} == {}


def test_a_key_that_may_only_read_writes_on_no_page(with_scopes: Callable[..., Visitor]):
    reader = with_scopes("readers", *(scope for scope in SCOPES if scope.endswith(":read")))
    reader.get("/")
    writes = [path_of(entry, "run_1") for entry in PAGES if entry.method != "GET"]
    assert len(writes) > 4
    assert {path: status for path in writes if (status := reader.post(path).status) != 403} == {}


def test_a_run_of_another_tenant_is_found_on_no_page(visitor: Visitor, lasting: ServedHost):
    run_id = lasting.caller("owners").evaluate(a_suite(1))
    about = [entry for entry in PAGES if "{runId}" in entry.path]
    for entry in about:
        answer = visitor.send(entry.method, path_of(entry, run_id), X_CSRF_Token=visitor.token)
        assert answer.status == 404, entry


def test_static_files_are_kept_for_good_and_sent_compressed(lasting: ServedHost):
    for name in (
        "app.js",
        "pages.js",
        "theme.js",
        "htmx.js",
        "style.css",
        "mark.svg",
        "favicon.svg",
    ):
        answer = Visitor(lasting.url).get(address_of(name), Accept_Encoding="gzip")
        assert answer.status == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
    assert Visitor(lasting.url).get("/static/app.000000000000.js").status == 404
    assert Visitor(lasting.url).get("/static/../page.py").status == 404


def test_the_name_of_a_static_file_changes_with_its_content():
    found = file_at(address_of("app.js"))
    assert found is not None
    assert hashlib.sha256(found.content).hexdigest()[:12] in found.path


def test_the_first_page_with_all_that_it_needs_is_small(visitor: Visitor):
    html = visitor.get("/", Accept_Encoding="gzip").text
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', html)
    assert len(set(named)) == 7
    files_at = [found for found in map(file_at, named) if found is not None]
    total = len(gzip.compress(html.encode())) + sum(len(each.packed) for each in files_at)
    assert total <= 100_000


def test_vendored_files_are_those_of_their_packages():
    listed = tomllib.loads((STATIC / "vendor" / "vendored.toml").read_text())
    hashes = {name: due for package in listed.values() for name, due in package["sha256"].items()}
    licences = {package["licence_file"] for package in listed.values()}
    found = {each.name: each.read_bytes() for each in (STATIC / "vendor").iterdir()}
    assert found.keys() == hashes.keys() | licences | {"vendored.toml"}
    assert {name: hashlib.sha256(found[name]).hexdigest() for name in hashes} == hashes


def test_colours_are_defined_once():
    """One design system: no other style, script or template of ours names a colour."""
    paths = [
        path
        for kind in ("*.css", "*.js", "*.html")
        for path in SOURCE.rglob(kind)
        if "vendor" not in path.parts
        and path.relative_to(SOURCE).as_posix() != "reports/design/static/tokens.css"
    ]
    assert len(paths) > 10
    named = {
        path.name: COLOUR.findall(path.read_text()) for path in paths if "{" in path.read_text()
    }
    assert {name: found for name, found in named.items() if found} == {}


def test_templates_hold_no_script_and_no_style():
    for path in (SOURCE / "host" / "web" / "templates").glob("*.html"):
        text = path.read_text()
        assert not re.search(
            r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|hx-on|js:", text
        ), path


def test_pages_and_reports_have_one_sign_for_what_failed():
    other = re.compile("\u2715|&#10005;")
    texts = [*SOURCE.glob("host/web/**/*.*"), *SOURCE.glob("reports/**/*.*")]
    shown = [each for each in texts if each.suffix in (".py", ".html", ".js", ".css")]
    assert len(shown) > 100
    assert [str(each) for each in shown if other.search(each.read_text())] == []


def test_verdicts_of_runs_and_of_tasks_are_written_alike(visitor: Visitor, newcomer: Caller):
    run_id = newcomer.evaluate(a_suite(1), WRONG)
    failed = (
        '<span class="result is-fail"><svg class="shape fail" aria-hidden="true">'
        '<use href="#s-fail"></use></svg><span class="word">Failed</span></span>'
    )
    for path in ("/runs", f"/runs/{run_id}", f"/review?run={run_id}"):
        assert failed in visitor.get(path).text, path
    assert '<h1 id="verdict">Failed: ' in visitor.get(f"/runs/{run_id}/tasks/task-1").text


def test_hidden_characters_of_a_text_are_written_out(visitor: Visitor, newcomer: Caller):
    newcomer.evaluate(a_suite(1))
    answer = visitor.get("/trends?suite=%E2%80%AEevil%3Cscript%3E")
    assert "<script>" not in answer.text
    assert "⟦U+202E⟧evil" in answer.text


@pytest.mark.parametrize(
    "text", ["a\u200db", "\u202ea\ufe0f", "a\u00adb</textarea>", "a\x1b&lt;'\""]
)
def test_fields_give_a_text_back_as_it_was_typed(visitor: Visitor, newcomer: Caller, text: str):
    newcomer.evaluate(a_suite(1))
    query = quote(text, safe="")
    for path in (f"/runs?text={query}", f"/review?q={query}", f"/trends?tag={query}"):
        assert text in values_of(visitor.get(path).text), path
    assert text in values_of(visitor.get(f"/trends?suite={query}").text), "one to choose from"
    sent = {"budget": text, "tags": f"{text} more"}
    assert {*sent.values()} <= values_of(visitor.post("/start", sent).text)
    refused = visitor.post(f"/agents/{AGENT_ID}", {"version": "none", "reason": text})
    assert text in values_of(refused.text)


def test_each_value_of_a_field_is_written_as_it_is():
    for template in (SOURCE / "host" / "web" / "templates").glob("*.html"):
        for line in template.read_text().splitlines():
            values = re.findall(r'<(?:input|option)[^>]* value="(\{\{[^"]*)"', line)
            values += re.findall(r"(\{\{[^<]*)</textarea>", line)
            loose = [each for each in values if "| exact" not in each and each != "{{ csrf }}"]
            assert (template.name, loose) == (template.name, [])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (7199, "1 h ago"),
        (90_000, "1 day ago"),
        (3 * 86_400, "3 days ago"),
        (60 * 86_400, "1969-11-02"),
    ],
)
def test_times_are_told_from_now_on(seconds: int, words: str):
    assert time_words(-seconds, 0) == words
    assert words in time_html(-seconds * 1_000_000, 0)


def test_a_token_is_good_for_its_session_only_and_never_the_same():
    mine, other = WebSession("a", NOBODY), WebSession("b", NOBODY)
    first, second = mine.new_token(), mine.new_token()
    assert first != second
    assert mine.accepts(first)
    assert not other.accepts(first)
    assert not mine.accepts(first[:-1])


def test_requests_for_pages_are_measured_by_their_template(visitor: Visitor, lasting: ServedHost):
    visitor.get("/runs/run_1")
    visitor.get("/nothing")
    metrics = lasting.caller("operator").get("/v1/host/metrics").body.decode()
    assert 'route="/runs/{runId}"' in metrics
    assert "nothing" not in metrics
    assert "run_1" not in metrics


def test_the_menu_marks_the_part_of_the_site_that_a_page_belongs_to(
    visitor: Visitor, newcomer: Caller
):
    run_id = newcomer.evaluate(a_suite(1))
    for path, name, current in [
        ("/", "Home", "page"),
        ("/runs", "Runs", "page"),
        (f"/runs/{run_id}", "Runs", "true"),
        ("/suites/acme.shop.evals.refunds", "Suites", "true"),
        ("/agents", "Agents", "page"),
        (f"/agents/{AGENT_ID}", "Agents", "true"),
        (f"/review/{run_id}/task-1", "Review", "true"),
    ]:
        bar = visitor.get(path).text.partition('<nav class="pages"')[2].partition("</nav>")[0]
        marked = re.findall(r'aria-current="(\w+)">([^<]+)</a>', bar)
        assert marked == [(current, name)], path
