"""Text from outside as HTML: the quick ways give what the plain ones give, for any text."""

from html import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from minijinja import Environment

from evalwright.reports.formats import words
from evalwright.reports.formats.html import (
    content_html,
    display_text,
    name_html,
    quoted_html,
    text_html,
)
from evalwright.reports.formats.words import badge_html
from reports.html.hostile import EVIL, HOSTILE

# Any character, halves of pairs too; those that matter come often.
characters = st.one_of(
    st.characters(exclude_categories=()), st.sampled_from("&<>\"'/ a\x00\n\t\x7f\x80\u202e\ud800")
)
texts = st.one_of(st.text(characters), st.text("ab &<>"), st.sampled_from(HOSTILE))


def escaped(text):
    return escape(display_text(text), quote=False)


class TestATextAsContent:
    @given(texts)
    @example(EVIL)
    def test_is_made_visible_and_escaped(self, text):
        assert text_html(text) == escaped(text)

    @given(texts)
    @example("plain")
    @example("a\0b <")
    @example("\ud83d\ude00")
    def test_is_the_same_where_the_finished_page_is_made_visible(self, text):
        assert display_text(content_html(text)) == escaped(text)

    def test_is_right_for_every_single_character(self):
        every = [chr(code) for code in range(0x110000)]
        assert [each for each in every if text_html(each) != escaped(each)] == []


class TestAQuotedText:
    @given(st.text(st.characters(exclude_categories=["Cs"])))
    @example("https://a.example/?x=\"1\"&y='2'")
    def test_is_written_as_the_templates_write_it(self, text):
        environment = Environment(auto_escape_callback=lambda _: "html")
        written = environment.render_str("{{ text }}", "page.html", text=display_text(text))
        assert quoted_html(text) == written


def test_names_that_are_long_are_cut_with_a_mark():
    assert name_html("<" * 91) == "&lt;" * 90 + "…"
    assert name_html("<" * 90) == "&lt;" * 90


LABELS = [
    label
    for table in vars(words).values()
    if isinstance(table, dict)
    for label in table.values()
    if isinstance(label, words.Label)
]


@pytest.mark.parametrize("label", LABELS, ids=lambda label: label.words)
def test_a_badge_says_its_words_which_need_no_escaping(label):
    assert quoted_html(label.words + label.tone) == label.words + label.tone
    assert f"</span> {label.words}</span>" in badge_html(label)
