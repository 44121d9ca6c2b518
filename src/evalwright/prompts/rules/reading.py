"""A prompt as its author meant it: sections, fences, and the part that a model is to read.

Many prompt files are pages about a prompt: a description, tips, and the prompt itself in a fence
below a heading. Rules about wording look at that part alone, the core; where a file has no such
heading, all of its body is the core.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from itertools import accumulate, count
from operator import add

import msgspec

from evalwright.prompts.document import Placeholder, Prompt
from evalwright.prompts.rules.vocabulary import ABOUT_A_PROMPT
from evalwright.signals.secret_matching import Pattern, best_engine

CORE_TITLES = frozenset(
    {
        "prompt",
        "the prompt",
        "prompt template",
        "prompt text",
        "full prompt",
        "system prompt",
        "user prompt",
        "main prompt",
    }
)
_TEXT_INFOS = frozenset(("", "text", "txt", "markdown", "md", "prompt", "plaintext"))

_MARK = re.compile(
    r"\n(?=[ \t]*[#`~])(?: {0,3}(#{1,6})(?:[ \t]+([^\n]*)|(?![^\n]))"
    r"|[ \t]*(`{3,}|~{3,})([^`\n]*)(?![^\n]))"
)
_BLANK_NEXT = re.compile(r"\Z|\n[ \t\r]*(?:\n|\Z)")
_DECORATION = re.compile(r"[^\w/&' -]+")
_WORD = re.compile(r"[a-z][a-z'-]*")
_PLAIN = (("\u2019", "'"), ("\u2013", "-"), ("\u2014", "-"))
_NOT_SPACE = re.compile(r"[^\s]")


class Fence(msgspec.Struct, frozen=True, gc=False):
    """A fenced block: where it starts, where its content lies, where it ends."""

    start: int
    inside: int
    inside_end: int
    end: int
    mark: str
    info: str
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
    """One prompt, with the views of it that rules share; each is made when it is asked for."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.text = prompt.text
        self.fences, self.sections = _outline(prompt)

    @cached_property
    def core_section(self) -> Section | None:
        """The section that holds the prompt itself."""
        return next((each for each in self.sections if each.key in CORE_TITLES), None)

    @cached_property
    def core_span(self) -> tuple[int, int]:
        """Where the core starts and ends in the file."""
        section = self.core_section
        if section is None:
            return self.prompt.body_offset, len(self.text)
        inside = [each for each in self.fences if section.body <= each.start < section.end]
        if not inside:
            return section.body, section.end
        return inside[0].inside, inside[-1].inside_end

    @cached_property
    def core(self) -> str:
        """What a model is to read."""
        if self.prompt.type != "markdown":
            return self.prompt.body
        start, end = self.core_span
        return self.text[start:end]

    @cached_property
    def prose(self) -> str:
        """The core with everything blanked that is no instruction: code, and pages about it."""
        if self.core_section is not None or self.prompt.type != "markdown":
            return self.core
        start, _ = self.core_span
        hidden = [(each.start, each.end) for each in self.fences if not is_text(each)]
        hidden += [(each.start, each.end) for each in self.sections if is_about(each)]
        return _blanked(self.core, [(first - start, last - start) for first, last in hidden])

    @cached_property
    def lowered(self) -> str:
        """The prose in lower case, letter for letter, with plain apostrophes and dashes."""
        lowered = lowered_in_place(self.prose)
        for typographic, plain in _PLAIN:
            lowered = lowered.replace(typographic, plain)
        return lowered

    @cached_property
    def data(self) -> bytes:
        """The whole file in UTF-8, to look quickly whether something occurs in it."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def word_list(self) -> list[str]:
        """The words of the prose, in order, in lower case."""
        return _WORD.findall(self.lowered)

    @cached_property
    def words(self) -> Counter[str]:
        """How often each word occurs in the prose."""
        return Counter(self.word_list)

    @cached_property
    def core_placeholders(self) -> list[Placeholder]:
        """The variables in the core."""
        if self.prompt.type != "markdown":
            return list(self.prompt.placeholders)
        start, end = self.core_span
        return [each for each in self.prompt.placeholders if start <= each.offset < end]

    def place(self, index: int) -> int:
        """The offset in the file of an index into the core or its prose."""
        if self.prompt.type == "markdown":
            return index + self.core_span[0]
        # YAML folds and escapes: the place is where the line stands, as nearly as it is found.
        start = self.core.rfind("\n", 0, index) + 1
        line = self.core[start:].partition("\n")[0].strip()
        found = self.text.find(line)
        return max(0, found if line and found >= 0 else self.text.find("messages"))

    def places(self, *words: str, end: int | None = None) -> Iterator[int]:
        """Where any of some words stands in the prose, or before an `end` in it, word by word."""
        for word in words:
            if word in self.words:
                yield from places(self.lowered, word, end)

    def line(self, offset: int) -> int:
        """The line of an offset, from 1."""
        return bisect_right(self.line_starts, offset)

    @cached_property
    def line_starts(self) -> list[int]:
        """The offsets at which lines start."""
        lengths = map(len, self.text.split("\n"))
        # Without the line feeds, of which one stands before each further line.
        return list(map(add, accumulate(lengths, initial=0), count()))[:-1]

    def is_fenced(self, offset: int) -> bool:
        """Whether an offset lies in a fence."""
        return self._fence_at(offset) is not None

    def is_code(self, offset: int) -> bool:
        """Whether an offset lies in a fence that holds code rather than text."""
        fence = self._fence_at(offset)
        return fence is not None and not is_text(fence)

    def _fence_at(self, offset: int) -> Fence | None:
        index = bisect_right(self._fence_starts, offset) - 1
        found = index >= 0 and offset < self.fences[index].end
        return self.fences[index] if found else None

    @cached_property
    def _fence_starts(self) -> list[int]:
        return [each.start for each in self.fences]


def is_text(fence: Fence) -> bool:
    """Whether a fence holds text rather than code."""
    return fence.info.lower() in _TEXT_INFOS


def is_about(section: Section) -> bool:
    """Whether a section is about the prompt rather than part of it."""
    return section.level > 1 and section.key.partition(" ")[0] in ABOUT_A_PROMPT


class _Latest:
    """The last reading that was made: all rules ask for the same prompt, one after the other."""

    reading: Reading | None = None


@cache
def quick_pattern(pattern: bytes) -> Pattern:
    """A pattern for bytes, compiled with the fastest engine there is."""
    return best_engine().compile(pattern)


def read(prompt: Prompt) -> Reading:
    """The reading of a prompt; the same object as long as the same prompt is asked for."""
    latest = _Latest.reading
    if latest is None or latest.prompt is not prompt:
        latest = _Latest.reading = Reading(prompt)
    return latest


def _outline(prompt: Prompt) -> tuple[tuple[Fence, ...], tuple[Section, ...]]:
    if prompt.type != "markdown":
        return (), ()
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
        elif _closes(text, opened, match):
            fences.append(_fence(opened, match))
            opened = None
    if opened is not None:
        end = len(prompt.text)
        info = opened[4].strip()
        inside = min(opened.end(), end)
        fences.append(Fence(opened.start(), inside, end, end, opened[3], info, closed=False))
    return tuple(fences), _sections(headings, len(prompt.text))


def _closes(text: str, opened: re.Match[str], match: re.Match[str]) -> bool:
    """Whether a mark ends the open fence; words after it are a slip where a blank line follows."""
    if not match[3].startswith(opened[3]):
        return False
    return not match[4].strip() or _BLANK_NEXT.match(text, match.end()) is not None


def _fence(opened: re.Match[str], closing: re.Match[str]) -> Fence:
    # An offset in the file is one less than in the text that was searched.
    stray = closing[4].rstrip()
    words = closing.start(4) - 1
    return Fence(
        start=opened.start(),
        inside=opened.end(),
        inside_end=max(closing.start(), opened.end()),
        end=closing.end() - 1,
        mark=opened[3],
        info=opened[4].strip(),
        closed=True,
        stray=(closing.start(3) - 1, words, words + len(stray)) if stray else None,
    )


def _sections(headings: list[tuple[str, int, int, int]], end: int) -> tuple[Section, ...]:
    ends = [end] * len(headings)
    opened: list[int] = []
    for index, (_, level, start, _) in enumerate(headings):
        while opened and headings[opened[-1]][1] >= level:
            ends[opened.pop()] = start
        opened.append(index)
    return tuple(
        Section(title, _key(title), level, start, min(body, end), last)
        for (title, level, start, body), last in zip(headings, ends, strict=True)
    )


@lru_cache(maxsize=512)
def _key(title: str) -> str:
    return " ".join(_DECORATION.sub(" ", title).lower().split()).lstrip("0123456789. ")


def places(text: str, word: str, end: int | None = None) -> Iterator[int]:
    """Where a word, or words, stand in a text up to `end`, but not within a longer word."""
    for at in occurrences(text, word, end):
        after = at + len(word)
        if not (text[at - 1 : at].isalnum() or text[after : after + 1].isalnum()):
            yield at


def occurrences(text: str, part: str, end: int | None = None) -> Iterator[int]:
    """Where a part stands in a text up to `end`."""
    at = text.find(part, 0, end)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part), end)


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    parts = []
    at = 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        first = max(start, at)
        # A line end, so that no sentence runs from one side to the other.
        parts += [text[at:first], "\n".rjust(min(end, len(text)) - first)]
        at = end
    return "".join([*parts, text[at:]])


def lowered_in_place(text: str) -> str:
    """A text in lower case, letter for letter: the few that grow when lowered stay as they are."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(each.lower() if len(each.lower()) == 1 else each for each in text)
