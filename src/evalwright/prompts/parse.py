"""A prompt file's bytes to a `Prompt`: front matter, title, category, blocks, placeholders."""

import codecs
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec

from evalwright.contracts.prompt_result import InputType
from evalwright.prompts.document import Block, Placeholder, Prompt, UnfitPrompt
from evalwright.prompts.file_kinds import OTHER_FORMATS, prompt_kind, template_style
from evalwright.prompts.front_matter import load_checked, split_front_matter
from evalwright.prompts.markdown_blocks import scan_blocks
from evalwright.prompts.placeholders import find_placeholders
from evalwright.signals.language import language_of
from evalwright.signals.patterns import when_used

MAX_BYTES = 5 * 1024 * 1024
UNCATEGORIZED = "uncategorized"
STDIN = "-"

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_REMEDY = "save it as UTF-8, as with `iconv -f UTF-16 -t UTF-8 old.md > new.md`"
_EMPHASIS = when_used(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")


def parse_prompt(data: bytes, shown: str, note: str | None = None) -> Prompt:
    """Parse a file; `shown` is its path in results and decides its type and category.

    Raises UnfitPrompt for a file that cannot be evaluated.
    """
    kind = input_type(shown)
    if len(data) > MAX_BYTES:
        raise UnfitPrompt(
            "invalid_input", f"the file has {len(data):,} bytes; at most {MAX_BYTES:,} are read"
        )
    if data.startswith(_UTF_16):
        raise UnfitPrompt("invalid_input", f"the file is UTF-16: {_REMEDY}")
    if (nul := data.find(b"\0")) >= 0:
        is_wide = data.count(b"\0") * 3 > len(data)  # every other byte of a Latin text
        remedy = f"if it is UTF-16, {_REMEDY}" if is_wide else "give a file of text in UTF-8"
        raise UnfitPrompt("invalid_input", f"not a text file: byte {nul} is zero: {remedy}")
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnfitPrompt(
            "invalid_input",
            f"not UTF-8: byte {error.start} (0x{data[error.start]:02x}, line {line}): "
            "save the file as UTF-8",
        ) from None
    if not text or text.isspace():
        raise UnfitPrompt("invalid_input", "the file is empty")
    if kind is None and shown == STDIN:
        kind = "prompt_yaml" if _is_prompt_yaml(text) else "markdown"
    if kind is None:
        raise UnfitPrompt("invalid_input", unsupported(shown))
    notes = () if note is None else (note,)
    if kind == "prompt_yaml":
        return _from_yaml(text, shown, notes)
    frontmatter, offset, remarks = split_front_matter(text)
    body = text[offset:]
    if not body or body.isspace():
        raise UnfitPrompt("invalid_input", "the file has front matter and no prompt below it")
    blocks = scan_blocks(body, text.count("\n", 0, offset))
    placeholders = find_placeholders(text, blocks, offset)
    style = template_style(body, {each.style for each in placeholders})
    return Prompt(
        path=shown,
        type="markdown",
        title=_title(frontmatter or {}, "title", blocks, shown),
        category=_category(frontmatter or {}, shown),
        frontmatter=frontmatter,
        text=text,
        body=body,
        body_offset=offset,
        blocks=blocks,
        placeholders=placeholders,
        notes=notes + remarks,
        kind=prompt_kind(shown, "markdown", frontmatter, body, style),
        language=language_of(body),
        template=style,
    )


def input_type(shown: str) -> InputType | None:
    """What a file is by its name, or None: Markdown, or YAML with `prompt` in its name."""
    name = shown.rpartition("/")[2].lower()
    stem, _, suffix = name.rpartition(".")
    if (stem and suffix == "md") or name.endswith(OTHER_FORMATS):
        return "markdown"
    if suffix in {"yml", "yaml"} and "prompt" in stem:
        return "prompt_yaml"
    return None


def unsupported(shown: str) -> str:
    """What to say of a file that is neither."""
    others = ", ".join(OTHER_FORMATS[:6])
    return f"{shown}: not a prompt file: give a .md or .prompt.yml file, or one of {others}"


# Prompt YAML


def _from_yaml(text: str, shown: str, notes: tuple[str, ...]) -> Prompt:
    import yaml

    from evalwright.contracts.yaml_loader import JsonLoader

    loaded = load_checked(text, first_line=1, what="prompt file")
    if not isinstance(loaded, dict):
        raise UnfitPrompt("invalid_input", "line 1: a prompt file is a mapping with `messages`")
    messages = loaded.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UnfitPrompt("invalid_input", "`messages` is missing: a list of {role, content}")
    parts = []
    for number, message in enumerate(messages, start=1):
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise UnfitPrompt(
                "invalid_input", f"message {number}: needs a `role` and a `content`, both text"
            )
        if role.lower() not in ("system", "user", "assistant"):
            raise UnfitPrompt(
                "invalid_input",
                f"message {number}: unknown role {role!r}; write system, user or assistant",
            )
        parts.append(f"{role}:\n{content.rstrip()}\n")
    body = "\n".join(parts)
    placeholders: list[Placeholder] = []
    blocks: list[Block] = []
    root = yaml.compose(text, Loader=JsonLoader)
    contents = (
        content
        for held in _under(root, "messages")
        for message in held.value
        for content in _under(message, "content")
    )
    for node in contents:
        start, end = node.start_mark, node.end_mark
        placeholders += find_placeholders(text, start=start.index, end=end.index)
        # The lines of the file, as nearly as YAML lets tell.
        last = max(end.line, start.line + 1)
        blocks += [
            msgspec.structs.replace(
                block, start=min(block.start, last - 1), end=max(min(block.end, last), 1)
            )
            for block in scan_blocks(node.value, start.line + (node.style in {"|", ">"}))
        ]
    return Prompt(
        path=shown,
        type="prompt_yaml",
        title=_title(loaded, "name", (), shown),
        category=_category(loaded, shown),
        frontmatter={key: value for key, value in loaded.items() if key != "messages"},
        text=text,
        body=body,
        body_offset=0,
        blocks=tuple(blocks),
        placeholders=tuple(placeholders),
        notes=notes,
        kind="chat",
        language=language_of(body),
        template=template_style(body, {each.style for each in placeholders}),
    )


def _under(mapping: Any, key: str) -> list[Any]:
    return [value for name, value in mapping.value if name.value == key]


def _is_prompt_yaml(text: str) -> bool:
    import yaml

    from evalwright.contracts.yaml_loader import load_yaml

    try:
        loaded = load_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
    return isinstance(loaded, dict) and "messages" in loaded


# What the file says of itself


def _title(frontmatter: dict[str, Any], key: str, blocks: Sequence[Block], shown: str) -> str:
    stated = frontmatter.get(key)
    if isinstance(stated, str) and stated.strip():
        return stated.strip()
    for block in blocks:
        title = _EMPHASIS.sub("", " ".join(block.text.split())) if block.kind == "heading" else ""
        if title:
            return title
    if shown == STDIN:
        return "Standard input"
    stem = PurePosixPath(shown).name.split(".", 1)[0] or PurePosixPath(shown).name
    return " ".join(re.split(r"[-_\s]+", stem.strip("-_ "))).capitalize() or stem


def _category(frontmatter: dict[str, Any], shown: str) -> str:
    stated = frontmatter.get("category")
    if isinstance(stated, str) and stated.strip():
        return stated.strip()
    folders = [part for part in shown.split("/")[:-1] if part not in {"", "."}]
    if "prompts" in folders[:-1]:
        return folders[folders.index("prompts") + 1]
    if folders and folders[-1] != "..":
        return folders[-1]
    return UNCATEGORIZED
