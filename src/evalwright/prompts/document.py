"""A prompt file, parsed: front matter, body, and the place of every block and variable."""

from typing import Any, Literal

import msgspec

from evalwright.contracts.prompt_result import ErrorCode, InputType
from evalwright.prompts.file_kinds import PromptKind, TemplateStyle
from evalwright.signals.language import UNKNOWN_LANGUAGE, Language


class UnfitPrompt(Exception):
    """A file that cannot be evaluated; `code` says in which way."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code: ErrorCode = code
        self.message = message
        super().__init__(f"{code}: {message}")


class Block(msgspec.Struct, frozen=True, gc=False):
    """A block of Markdown: its kind, its lines (first, and one past the last), its text."""

    kind: Literal["heading", "paragraph", "list_item", "fence", "table", "quote", "html"]
    start: int  # line, from 0, within the file
    end: int
    text: str
    level: int = 0  # of a heading, or the depth of a list item
    info: str = ""  # of a fence
    closed: bool = True  # a fence without its end is not


class Placeholder(msgspec.Struct, frozen=True, gc=False):
    """A variable in the body: its name, the style of its brackets, its offset in the file."""

    name: str
    style: str  # "{{}}", "[]", "${}", "<>", "{}"
    offset: int


class Prompt(msgspec.Struct, frozen=True):
    """One prompt of a library."""

    path: str  # as it is shown: relative, with forward slashes
    type: InputType
    title: str
    category: str
    frontmatter: dict[str, Any] | None  # None where there is none; plain JSON values
    text: str  # the whole file
    body: str  # without the front matter
    body_offset: int  # of the body, in the text
    blocks: tuple[Block, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    notes: tuple[str, ...] = ()  # such as: excluded by the rules, but named explicitly
    kind: PromptKind = "system_prompt"
    language: Language = UNKNOWN_LANGUAGE
    template: TemplateStyle = "none"
