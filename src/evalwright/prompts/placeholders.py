"""Placeholders: the variables of a prompt, as opposed to links, checkboxes, markup and code."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from evalwright.prompts.document import Block, Placeholder
from evalwright.signals.patterns import when_used
from evalwright.signals.word_tables import word_tables

# A fence that holds a prompt rather than code has one of these for its info.
PROSE_FENCES = frozenset({"", "text", "txt", "plaintext", "plain", "prompt", "markdown", "md"})

# The first letter precedes the alternatives, which look back at it: so `re` can skip to the next
# bracket, which is three times as fast.
_CANDIDATE = re.compile(
    r"[\[{<$`](?:"
    r"(?<=\{)\{[-~]?[ \t]*\$?([^\W\d][\w.\- ]{0,59})(?:\|[^{}\n]{0,80})?\}\}"
    r"|(?<=\{)[A-Za-z_]\w{0,59}\}"
    r"|(?<=\$)\{[A-Za-z_][\w.\-]{0,59}\}"
    r"|(?<=\[)[A-Za-z][^\[\]\n|`<>\"{}=;]{1,59}\]"
    r"|(?<=<)[A-Za-z_][\w \-]{0,59}>"
    r"|(?<=`)(?:[^`\n]{1,399}`|`*))"  # a span of code as a whole, or its marks
)
# Also of Jinja, with a filter or trimmed (`{{- name | upper -}}`), and with a `$`.
_DOUBLE = when_used(r"\{\{[-~]?[ \t]*\$?([^\W\d][\w.\- ]{0,59})(?:\|[^{}\n]{0,80})?\}\}")
_KEYWORDS = frozenset(("else", "end", "endif", "endfor", "this"))  # of templates, not names
_NOT_A_SPAN = 3  # so many backticks are a fence

# What may be in square brackets without being a blank to fill in: marks, whatever follows the
# first three, and what has a slash or a number.
_LATIN_MARKS = ("e.g.", "i.e.", "etc.")
_MARKS, _HTML = map(frozenset, word_tables(__file__)["brackets"].values())
_MAY_BE_NO_BLANK = frozenset("/0123456789")
_NO_BLANK = when_used(
    r"(?:"
    r"[\w%+-]+(?:[ ]?/[ ]?[\w%+-]+)+"  # [Yes/No]: what an answer may be
    r"|[A-Za-z]+[ _-]?\d+(?:\s*[,;]\s*[A-Za-z]+[ _-]?\d+)+"  # [Doc_1, Doc_3]
    r"|[A-Z]{2,6}[ -]\d{2,}"  # [RFC 2119], [ABC-123]
    r"|[A-Z][\w.&' -]*,? (?:19|20)\d\d[a-z]?"  # [Smith et al., 2020]
    r")$"
)
_CLOSING = when_used(r"</([A-Za-z_][\w \-]{0,59})>")
_LINK_TARGET = when_used(r":[ \t]*(?:<|/|\./|#|https?:|www\.|mailto:)")
_CODE_FOLLOWS = when_used(r"[\w}/{(=]|\.\w")
MAX_SPAN = 400


def find_placeholders(
    text: str, blocks: Sequence[Block] = (), start: int = 0, end: int | None = None
) -> tuple[Placeholder, ...]:
    """The placeholders of a file's text from `start` to `end`, in order; `blocks` tell code."""
    end = len(text) if end is None else end
    prose = _Prose(text)
    found: list[Placeholder] = []
    at = start
    code = [block for block in blocks if block.kind == "fence" and not holds_prose(block)]
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))] if code else []
    for block in code:
        code_start, code_end = starts[block.start], min(starts[block.end], len(text))
        found.extend(prose.placeholders(at, code_start))
        found.extend(
            Placeholder(match[1].strip(" \t-~"), "{{}}", match.start())
            for match in _DOUBLE.finditer(text, code_start, code_end)
        )
        at = code_end
    found.extend(prose.placeholders(at, end))
    return tuple(found)


def holds_prose(fence: Block) -> bool:
    """Whether a fence holds words for a model, as most do in a prompt, and not code."""
    info = fence.info.split(maxsplit=1)
    return not info or info[0].lower() in PROSE_FENCES


class _Prose:
    """A text in which placeholders are looked for outside of code."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tags = frozenset(_CLOSING.findall(text)) if "</" in text else frozenset()

    def placeholders(self, start: int, end: int) -> Iterator[Placeholder]:
        if self.text.find("`", start, end) >= 0:
            return self.placeholders_beside_code(start, end)
        return filter(None, map(self.placeholder, _CANDIDATE.finditer(self.text, start, end)))

    def placeholders_beside_code(self, start: int, end: int) -> Iterator[Placeholder]:
        text = self.text
        candidates = _CANDIDATE.finditer(text, start, end)
        while match := next(candidates, None):
            start, at = match.span()
            if text[start] != "`":
                if (placeholder := self.placeholder(match)) is not None:
                    yield placeholder
            elif at - start > _NOT_A_SPAN - 1 and text[start + 1] != "`":
                if self.is_placeholder(start + 1, at - 1):
                    yield from self.placeholders(start + 1, at - 1)
            else:
                close = self.span_end(match[0], at, end)
                if close:
                    if self.is_placeholder(at, close):
                        yield from self.placeholders(at, close)
                    candidates = _CANDIDATE.finditer(text, close + len(match[0]), end)

    def placeholder(self, match: re.Match[str]) -> Placeholder | None:
        start, end = match.span()
        if match.lastindex is not None:
            name = match[1].strip(" \t-~")
            return None if name in _KEYWORDS else Placeholder(name, "{{}}", start)
        candidate = match[0]
        if candidate[0] == "$":
            return Placeholder(candidate[2:-1], "${}", start)
        name = candidate[1:-1]
        if candidate[0] == "[":
            return Placeholder(name.strip(), "[]", start) if self.is_blank(start, end) else None
        if candidate[0] == "<":
            return Placeholder(name.strip(), "<>", start) if self.is_slot(start, name) else None
        return Placeholder(name, "{}", start) if self.stands_free(start, end) else None

    def span_end(self, ticks: str, start: int, end: int) -> int:
        """Where the backticks are that end a span of code on the same line; 0 if nowhere."""
        if len(ticks) >= _NOT_A_SPAN:
            return 0
        close = self.text.find(ticks, start, min(end, start + MAX_SPAN))
        return 0 if close < 0 or "\n" in self.text[start:close] else close

    def is_placeholder(self, start: int, end: int) -> bool:
        """Whether a span of code is one placeholder and nothing else: then it speaks of that."""
        opens = self.text.startswith(("{{", "${", "["), start)
        return opens and _CANDIDATE.fullmatch(self.text, start, end) is not None

    def is_blank(self, start: int, end: int) -> bool:
        """Whether `[...]` is a blank to fill in, not a link, a subscript, a mark or a citation."""
        text = self.text
        after = text[end : end + 1]
        if after in ("(", "[") or (after == ":" and _LINK_TARGET.match(text, end)):
            return False
        if _clings(text[start - 1 : start], "_]!\\)"):
            return False
        name = text[start + 1 : end - 1]
        lowered = name.lower()
        if lowered in _MARKS or lowered.startswith(_LATIN_MARKS):
            return False
        if name.isascii() and _MAY_BE_NO_BLANK.isdisjoint(name):
            return True
        return not _NO_BLANK.match(name)

    def is_slot(self, start: int, name: str) -> bool:
        """Whether `<...>` is a slot, not HTML, a tag that is closed or the parameter of a type."""
        if name in self.tags or name.partition(" ")[0].lower() in _HTML:
            return False
        return not _clings(self.text[start - 1 : start], "_<\\/=")

    def stands_free(self, start: int, end: int) -> bool:
        """Whether `{...}` is not part of code, of a path or of a format string."""
        if _clings(self.text[start - 1 : start], "_{$\\/(=%.@&])"):
            return False
        return not _CODE_FOLLOWS.match(self.text, end)


def _clings(neighbour: str, signs: str) -> bool:
    return neighbour != "" and (neighbour.isalnum() or neighbour in signs)
