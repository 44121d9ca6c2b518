"""Images, sounds and files within messages: a suite keeps their bytes once, inputs refer to them.

A part of a message is `{"image": {"name", "type", "bytes", "sha256"}}`; what an agent is given has
`data` as well, in base64.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

AttachmentKind = Literal["image", "audio", "file"]
KINDS: tuple[AttachmentKind, ...] = get_args(AttachmentKind)
MOST_BYTES = 5 << 20  # of one; providers take hardly more
MOST_IN_SUITE = 32 << 20

_SIGNATURES: dict[AttachmentKind, tuple[tuple[bytes, int, bytes, str], ...]] = {
    "image": (
        (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
        (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
        (b"GIF8", 0, b"", "image/gif"),
        (b"RIFF", 8, b"WEBP", "image/webp"),
    ),
    "audio": (
        (b"RIFF", 8, b"WAVE", "audio/wav"),
        (b"ID3", 0, b"", "audio/mpeg"),
        (b"\xff\xfb", 0, b"", "audio/mpeg"),
        (b"\xff\xf3", 0, b"", "audio/mpeg"),
        (b"OggS", 0, b"", "audio/ogg"),
        (b"fLaC", 0, b"", "audio/flac"),
    ),
    "file": ((b"%PDF-", 0, b"", "application/pdf"),),
}


class Attached(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an attachment, in base64, and what it is by its first bytes."""

    type: str
    data: str


class AttachedFile(msgspec.Struct, frozen=True):
    """An attachment of a message, with its content."""

    kind: AttachmentKind
    name: str
    type: str
    data: str


def content_type(kind: AttachmentKind, content: bytes) -> str | None:
    """What it is by its first bytes; None if it is not of this kind."""
    for start, place, more, known in _SIGNATURES[kind]:
        if content.startswith(start) and content.startswith(more, place):
            return known
    if kind != "file":
        return None
    try:
        content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


def part_of(item: Any) -> tuple[AttachmentKind, Any] | None:
    """The kind and the value of a part that is an attachment."""
    if isinstance(item, dict) and len(item) == 1:
        for kind in KINDS:
            if kind in item:
                return kind, item[kind]
    return None


def is_content(value: Any) -> bool:
    """Whether a list is the content of a message: texts, and attachments among them."""
    if not isinstance(value, list) or not any(map(_is_text, value)):
        return False
    parts = [each for each in value if not _is_text(each)]
    return bool(parts) and all(part_of(each) is not None for each in parts)


def _is_text(item: Any) -> bool:
    if isinstance(item, dict) and item.keys() == {"text"}:
        item = item["text"]
    return isinstance(item, str)


def replaced(given: Any, of: Callable[[AttachmentKind, Any, str], Any], place: str = "$") -> Any:
    """An input with `of(kind, value, place)` in place of what each attachment has."""
    if isinstance(given, dict) and isinstance(said := given.get("messages"), list):
        return given | {
            "messages": [
                each | {"content": replaced(each["content"], of, f"{place}.messages[{n}].content")}
                if isinstance(each, dict) and is_content(each.get("content"))
                else each
                for n, each in enumerate(said)
            ]
        }
    if not is_content(given):
        return given
    parts = [part_of(each) for each in given]
    return [
        each if part is None else {part[0]: of(*part, f"{place}[{n}].{part[0]}")}
        for n, (each, part) in enumerate(zip(given, parts, strict=True))
    ]


def with_data(given: Any, attached: Mapping[str, Attached]) -> Any:
    """An input as an agent is given it: its attachments with their data."""
    if not attached:
        return given

    def data_of(_kind: AttachmentKind, value: Any, _place: str) -> Any:
        found = attached.get(value.get("sha256", "")) if isinstance(value, dict) else None
        return value if found is None else {**value, "data": found.data}

    return replaced(given, data_of)


def text_and_attachments(given: Any) -> tuple[Any, list[AttachedFile]]:
    """An input apart: what is text in it, and its attachments in order; for models."""
    found: list[AttachedFile] = []

    def taken(kind: AttachmentKind, value: Any, _place: str) -> Any:
        if not isinstance(value, dict) or "data" not in value:
            return value
        found.append(AttachedFile(kind, value["name"], value["type"], value["data"]))
        return {"name": value["name"]}

    rest = replaced(given, taken)
    if found and isinstance(rest, list):
        texts = [
            each["text"] if isinstance(each, dict) else each for each in rest if _is_text(each)
        ]
        return "\n\n".join(texts), found
    return rest, found


def attachments_in(given: Any) -> list[tuple[AttachmentKind, Any]]:
    """The attachments that an input refers to."""
    found: list[tuple[AttachmentKind, Any]] = []
    replaced(given, lambda kind, value, _: found.append((kind, value)))
    return [each for each in found if isinstance(each[1], dict)]
