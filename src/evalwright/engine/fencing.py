"""Asking judges safely: data fenced off from instructions, and replies that must fit.

Everything that a judge is shown stands in sections, fenced by markers with a code. The code is made
from what the sections hold, so no text can contain its own: nothing that is judged can end the
section it stands in, and equal questions give equal requests.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from evalwright.contracts.jsonvalue import NotJson, parse, repeated_key
from evalwright.models.protocol import ChatMessage, Reply, Request

LONGEST_QUOTE = 8_000  # characters of its own reply that a judge is shown when it is asked again
_CODE_DIGITS = 32
_MADE_FOR = ("evalwright judge", "1")  # cassettes hold codes: these words are for good

_AGAIN = """\
That reply cannot be used: {problem}. The task is unchanged. Reply again, with the one JSON object \
alone."""


class UnfitReply(Exception):
    """A reply that holds no verdicts; the message says why and quotes nothing of it."""


def fence_code(texts: Sequence[str], digits: int = _CODE_DIGITS) -> str:
    """A code for the markers around these texts: made from them, and in none of them."""
    counter = 0
    while True:
        made_from = msgspec.json.encode([*_MADE_FOR, counter, texts])
        code = hashlib.sha256(made_from).hexdigest()[:digits]
        if not any(code in text for text in texts):
            return code
        counter += 1


def section(title: str, text: str, code: str) -> str:
    """A text between its two markers."""
    name = title.partition(" ")[0]
    return f"<<<BEGIN {title} {code}>>>\n{text}\n<<<END {name} {code}>>>"


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has all of these fields and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def reply_object(reply: Reply) -> dict[str, Any]:
    """The one JSON object that a reply consists of; raises `UnfitReply`."""
    if reply.finish == "refusal":
        raise UnfitReply("it is a refusal to judge")
    if reply.finish == "length":
        raise UnfitReply("it was cut off at the limit of its length; give shorter reasons")
    try:
        entries = parse(reply.text)
    except NotJson:
        raise UnfitReply("it is not one JSON object without anything around it") from None
    if not isinstance(entries, dict):
        raise UnfitReply("it is JSON, but no object")
    if repeated_key(reply.text.encode()) is not None:
        raise UnfitReply("a key stands twice in one object")
    return entries


def ask_again(request: Request, reply: Reply, problem: UnfitReply) -> Request:
    """The same request, with the reply that did not fit and what was wrong with it."""
    said = reply.text or "(no text)"  # some providers refuse an empty message
    if len(said) > LONGEST_QUOTE:
        said = f"{said[:LONGEST_QUOTE]}… (+{len(said) - LONGEST_QUOTE} characters)"
    turns = (ChatMessage("assistant", said), ChatMessage("user", _AGAIN.format(problem=problem)))
    return msgspec.structs.replace(request, messages=request.messages + turns)
