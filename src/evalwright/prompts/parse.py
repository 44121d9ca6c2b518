"""A prompt file's bytes to a `Prompt`: front matter, title, category, blocks, placeholders."""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec
import yaml

from evalwright.contracts.prompt_result import InputType
from evalwright.contracts.yaml_loader import DUPLICATE_KEY, JsonLoader, load_yaml
from evalwright.prompts.document import Block, Prompt, UnfitPrompt
from evalwright.prompts.markdown_blocks import scan_blocks
from evalwright.prompts.placeholders import find_placeholders

MAX_BYTES = 5 * 1024 * 1024
MAX_VALUES = 100_000
UNCATEGORIZED = "uncategorized"
STDIN = "-"

_MAP = "tag:yaml.org,2002:map"
_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_EMPHASIS = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")


class _LastKeyCounts(JsonLoader):
    """Accepts duplicate keys, as the tools that show front matter do."""


def _mapping(loader: _LastKeyCounts, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        last = {(key.tag, str(key.value)): (key, value) for key, value in node.value}
        node.value = list(last.values())
    return JsonLoader.yaml_constructors[_MAP](loader, node)


_LastKeyCounts.add_constructor(_MAP, _mapping)


def parse_prompt(data: bytes, shown: str, note: str | None = None) -> Prompt:
    """Parse a file; `shown` is its path in results and decides its type and category.

    Raises UnfitPrompt for a file that cannot be evaluated.
    """
    kind = input_type(shown)
    text = _decode(data)
    if kind is None and shown == STDIN:
        kind = "prompt_yaml" if _is_prompt_yaml(text) else "markdown"
    if kind is None:
        raise UnfitPrompt("invalid_input", unsupported(shown))
    notes = () if note is None else (note,)
    if kind == "prompt_yaml":
        return _from_yaml(text, shown, notes)
    return _from_markdown(text, shown, notes)


def input_type(shown: str) -> InputType | None:
    """What a file is by its name, or None: Markdown, or YAML with `prompt` in its name."""
    stem, _, suffix = shown.rpartition("/")[2].lower().rpartition(".")
    if stem and suffix == "md":
        return "markdown"
    if suffix in {"yml", "yaml"} and "prompt" in stem:
        return "prompt_yaml"
    return None


def unsupported(shown: str) -> str:
    """What to say of a file that is neither."""
    return f"{shown}: not a prompt file: give a .md, .prompt.yml or .prompt.yaml file"


def _decode(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise UnfitPrompt(
            "invalid_input", f"the file has {len(data):,} bytes; at most {MAX_BYTES:,} are read"
        )
    if (nul := data.find(b"\0")) >= 0:
        raise UnfitPrompt("invalid_input", f"not a text file: byte {nul} is zero")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnfitPrompt(
            "invalid_input",
            f"not UTF-8: byte {error.start} (0x{data[error.start]:02x}, line {line}): "
            "save the file as UTF-8",
        ) from None
    if not text or text.isspace():
        raise UnfitPrompt("invalid_input", "the file is empty")
    return text


# Markdown


def _from_markdown(text: str, shown: str, notes: tuple[str, ...]) -> Prompt:
    frontmatter, offset, remarks = split_front_matter(text)
    body = text[offset:]
    if not body or body.isspace():
        raise UnfitPrompt("invalid_input", "the file has front matter and no prompt below it")
    blocks = scan_blocks(body, text.count("\n", 0, offset))
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
        placeholders=find_placeholders(text, blocks, offset),
        notes=notes + remarks,
    )


def split_front_matter(text: str) -> tuple[dict[str, Any] | None, int, tuple[str, ...]]:
    """The front matter of a text (None: it has none), the offset at its end, and notes on it."""
    opening = _OPENING.match(text)
    if opening is None:
        return None, 0, ()
    start = opening.end()
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        raise UnfitPrompt(
            "invalid_input", "line 1: the front matter is not closed: end it with a line of ---"
        )
    notes: list[str] = []
    source = text[start : closing.start() + 1]
    loaded = _load(source, first_line=2, what="front matter", notes=notes)
    if loaded is None:
        loaded = {}
    if not isinstance(loaded, dict):
        raise UnfitPrompt(
            "invalid_input",
            f"line 2: the front matter is {_named(loaded)}: write `key: value` lines",
        )
    return loaded, closing.end(), tuple(notes)


def _load(
    source: str,
    first_line: int,
    what: str,
    notes: list[str] | None = None,
    load: Callable[[str], Any] = load_yaml,
) -> Any:
    """Read YAML; an error names its line in the file.

    Given `notes`, a duplicate key is noted there instead, and the last value counts.
    """
    try:
        loaded = load(source)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = _why_unreadable(error, first_line, what)
        if notes is None or DUPLICATE_KEY not in message:
            raise UnfitPrompt("invalid_input", message) from None
        notes.append(f"{message}; the last one counts")
        return _load(source, first_line, what, load=_load_last)
    if "*" in source and _size(loaded) > MAX_VALUES:
        raise UnfitPrompt(
            "invalid_input",
            f"line {first_line}: {what}: more than {MAX_VALUES:,} values once its aliases are "
            "expanded",
        )
    return loaded


def _why_unreadable(error: Exception, first_line: int, what: str) -> str:
    mark = None
    reason: object = " ".join(str(error).split())
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context
    column = f", column {mark.column + 1}" if mark else ""
    return f"line {first_line + (mark.line if mark else 0)}{column}: {what}: {reason}"


def _size(value: Any) -> int:
    """How many values a value holds as JSON, where nothing is shared; counted to the limit."""
    count = 0
    left = [value]
    while left and count <= MAX_VALUES:
        value = left.pop()
        count += 1
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return count


def _load_last(source: str) -> Any:
    return yaml.load(source, Loader=_LastKeyCounts)  # noqa: S506 - builds plain JSON values only


def _named(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a single value"


# Prompt YAML


def _from_yaml(text: str, shown: str, notes: tuple[str, ...]) -> Prompt:
    loaded = _load(text, first_line=1, what="prompt file")
    if not isinstance(loaded, dict):
        raise UnfitPrompt("invalid_input", "line 1: a prompt file is a mapping with `messages`")
    body = _conversation(loaded.get("messages"))
    contents = _contents(text)
    return Prompt(
        path=shown,
        type="prompt_yaml",
        title=_title(loaded, "name", (), shown),
        category=_category(loaded, shown),
        frontmatter={key: value for key, value in loaded.items() if key != "messages"},
        text=text,
        body=body,
        body_offset=0,
        blocks=tuple(block for node in contents for block in _blocks_at(node)),
        placeholders=tuple(
            placeholder
            for node in contents
            for placeholder in find_placeholders(
                text, start=node.start_mark.index, end=node.end_mark.index
            )
        ),
        notes=notes,
    )


def _conversation(messages: Any) -> str:
    """The messages as text, each under its role."""
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
    return "\n".join(parts)


def _contents(text: str) -> list[yaml.ScalarNode]:
    """Where the contents of the messages are in the file."""
    root = yaml.compose(text, Loader=JsonLoader)
    return [
        content
        for messages in _under(root, "messages")
        for message in messages.value
        for content in _under(message, "content")
    ]


def _under(mapping: Any, key: str) -> list[Any]:
    return [value for name, value in mapping.value if name.value == key]


def _blocks_at(content: yaml.ScalarNode) -> tuple[Block, ...]:
    """The blocks of a message's content, on the lines of the file as nearly as YAML lets tell."""
    first = content.start_mark.line + (content.style in {"|", ">"})
    last = max(content.end_mark.line, content.start_mark.line + 1)
    return tuple(
        msgspec.structs.replace(
            block, start=min(block.start, last - 1), end=max(min(block.end, last), 1)
        )
        for block in scan_blocks(content.value, first)
    )


def _is_prompt_yaml(text: str) -> bool:
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
        if block.kind == "heading" and block.text.strip():
            return _EMPHASIS.sub("", " ".join(block.text.split()))
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
