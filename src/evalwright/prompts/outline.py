"""The parts of a prompt, however they are marked: headings, XML tags, labels, lists, templates.

`# Task`, `<task>`, `**Task:**`, `Task:` on a line of its own, `【任务】` and `{% block task %}` all
begin a section; `1.`, `1)`, `Step 1:`, `①` and `第一步` all begin a step.
"""

import re
from bisect import bisect_left
from typing import Literal

import msgspec

from evalwright.prompts.vocabulary import shows_example, title_key
from evalwright.signals.language import lowered_in_place
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import either, word_tables

PartForm = Literal["heading", "tag", "label", "number", "bullet"]


class PromptPart(msgspec.Struct, frozen=True, gc=False):
    """A section, step or item: how it is marked, its title, and where it lies in the text."""

    form: PartForm
    title: str
    key: str  # the title in lower case, without numbers and symbols around it
    start: int
    body: int  # where the text after the mark starts
    end: int


class Outline(msgspec.Struct, frozen=True):
    """The parts of a text, each in order."""

    sections: tuple[PromptPart, ...] = ()  # to the next one, or to the end of its tag
    steps: tuple[PromptPart, ...] = ()  # numbered
    items: tuple[PromptPart, ...] = ()  # with a bullet
    examples: tuple[
        PromptPart, ...
    ] = ()  # the sections that show one, and inputs with their outputs

    def section(self, *keys: str) -> PromptPart | None:
        """The first section whose title holds one of some words or phrases in lower case."""
        return next((each for each in self.sections if any(key in each.key for key in keys)), None)


_LINE = when_used(
    r"\n[ \t>]*+(?:"  # a line feed first, so that `re` can skip to the next line
    r"#{1,6}[ \t]+(?P<heading>[^\n]{1,200})"
    r"|<(?P<tag>[^\W\d][\w.:-]{0,60})(?:[ \t][^<>\n]{0,200})?>"
    r"|\{%-?[ \t]*block[ \t]+(?P<block>\w{1,60})[ \t]*-?%\}"
    r"|[【〔［\[](?P<bracket>[^【】〔〕［］\[\]\n]{1,40})[】〕］\]][ \t]*[:：]?[ \t\r]*$"
    r"|={2,}[ \t]*(?P<ruled>[^=\n]{1,60}?)[ \t]*={2,}[ \t\r]*$"
    r"|(?P<number>(?:\*\*)?(?:[Ss]tep|STEP|[Ss]chritt|[Éé]tape|[Pp]aso|[Pp]asso|Шаг|Krok|Adım|Bước"
    r"|الخطوة|단계)[ \t]?\d{1,3}\b"
    r"|(?:\*\*)?\(?\d{1,3}[.)）．](?=[\s*])|\d{1,3}、|[①-⑳]|[一二三四五六七八九十]{1,3}[、．.]"
    r"|第[一二三四五六七八九十\d]{1,3}步|（\d{1,3}）)"
    r"|(?P<bullet>[-*+•・●▪◦–■◆★])[ \t]"
    r"|(?P<label>(?:\*\*|__)?[^\W\d_][^\n:：.!?。]{0,60}+"
    r"(?:[:：](?:\*\*|__)?|(?:\*\*|__|(?<=\*)\*|(?<=_)_)[:：]))[ \t\r]*$"
    r"|\*\*(?P<bold>[^*\n]{1,80})\*\*[:：]?[ \t\r]*$"
    r")",
    re.MULTILINE,
)
_FORMS: dict[str | None, PartForm] = {
    "heading": "heading",
    "tag": "tag",
    "block": "tag",
    "bracket": "label",
    "ruled": "label",
    "label": "label",
    "bold": "label",
    "number": "number",
    "bullet": "bullet",
}
_CLOSED_TAG = when_used(r"</([^\W\d][\w.:-]{0,60})>")
_TABLES = word_tables(__file__)
_MARKUP = frozenset(_TABLES["markup"]["html"])
_LONGEST_LABEL = 5  # spaces; what is longer is a sentence
_INPUT, _OUTPUT = map(either, _TABLES["few shot"].values())
_FEW_SHOT = when_used(  # in a text in lower case
    rf"\n[ \t>*#`\"-]{{0,12}}(?:{_INPUT})\b[ \t\d]{{0,4}}[*`\"]{{0,3}}[:：]"
    r"[^\n]{0,2000}\n(?:[^\n]{0,500}\n){0,6}?"
    rf"[ \t>*#`\"-]{{0,12}}(?:{_OUTPUT})\b[ \t\d]{{0,4}}[*`\"]{{0,3}}[:：]"
)


def outline_of(text: str) -> Outline:
    """The outline of a text; offsets are indexes into it."""
    closings: dict[str, list[int]] = {}
    for found in _CLOSED_TAG.finditer(text) if "</" in text else ():
        if found[1] not in _MARKUP:
            closings.setdefault(found[1], []).append(found.start())
    marks: list[tuple[PartForm, str, int, int]] = []
    listed: list[tuple[PartForm, int, int]] = []
    for found in _LINE.finditer("\n" + text):
        # What precedes the text makes up for the line feed.
        start, body = found.start(), found.end() - 1
        group = found.lastgroup or ""
        form = _FORMS[found.lastgroup]
        if form in ("bullet", "number"):
            listed.append((form, start, body))
            continue
        title: str = found[group]
        if group == "tag" and title not in closings:
            continue
        if group != "label" or title.count(" ") <= _LONGEST_LABEL:
            marks.append((form, title.strip(), start, body))
    sections = []
    ends = [start for _, _, start, _ in marks[1:]] + [len(text)]
    for (form, title, start, body), last in zip(marks, ends, strict=False):
        places = closings.get(title, []) if form == "tag" else []
        after = bisect_left(places, body)
        end = places[after] if after < len(places) else last
        sections.append(PromptPart(form, title, title_key(title), start, body, end))
    parts = []
    ends = [start for _, start, _ in listed[1:]] + [len(text)]
    for (form, start, body), last in zip(listed, ends, strict=False):
        end = text.find("\n", body, last)
        parts.append(PromptPart(form, "", "", start, body, last if end < 0 else end))
    examples = [
        each for each in sections if shows_example(each.key) and text[each.body : each.end].strip()
    ]
    examples += [
        PromptPart("label", "", "", pair.start(), pair.start(), pair.end() - 1)
        for pair in _FEW_SHOT.finditer("\n" + lowered_in_place(text))
    ]
    return Outline(
        tuple(sections),
        steps=tuple(each for each in parts if each.form == "number"),
        items=tuple(each for each in parts if each.form == "bullet"),
        examples=tuple(examples),
    )
