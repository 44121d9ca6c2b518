"""The steps of a conversation, as `conversation.html` shows them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec


class Remark(msgspec.Struct, frozen=True):
    """A finding at a step."""

    severity: str
    title: str
    text: str = ""
    links: Sequence[tuple[str, str]] = ()  # what shows it: in words, and the address of the step


class FailedCheck(msgspec.Struct, frozen=True):
    """A check that the answer failed."""

    name: str
    why: str


class Attachment(msgspec.Struct, frozen=True):
    """What came with a message: a picture, a sound or a file."""

    kind: Literal["image", "audio", "file"]
    name: str
    facts: str = ""  # such as its size
    address: str = ""  # from where it is shown; nothing where it is not kept


class TalkStep(msgspec.Struct, gc=False):
    """One step of a conversation, as the parts of a page show it."""

    kind: Literal[
        "user", "agent", "thought", "call", "note", "error"
    ]  # `error` is in place of an answer
    id: str
    text: Any = ""
    by: str = ""
    facts: str = ""
    name: str = ""
    args: str = ""
    cost: str = ""
    sent: Any = None
    returned: Any = None
    error: str = ""
    more: str = ""  # the address of a payload that is too long for the page
    link: str = ""  # the address of the step itself
    badge: str = ""
    bad: bool = False
    is_open: bool = False
    files: Sequence[Attachment] = ()
    findings: Sequence[Remark] = ()
    failed: Sequence[FailedCheck] = ()
