"""A prompt as its author meant it: sections, fences, and the part that a model is to read.

Many prompt files are pages about a prompt: a description, tips, and the prompt itself in a fence
below a heading. Rules about wording look at that part alone, the core; where a file has no such
heading, all of its body is the core.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, count
from operator import add, attrgetter
from typing import TypeVar

import msgspec

from evalwright.prompts.document import Placeholder, Prompt
from evalwright.prompts.outline import Outline, outline_of
from evalwright.prompts.vocabulary import title_key
from evalwright.signals.language import Language, language_of, lowered_in_place, words
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import word_tables

_View = TypeVar("_View")

# Titles of the prompt itself, and of sections that are about it, as they begin.
CORE_TITLES, _ABOUT_A_PROMPT = map(frozenset, word_tables(__file__)["titles"].values())
_TEXT_INFOS = frozenset(("", "text", "txt", "markdown", "md", "prompt", "plaintext"))

_MARK = when_used(
    r"\n(?=[ \t]*[#`~])(?: {0,3}(#{1,6})(?:[ \t]+([^\n]*)|(?![^\n]))"
    r"|[ \t]*(`{3,}|~{3,})([^`\n]*)(?![^\n]))"
)
_BLANK_NEXT = when_used(r"\Z|\n[ \t\r]*(?:\n|\Z)")
_PLAIN = (("\u2019", "'"), ("\u2013", "-"), ("\u2014", "-"))
_NOT_SPACE = when_used(r"[^\s]")
_CLOSING_INDENT = 3  # spaces
_PLAIN_SHARE = 1.1  # bytes for each character, where only dashes and accents are not ASCII
_TELLING_WORDS = 20  # fewer do not tell in which language of a script they are
_LONGEST_SPAN = 2000  # characters of a line before a place in it


class Fence(msgspec.Struct, frozen=True, gc=False):
    """A fenced block: where it starts, where its content lies, where it ends."""

    start: int
    inside: int
    inside_end: int
    end: int
    mark: str
    is_code: bool  # rather than text for a model
    closed: bool
    stray: tuple[int, int, int] | None = None  # a mark meant to close it; words after it, from, to


class Section(msgspec.Struct, frozen=True, gc=False):
    """A heading and all below it, to the next heading of its level or above."""

    title: str
    key: str  # the title in lower case, without emphasis, numbers or symbols around it
    level: int
    start: int
    body: int  # where the line after the heading starts
    end: int


class Reading:
    """One prompt, with the views of it that rules share."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.text = text = prompt.text
        is_markdown = prompt.type == "markdown"
        self.fences, self.sections = _outline(prompt) if is_markdown else ((), ())
        # The section that holds the prompt itself.
        self.core_section = next((each for each in self.sections if each.key in CORE_TITLES), None)
        self.core_start, end = prompt.body_offset, len(text)
        if self.core_section is not None:
            self.core_start, end = self.core_section.body, self.core_section.end
            inside = [each for each in self.fences if self.core_start <= each.start < end]
            if inside:
                self.core_start, end = inside[0].inside, inside[-1].inside_end
        # What a model is to read, and the variables in it.
        self.core = text[self.core_start : end] if is_markdown else prompt.body
        self.placeholders: Sequence[Placeholder] = prompt.placeholders
        if is_markdown:
            self.placeholders = [
                each for each in prompt.placeholders if self.core_start <= each.offset < end
            ]
        # The core with everything blanked that is not an instruction: code, and notes about it.
        is_page = is_markdown and self.core_section is None
        self.prose = self._instructions() if is_page else self.core
        # The prose in lower case, letter for letter, with plain apostrophes and dashes.
        lowered = lowered_in_place(self.prose)
        for typographic, plain in _PLAIN:
            lowered = lowered.replace(typographic, plain)
        self.lowered = lowered
        self.word_list = words(lowered)
        self.words = Counter(self.word_list)

    def _instructions(self) -> str:
        start = self.core_start
        hidden = [(each.start - start, each.end - start) for each in self.fences if each.is_code]
        hidden += [
            (each.start - start, each.end - start)
            for each in self.sections
            if each.level > 1 and each.key.partition(" ")[0] in _ABOUT_A_PROMPT
        ]
        parts = []
        at = 0
        for first, last in sorted(hidden):
            if last > at:
                begin = max(first, at)
                # A line end, so that no sentence runs from one side to the other.
                parts += [self.core[at:begin], "\n".rjust(min(last, len(self.core)) - begin)]
                at = last
        return "".join([*parts, self.core[at:]])

    @cached_property
    def language(self) -> Language:
        """The language of the core, which may be another than that of the page about it."""
        page = self.prompt.language
        if self.core_section is None:
            return page
        plain = len(self.core.encode("utf-8", "surrogatepass")) <= _PLAIN_SHARE * len(self.core)
        if page.is_english and plain:
            return page
        found = language_of(self.core)
        too_few = len(self.word_list) < _TELLING_WORDS and found.script == page.script
        return page if too_few else found

    @cached_property
    def data(self) -> bytes:
        """The whole file in UTF-8, to look quickly whether something occurs in it."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def lowered_data(self) -> bytes:
        """The same with the letters of ASCII in lower case."""
        return self.data.lower()

    @property
    def lowered_body(self) -> bytes | None:
        """The same of what is below the front matter; None where the body is no part of it."""
        prompt = self.prompt
        if prompt.type != "markdown":
            return None
        above = len(prompt.text[: prompt.body_offset].encode("utf-8", "surrogatepass"))
        return self.lowered_data[above:]

    @cached_property
    def outline(self) -> Outline:
        """The parts of the prose, however they are marked; `place` maps their offsets."""
        return outline_of(self.prose)

    def place(self, index: int) -> int:
        """The offset in the file of an index into the core or its prose."""
        if self.prompt.type == "markdown":
            return index + self.core_start
        # YAML folds and escapes: the line is looked for, which finds nearly every place.
        start = self.core.rfind("\n", 0, index) + 1
        line = self.core[start:].partition("\n")[0].strip()
        found = self.text.find(line)
        return max(0, found if line and found >= 0 else self.text.find("messages"))

    def places(self, *words: str, end: int | None = None) -> Iterator[int]:
        """Where any of some whole words is in the prose, or before an `end` in it, word by word."""
        text = self.lowered
        for word in words:
            at = text.find(word, 0, end) if word in self.words else -1
            while at >= 0:
                after = at + len(word)
                if not (text[at - 1 : at].isalnum() or text[after : after + 1].isalnum()):
                    yield at
                at = text.find(word, after, end)

    def line(self, offset: int) -> int:
        return bisect_right(self._line_starts, offset)

    @cached_property
    def _line_starts(self) -> list[int]:
        lengths = map(len, self.text.split("\n"))
        # The sums leave out the line feeds, of which one precedes each further line.
        return list(map(add, accumulate(lengths, initial=0), count()))[:-1]

    def fence_at(self, offset: int) -> Fence | None:
        index = bisect_right(self.fences, offset, key=attrgetter("start")) - 1
        found = index >= 0 and offset < self.fences[index].end
        return self.fences[index] if found else None

    def is_code_at(self, offset: int) -> bool:
        if self.fence_at(offset) is not None:
            return True
        nearest = max(0, offset - _LONGEST_SPAN)
        line_start = self.text.rfind("\n", nearest, offset) + 1 or nearest
        return self.text.count("`", line_start, offset) % 2 == 1


def once(view: Callable[[Reading], _View]) -> Callable[[Reading], _View]:
    """Makes a view of a prompt once: it is kept with the reading."""
    name = f"{view.__module__} {view.__qualname__}"

    def kept(reading: Reading) -> _View:
        views = vars(reading)
        if name not in views:
            views[name] = view(reading)
        made: _View = views[name]
        return made

    return kept


def is_json(text: str) -> bool:
    """Whether a text is a JSON document."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def cited(text: str, most: int = 40) -> str:
    """A passage of a prompt as findings cite it: on one line, and cut where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _outline(prompt: Prompt) -> tuple[tuple[Fence, ...], tuple[Section, ...]]:
    text = "\n" + prompt.text  # so that every line starts after a line feed
    fences: list[Fence] = []
    headings: list[tuple[str, int, int, int]] = []
    opened: re.Match[str] | None = None
    for match in _MARK.finditer(text, prompt.body_offset):
        if match[3] is None:
            if opened is None:
                title = (match[2] or "").strip().rstrip("#").rstrip()
                headings.append((title, len(match[1]), match.start(), match.end()))
        elif opened is None:
            opened = match
        elif match[3].startswith(opened[3]):
            # Words after the mark are a slip where a blank line follows, unless it is set further
            # in: then it opens a block within this one.
            deeper = match.start(3) - match.start() - (opened.start(3) - opened.start())
            if match[4].strip() and (
                deeper > _CLOSING_INDENT or _BLANK_NEXT.match(text, match.end()) is None
            ):
                continue
            fences.append(_fence(opened, match, len(prompt.text)))
            opened = None
    if opened is not None:
        fences.append(_fence(opened, None, len(prompt.text)))
    end = len(prompt.text)
    ends = [end] * len(headings)
    around: list[int] = []  # the headings that a heading lies below
    for index, (_, level, start, _) in enumerate(headings):
        while around and headings[around[-1]][1] >= level:
            ends[around.pop()] = start
        around.append(index)
    return tuple(fences), tuple(
        Section(title, title_key(title), level, start, min(body, end), last)
        for (title, level, start, body), last in zip(headings, ends, strict=True)
    )


def _fence(opened: re.Match[str], closing: re.Match[str] | None, length: int) -> Fence:
    is_code = opened[4].strip().lower() not in _TEXT_INFOS
    if closing is None:
        inside = min(opened.end(), length)
        return Fence(opened.start(), inside, length, length, opened[3], is_code, closed=False)
    # An offset in the file is one less than in the text that was searched.
    stray = closing[4].rstrip()
    words = closing.start(4) - 1
    return Fence(
        start=opened.start(),
        inside=opened.end(),
        inside_end=max(closing.start(), opened.end()),
        end=closing.end() - 1,
        mark=opened[3],
        is_code=is_code,
        closed=True,
        stray=(closing.start(3) - 1, words, words + len(stray)) if stray else None,
    )
