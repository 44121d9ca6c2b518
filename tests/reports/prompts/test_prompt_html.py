"""The HTML page of records: one file that holds all, findings in the text, nothing that runs."""

import base64
import hashlib
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalwright.prompts.change import compare_results
from evalwright.reports.forms import renderer
from evalwright.reports.prompts.html import distribution
from evalwright.reports.prompts.source_view import masked, source_view
from reports.html.hostile import HOSTILE
from reports.html.page_reader import Page
from reports.prompts.prompt_samples import (
    HOSTILE_TEXTS,
    a_case,
    a_context,
    a_finding,
    a_result,
    an_error,
    hostile_results,
    records,
)

PATH = "prompts/basic/greeting.md"
TEXT = "# Greeting\n\nGreet <some> people & more.\n\nEnd.\n"


def page(results, texts=None, **more):
    return Page(renderer("prompts", "html")(results, a_context(texts, **more)))


def policy(found):
    return next(
        each.attributes["content"]
        for each in found.tags("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    )


class TestTheText:
    def test_a_finding_is_marked_where_it_stands_with_its_message_below(self):
        view = source_view(TEXT, [a_finding(3, 8)], None)
        pieces = [(False, "Greet <"), (True, "some"), (False, "> people & more.")]
        assert view.lines[2] == (3, pieces, "", [a_finding(3, 8)])
        assert (len(view.lines), view.of, view.elsewhere) == (5, 5, [])
        shown = renderer("prompts", "html")(
            [a_result(findings=[a_finding(3, 8)])], a_context({PATH: TEXT})
        ).decode()
        line = shown.partition('<li id="f1l3" data-line="3" class="hit warning">')[2]
        assert "Greet &lt;<mark>some</mark>&gt; people &amp; more." in line
        assert '<span class="strong">PE206</span><p>“some” says no number.</p>' in line

    def test_of_a_long_text_the_lines_around_findings_are_shown_with_their_numbers(self):
        text = "\n".join(f"line {number}" for number in range(1, 501))
        view = source_view(text, [a_finding(100), a_finding(300)], 200)
        assert [line.number for line in view.lines] == [99, 100, 101, 299, 300, 301]
        assert view.lines[0].pieces == [(False, "line 99")]
        assert view.of == 500

    def test_findings_for_which_there_is_no_room_are_listed(self):
        text = "\n".join("x" * 90 for _ in range(500))
        findings = [a_finding(line) for line in (10, 200, 400)]
        view = source_view(text, findings, 300)
        assert [line for line, _ in view.marked] == [10]
        assert view.elsewhere == findings[1:]

    def test_a_finding_beyond_the_end_is_listed(self):
        assert source_view("one\n", [a_finding(9)], None).elsewhere == [a_finding(9)]

    def test_a_very_long_line_is_cut_with_a_word(self):
        (line,) = source_view("x" * 5_000, [a_finding(1, 4_000)], None).lines
        assert line.cut == "4,000 more characters"
        assert line.pieces == [(False, "x" * 1_000)]

    def test_secrets_are_not_shown_and_nothing_moves(self):
        secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG4"
        text = f"key: {secret} end\nPhone +1 212 736 5000."
        hidden = masked(text, [])
        assert secret not in hidden
        assert len(hidden) == len(text)
        assert hidden.endswith(" end\nPhone +1 212 736 5000.")

    def test_personal_data_that_a_finding_points_at_is_not_shown(self):
        text = "Ask\nanna.kovacs@gmail.com please"
        assert "anna" in masked(text, [])
        assert masked(text, [a_finding(2, 1, criterion="safety")]).startswith("Ask\n•••")

    @settings(max_examples=200)
    @given(
        st.text(st.sampled_from("ab <&\n\r\t{\u202e")),
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), max_size=5),
        st.none() | st.integers(0, 40),
    )
    def test_any_text_keeps_its_characters_and_every_finding_is_told_once(self, text, places, room):
        findings = [a_finding(line, column, message="§") for line, column in sorted(places)]
        view = source_view(text, findings, room)
        assert sum(len(line.found) for line in view.lines) + len(view.elsewhere) == len(findings)
        if room is None:
            shown = ["".join(piece for _, piece in line.pieces) for line in view.lines]
            lines = [line.removesuffix("\r") for line in text.split("\n")]
            assert "".join(shown) == "".join(lines)


class TestThePage:
    def test_every_file_is_a_row_that_leads_to_its_details(self):
        found = page([a_result("a.md"), a_result("b.md", 5.0), an_error("c.md")])
        links = [each.attributes["href"] for each in found.tags("a")]
        assert links == ["#main", "#f1", "#f2", "#f3"]
        assert {"f1", "f2", "f3", "table"} <= set(found.ids)
        assert len(found.tags("details")) == 3

    def test_it_says_how_many_passed(self):
        text = page([a_result("a.md"), a_result("b.md", 5.0), an_error("c.md")]).text
        assert "1 of 3 prompts passed, 1 could not be evaluated" in text
        assert "permission_denied 403 Forbidden" in text

    def test_findings_are_shown_in_the_text_and_can_be_jumped_to(self):
        found = page([a_result(findings=[a_finding(3, 8)])], {PATH: TEXT})
        (mark,) = found.tags("mark")
        assert mark.attributes == {}
        assert "#f1l3" in found.links
        assert "f1l3" in found.ids

    def test_a_text_that_is_not_known_leaves_a_list_of_findings(self):
        found = page([a_result(findings=[a_finding(3, 8)])])
        assert "PE206 warning3:8“some” says no number." in found.text

    def test_runs_judges_and_test_cases_are_shown(self):
        cases = [a_case(1), a_case(2, passed=False, reason="no greeting", completion="Bye!")]
        results = [
            a_result(score=score, model=model, run=run, cases=cases)
            for model, score in (("phi4", 8.0), ("mistral", 6.0))
            for run in (1, 2)
        ]
        text = page(results).text
        assert "Judges beside each other" in text
        assert "Runs: 2, mean 80%, sd 0.0" in text
        assert "no greeting" in text
        assert "Bye!" in text

    def test_the_change_since_a_baseline_is_shown(self):
        now = [a_result(score={"safety": 7.0}, tier=0)]
        change = compare_results([a_result(tier=0)], now)
        text = page(now, change=change).text
        assert "1 worse" in text
        assert "safety \N{MINUS SIGN}10" in text

    def test_of_a_large_library_the_page_stays_small_and_says_what_it_leaves_out(self):
        text = "\n".join(f"This is line {number} of a prompt." for number in range(1, 200))
        paths = [f"prompts/part-{number % 20}/prompt-{number}.md" for number in range(2000)]
        findings = [a_finding(line) for line in (20, 90, 150)]
        results = [
            a_result(path, 6.0 + number % 4, findings=findings if number % 2 else ())
            for number, path in enumerate(paths)
        ]
        data = renderer("prompts", "html")(results, a_context(dict.fromkeys(paths, text)))
        assert len(data) < 5_000_000
        shown = Page(data).text
        assert "This is a large library" in shown
        assert "Shortened: " in shown
        assert "The text is left out" in shown
        assert "This is line 20 of a prompt." in shown
        assert "This is line 50 of a prompt." not in shown

    def test_it_loads_nothing_and_links_only_within_itself(self):
        found = page(hostile_results(), HOSTILE_TEXTS)
        assert [link for link in found.links if not re.fullmatch(r"#[a-z0-9-]+", link)] == []
        style = found.text.partition("File by file")[0]
        assert "url(" not in style
        assert "@import" not in style

    def test_it_allows_exactly_its_own_style_and_script(self):
        data = renderer("prompts", "html")([a_result()], a_context())
        for tag in ("style", "script"):
            inner = data.partition(f"<{tag}>".encode())[2].partition(f"</{tag}>".encode())[0]
            digest = base64.b64encode(hashlib.sha256(inner).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy(Page(data))
        assert policy(Page(data)).startswith("default-src 'none'; base-uri 'none'")
        assert "unsafe" not in policy(Page(data))


class TestAHostilePage:
    found = page(hostile_results(), HOSTILE_TEXTS)

    def test_has_no_element_but_ours(self):
        tags = {tag: len(self.found.tags(tag)) for tag in ("script", "style", "img", "iframe")}
        assert tags == {"script": 1, "style": 1, "img": 0, "iframe": 0}

    def test_has_no_event_handler_and_no_inline_style(self):
        names = {name for element in self.found.elements for name in element.attributes}
        assert not [name for name in names if name.startswith("on") or name == "style"]

    def test_shows_the_hostile_text_as_text(self):
        assert "<script>window.__pwned=1;alert(1)</script>" in self.found.text
        assert "⟦U+202E⟧" in self.found.text

    def test_has_every_id_once_and_every_anchor_resolves(self):
        assert len(self.found.ids) == len(set(self.found.ids))
        anchors = {link[1:] for link in self.found.links}
        assert anchors <= set(self.found.ids)


@pytest.mark.parametrize("words", HOSTILE[:12], ids=range(12))
def test_no_text_changes_the_structure_of_the_page(words):
    def shape(text):
        path = f"a/{text}"
        result = a_result(
            path, 5.0, findings=[a_finding(1, 3, message=text)], reasoning=text, summary=text
        )
        found = page([result], {path: f"a {text}"})
        return [(each.tag, sorted(each.attributes)) for each in found.elements]

    assert shape(words) == shape("plain words")


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30, deadline=None)
@given(st.lists(records, max_size=4))
def test_any_records_give_a_page_with_only_our_elements(results):
    found = page(results, {each.input.path: "a\nb" for each in results})
    assert len(found.tags("script")) == 1
    assert not found.tags("img")
    assert len(found.ids) == len(set(found.ids))


def test_the_distribution_counts_every_score_once():
    chart = distribution([0.0, 10.0, 69.9, 70.0, 72.0, 100.0], 70.0)
    assert sum(count for _, _, count in chart["counts"]) == 6
    assert chart["words"] == "0 to 5%: 1; 10 to 15%: 1; 65 to 70%: 1; 70 to 75%: 2; 95 to 100%: 1"
    assert [bar[0] for bar in chart["bars"]] == ["fail", "fail", "fail", "pass", "pass"]
