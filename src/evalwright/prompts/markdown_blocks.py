"""The blocks of a Markdown text and their lines.

A scanner of CommonMark's block rules and of tables, without inline rules and without nesting: the
blocks inside a list item follow it in the list, and a quotation is one block. It is several times
as fast as a full parser; tests hold it to what markdown-it-py says.
"""

import re
from typing import Literal

from evalwright.prompts.document import Block
from evalwright.signals.patterns import when_used

INDENTED = "indented"  # the info of code that is set off by four spaces instead of a fence
MAX_DEPTH = 50  # of list items that begin on one line
_CODE_INDENT = 4

_HEADING = re.compile(r"(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
_RULE = re.compile(r"(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"([-*+]|(\d{1,9})[.)])(?:([ \t]+)|$)")
_SETEXT = re.compile(r"(=+|-+)[ \t]*$")
_DELIMITERS = when_used(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CELL_END = when_used(r"(?<!\\)\|")
_HTML_TAGS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|"
    "dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|"
    "hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|"
    "search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_ATTRIBUTES = r"""(?:\s+[a-zA-Z_:][\w:.-]*(?:\s*=\s*(?:[^"'=<>`\s]+|'[^']*'|"[^"]*"))?)*"""
_BLANK = when_used(r"^[ \t]*$")
# How a block of HTML starts, how it ends, and whether it may interrupt a paragraph.
_HTML = (
    (
        when_used(r"<(?:script|pre|style|textarea)(?:\s|>|$)", re.IGNORECASE),
        when_used(r"</(?:script|pre|style|textarea)>", re.IGNORECASE),
        True,
    ),
    (when_used(r"<!--"), when_used(r"-->"), True),
    (when_used(r"<\?"), when_used(r"\?>"), True),
    (when_used(r"<![A-Za-z]"), when_used(r">"), True),
    (when_used(r"<!\[CDATA\["), when_used(r"\]\]>"), True),
    (when_used(rf"</?(?:{_HTML_TAGS})(?:\s|/?>|$)", re.IGNORECASE), _BLANK, True),
    (
        when_used(
            rf"(?:<[A-Za-z][A-Za-z0-9-]*{_ATTRIBUTES}\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*$"
        ),
        _BLANK,
        False,
    ),
)
_STARTERS = frozenset("#`~-*+_><0123456789")
_RULE_ENDS = frozenset("*-_ \t")

_Opened = Literal["paragraph", "list_item"]


def scan_blocks(text: str, first: int = 0) -> tuple[Block, ...]:
    """The blocks of a text in order; lines are counted from `first`."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return tuple(_BlockScanner(lines, first).run())


class _BlockScanner:
    """The state of the scan: the line, the list items around it, the open paragraph."""

    def __init__(self, lines: list[str], first: int) -> None:
        self.lines = lines
        self.first = first
        self.at = 0
        self.blocks: list[Block] = []
        self.items: list[int] = []  # the column at which the content of each open item begins
        self.bare_item = -2  # the line of the last item that had nothing beside its mark
        self.open: _Opened | None = None
        self.open_start = 0
        self.open_text: list[str] = []
        self.open_depth = 0

    def run(self) -> list[Block]:
        lines = self.lines
        while self.at < len(lines):
            line = lines[self.at]
            content = line.lstrip(" \t")
            if not content:
                if self.open is not None:
                    self.close()
                if self.bare_item == self.at - 1:
                    self.items.pop()
                self.at += 1
                continue
            indent = len(line) - len(content)
            if indent and "\t" in line[:indent]:
                indent = len(line[:indent].expandtabs(4))
            if self.items:
                self.place(content, indent)
            else:
                self.read(content, indent, indent)
        self.close()
        return self.blocks

    def place(self, content: str, indent: int) -> None:
        """Find the list item that the line belongs to, then read the line as part of it."""
        items = self.items
        depth = len(items)
        while depth and indent < items[depth - 1]:
            depth -= 1
        inner = indent - (items[depth - 1] if depth else 0)
        if self.open is not None and depth < self.open_depth:
            if inner >= _CODE_INDENT or not self.interrupts(content, in_place=False):
                self.open_text.append(content)
                self.at += 1
                return
            self.close()
        del items[depth:]
        self.read(content, indent, inner)

    def read(self, content: str, indent: int, inner: int) -> None:
        """Read a line from `content` on; `inner` is its indentation within its list item."""
        if inner >= _CODE_INDENT:
            if self.open is None:
                self.indented_code(indent - inner + _CODE_INDENT)
            else:
                self.open_text.append(content)
                self.at += 1
            return
        if self.open is not None and content[0] in "=-" and _SETEXT.match(content):
            self.setext(1 if content[0] == "=" else 2)
        elif content[0] in _STARTERS and self.block(content, indent):
            pass
        elif self.is_table(content):
            self.table()
        else:
            if self.open is None:
                self.open = "paragraph"
                self.open_start = self.at
                self.open_text = []
                self.open_depth = len(self.items)
            self.open_text.append(content)
            self.at += 1

    def interrupts(self, content: str, *, in_place: bool) -> bool:
        """Whether a line ends the open paragraph; `in_place` if it is of the same list item."""
        first = content[0]
        if first not in _STARTERS:
            return False
        if first == "#":
            return _HEADING.match(content) is not None
        if first in "`~":
            return _FENCE.match(content) is not None
        if first == ">":
            return True
        if first == "<":
            return any(start.match(content) and may for start, _, may in _HTML)
        if content[-1] in _RULE_ENDS and _RULE.match(content):
            return True
        item = _ITEM.match(content)
        return item is not None and (not in_place or _may_interrupt(item))

    def block(self, content: str, indent: int) -> bool:
        first = content[0]
        if first == "#":
            return self.heading(content)
        if first in "`~":
            return self.fence(content)
        if first == ">":
            return self.quote(content)
        if first == "<":
            may = self.open is None or self.interrupts(content, in_place=True)
            return may and self.html(content)
        if content[-1] in _RULE_ENDS and _RULE.match(content):
            self.close()
            self.at += 1
            return True
        return self.item(content, indent)

    # Blocks of one line, and paragraphs

    def emit(
        self,
        kind: str,
        start: int,
        text: str,
        *,
        level: int = 0,
        info: str = "",
        closed: bool = True,
    ) -> None:
        place = self.first + start, self.first + self.at
        self.blocks.append(Block(kind, *place, text, level, info, closed))  # type: ignore[arg-type]

    def close(self) -> None:
        if self.open is None:
            return
        kind, self.open = self.open, None
        level = self.open_depth if kind == "list_item" else 0
        text = self.open_text[0] if len(self.open_text) == 1 else "\n".join(self.open_text)
        first = self.first
        self.blocks.append(
            Block(kind, first + self.open_start, first + self.at, text.rstrip(), level)
        )

    def heading(self, content: str) -> bool:
        match = _HEADING.match(content)
        if match is None:
            return False
        self.close()
        self.at += 1
        text = content[match.end() :].strip(" \t")
        unmarked = text.rstrip("#")
        if not unmarked or unmarked[-1] in " \t":
            text = unmarked.rstrip(" \t")
        line = self.first + self.at
        self.blocks.append(Block("heading", line - 1, line, text, len(match[1])))
        return True

    def setext(self, level: int) -> None:
        text = "\n".join(self.open_text).rstrip()
        self.open = None
        self.at += 1
        self.emit("heading", self.open_start, text, level=level)

    def item(self, content: str, indent: int) -> bool:
        match = _ITEM.match(content)
        if match is None or (self.open is not None and not _may_interrupt(match)):
            return False
        self.close()
        rest = content[match.end() :]
        mark, gap = match.group(1, 3)
        spaces = len(gap.expandtabs(4)) if gap else 0
        width = len(mark)
        inner = 0
        if not rest or spaces > _CODE_INDENT:
            inner = spaces - 1 if rest else 0
            spaces = 1
        column = indent + width + spaces
        self.items.append(column)
        starts = len(self.items) < MAX_DEPTH and rest and self.interrupts(rest, in_place=False)
        if starts or inner >= _CODE_INDENT or not rest:
            self.at += 1
            self.emit("list_item", self.at - 1, "", level=len(self.items))
            if not rest:
                self.bare_item = self.at - 1
            else:
                self.at -= 1
                self.read(rest, column + inner, inner)
            return True
        self.open = "list_item"
        self.open_start = self.at
        self.open_text = [rest]
        self.open_depth = len(self.items)
        self.at += 1
        return True

    # Blocks of several lines

    def within(self, line: str) -> bool:
        """Whether a line, by its indentation, still belongs to the innermost list item."""
        if not self.items or not line.strip():
            return True
        lead = line[: len(line) - len(line.lstrip(" \t"))]
        return len(lead.expandtabs(4)) >= self.items[-1]

    def code(self) -> str:
        """What a line begins with that is too far in to begin a block."""
        return " " * ((self.items[-1] if self.items else 0) + _CODE_INDENT)

    def fence(self, content: str) -> bool:
        match = _FENCE.match(content)
        if match is None:
            return False
        self.close()
        mark, info = (match[1], match[2]) if match[1] else (match[3], match[4])
        start = self.at
        base = self.items[-1] if self.items else 0
        ending = when_used(rf"[ ]{{0,{base + 3}}}{mark[0]}{{{len(mark)},}}[ \t]*$")
        lines = self.lines
        end = len(lines)
        closed = False
        listed = bool(self.items)
        for at in range(start + 1, end):
            line = lines[at]
            if listed and not self.within(line):
                end = at
                break
            if mark in line and ending.match(line):
                end, closed = at, True
                break
        text = "\n".join(lines[start + 1 : end])
        self.at = end + closed
        self.emit("fence", start, text, info=info.strip(), closed=closed)
        return True

    def indented_code(self, column: int) -> None:
        start = self.at
        lines = self.lines
        end = start + 1
        while end < len(lines):
            line = lines[end].expandtabs(4)
            if line.strip() and len(line) - len(line.lstrip(" ")) < column:
                break
            end += 1
        while not lines[end - 1].strip():
            end -= 1
        self.at = end
        self.emit("fence", start, "\n".join(lines[start:end]), info=INDENTED)

    def quote(self, content: str) -> bool:
        self.close()
        start = self.at
        texts: list[str] = []
        lazy = False
        while True:
            inside = content.startswith(">") and (
                self.at == start or self.within(self.lines[self.at])
            )
            if inside:
                content = content[1:].strip(" \t")
            elif not (lazy and content and self.continues(self.lines[self.at], content)):
                break
            item = _ITEM.match(content)
            last = content[item.end() :] if item else content
            lazy = last != "" and not self.interrupts(last, in_place=False)
            texts.append(content)
            self.at += 1
            if self.at == len(self.lines):
                break
            content = self.lines[self.at].strip(" \t")
        self.emit("quote", start, "\n".join(texts).strip("\n"))
        return True

    def continues(self, line: str, content: str) -> bool:
        """Whether a line without a mark goes on with the paragraph of a quotation."""
        return line.startswith(self.code()) or not self.interrupts(content, in_place=False)

    def html(self, content: str) -> bool:
        ending = next((end for start, end, _ in _HTML if start.match(content)), None)
        if ending is None:
            return False
        self.close()
        start = self.at
        lines = self.lines
        if not ending.search(content):
            while self.at + 1 < len(lines) and self.within(lines[self.at + 1]):
                if ending is _BLANK and not lines[self.at + 1].strip():
                    break
                self.at += 1
                if ending.search(lines[self.at]):
                    break
        self.at += 1
        self.emit("html", start, "\n".join(lines[start : self.at]))
        return True

    def is_table(self, content: str) -> bool:
        """Whether this line is a table's head: the next one has a delimiter for each cell."""
        if self.at + 1 >= len(self.lines):
            return False
        below = self.lines[self.at + 1].strip(" \t")
        if not below or below[0] not in "|:-" or not self.within(self.lines[self.at + 1]):
            return False
        if "|" not in below and "|" not in content:
            return False
        return _DELIMITERS.match(below) is not None and _cells(below) == _cells(content)

    def table(self) -> None:
        self.close()
        start = self.at
        lines = self.lines
        self.at += 2
        code = self.code()
        while self.at < len(lines):
            line = lines[self.at]
            content = line.strip(" \t")
            if not content or not self.within(line) or line.startswith(code):
                break
            if self.interrupts(content, in_place=False):
                break
            self.at += 1
        self.emit("table", start, "\n".join(line.strip() for line in lines[start : self.at]))


def _may_interrupt(item: re.Match[str]) -> bool:
    """Whether an item may follow a paragraph at once: one with content that is the first."""
    return item.end() < len(item.string) and item[2] in {None, "1"}


def _cells(row: str) -> int:
    row = row.strip()
    ends = len(_CELL_END.findall(row))
    return ends + 1 - row.startswith("|") - (row.endswith("|") and not row.endswith("\\|"))
