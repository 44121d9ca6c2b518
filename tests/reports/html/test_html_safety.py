"""Whatever the data says, it is text: no element, no attribute, no link, no script of its own."""

import base64
import hashlib
import re

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalwright.reports.comparison.case_page import render_case
from evalwright.reports.comparison.overview import assets, render_overview, render_rows_chunk
from reports.html.hostile import HOSTILE, hostile_case, hostile_overview, hostile_rows
from reports.html.page_reader import Page
from reports.html.samples import a_case, an_overview, call, response

OURS = {
    "case": {"script": 0, "img": 0, "iframe": 0, "style": 0, "object": 0, "base": 0},
    "overview": {"script": 1, "img": 0, "iframe": 0, "style": 0, "object": 0, "base": 0},
}
RELATIVE = re.compile(r"(#[\w.~%=+-]+|(?![/\\])[\w./~#-]+)")


PAGES = [
    ("case", render_case(hostile_case())),
    ("overview", render_overview(hostile_overview())),
]


def policy_of(data: bytes) -> str:
    """The content security policy of a page."""
    return next(
        each.attributes["content"]
        for each in Page(data).tags("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    )


@pytest.mark.parametrize(("kind", "data"), PAGES, ids=["case", "overview"])
class TestAHostilePage:
    def test_has_no_element_but_ours(self, kind, data):
        page = Page(data)
        assert {tag: len(page.tags(tag)) for tag in OURS[kind]} == OURS[kind]

    def test_has_no_event_handler_and_no_inline_style(self, kind, data):
        names = {name for element in Page(data).elements for name in element.attributes}
        assert not [name for name in names if name.startswith("on") or name == "style"]

    def test_links_only_inside_the_folder(self, kind, data):
        links = Page(data).links
        assert len(links) > 3
        assert [link for link in links if not RELATIVE.fullmatch(link)] == []

    def test_shows_the_hostile_text_as_text(self, kind, data):
        text = Page(data).text
        assert "<script>" in text
        assert "onerror" in text

    def test_holds_no_hidden_character(self, kind, data):
        assert not re.search("[\u202e\u200b\u2028\u2029\x00\x1b\x7f]", data.decode())
        assert "⟦U+202E⟧" in data.decode()

    def test_forbids_whatever_it_does_not_need(self, kind, data):
        policy = policy_of(data)
        assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'")
        assert "unsafe" not in policy
        assert ("script-src" in policy) == (kind == "overview")

    def test_has_every_id_once_and_every_anchor_resolves(self, kind, data):
        page = Page(data)  # a link with "=" asks for rows of the table
        assert len(page.ids) == len(set(page.ids))
        anchors = {link[1:] for link in page.links if link.startswith("#") and "=" not in link}
        assert anchors <= set(page.ids)


def test_the_overview_allows_exactly_its_own_script():
    data = render_overview(an_overview())
    script = data.partition(b"<script>")[2].partition(b"</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert policy_of(data).endswith(f"script-src 'sha256-{digest}' 'strict-dynamic'")


def test_a_part_of_the_table_cannot_end_the_script_that_it_is():
    data = render_rows_chunk(hostile_rows(), 1)
    assert b"<" not in data
    assert "\u2028".encode() not in data
    assert "\u2029".encode() not in data


def test_a_hostile_link_in_a_row_is_no_link():
    rows = [msgspec.structs.replace(row, href="javascript:alert(1)") for row in hostile_rows()]
    assert b'["",' in render_rows_chunk(rows, 1)
    assert "javascript:alert(1)" not in Page(render_overview(an_overview(rows))).links


def test_the_style_sheet_loads_nothing():
    css = assets()["report.css"].decode()
    assert "url(" not in css
    assert "@import" not in css


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
    st.text(st.characters()),
)
def test_any_payload_gives_a_page_with_only_our_elements(payload, text):
    old = response(call("t", payload), {"type": text, "x": payload})
    new = response(call("t", [payload]), {"type": "message", "role": text, "content": payload})
    page = Page(render_case(a_case(old, new, prompt=text, title=text or "t")))
    assert not page.tags("script")
    assert not page.tags("img")
    assert {"b-0", "n-0", "b-1", "n-1"} <= set(page.ids)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_hostile_text_changes_the_structure_of_a_page(text):
    def shape(words: str) -> list[str]:
        new = response(call(words, {words: words}), {"type": words})
        view = a_case(response(), new, prompt=words, title=words, report_id=words)
        return [element.tag for element in Page(render_case(view)).elements]

    assert shape(text) == shape("plain words")


def test_a_nul_in_a_text_moves_no_other_text():
    text = "before \0 after"
    new = response(call(text, {text: text}))
    view = a_case(response(), new, prompt=text, title=text, report_id=text)
    page = render_case(view)
    assert b"\0" not in page
    assert page.count('<dd class="soft pre">before \u2400 after</dd>'.encode()) == 1
