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
from evalwright.models.protocol import ChatMessage, OutputSchema, Reply, Request

LONGEST_QUOTE = 8_000  # characters of its own reply that a judge is shown when it is asked again
LONGEST_CUT_QUOTE = 400  # of one that ran on until it was cut
LONGEST_REASON = 600  # characters of one to three sentences
THINKING_TOKENS = 2_048  # that a model may use before it writes
MOST_TOKENS = 8_192
CHARACTERS_PER_TOKEN = 2  # assumed: languages with long words have more, so this is rather enough
MORE_ROOM = 4  # times as much, for a model that used all it had to think
_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
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


def text_within(most: int) -> dict[str, Any]:
    """The schema of a text of at most so many characters."""
    return {"type": "string", "maxLength": most}


def limited(request: Request, characters: int) -> Request:
    """The request with a limit of tokens, for an answer of about so many characters.

    A model that never ends its reason would otherwise be waited for until the time is up.
    """
    tokens = min(MOST_TOKENS, THINKING_TOKENS + characters // CHARACTERS_PER_TOKEN)
    return msgspec.structs.replace(request, max_tokens=tokens, has_our_limits=True)


def reply_object(reply: Reply) -> dict[str, Any]:
    """The one JSON object that a reply consists of; raises `UnfitReply`."""
    if reply.finish == "refusal":
        raise UnfitReply("it is a refusal to judge")
    if reply.finish == "length":
        raise UnfitReply("it was cut off at the limit of its length; give shorter reasons")
    if reply.finish == "filtered":
        raise UnfitReply("it was cut off by the provider's content filter")
    text = _object_in(reply.text)
    try:
        entries = parse(text)
    except NotJson:
        raise UnfitReply("it is not one JSON object without anything around it") from None
    if not isinstance(entries, dict):
        raise UnfitReply("it is JSON, but no object")
    if repeated_key(text.encode()) is not None:
        raise UnfitReply("a key stands twice in one object")
    return entries


def _object_in(text: str) -> str:
    """The object that a reply ends with, on lines of its own, after words or in a code block.

    Words after it are not passed over: a judge that quotes an object of whom it judges goes on.
    """
    if text.lstrip().startswith(_THOUGHT):  # of models whose server does not take it out
        text = text.partition(_THOUGHT_ENDS)[2]
    start = text.find("{")
    before, rest = text[:start], text[start:].rstrip()
    if start < 0 or before.rpartition("\n")[2].strip():
        return text
    fence = "```" if "```" in before else ""
    return rest.removesuffix(fence) if rest.endswith(fence) else text


def ask_again(request: Request, reply: Reply, problem: UnfitReply) -> Request:
    """The same request, with the reply that did not fit and what was wrong with it."""
    return repeated(request, reply, _AGAIN.format(problem=problem))


def repeated(request: Request, reply: Reply, complaint: str) -> Request:
    """The request after a reply and what is said about it; after one that ran on, for less."""
    said = reply.text or "(no text)"  # some providers refuse an empty message
    is_cut = reply.finish == "length"
    longest = LONGEST_CUT_QUOTE if is_cut else LONGEST_QUOTE
    if len(said) > longest:
        said = f"{said[:longest]}… (+{len(said) - longest} characters)"
    turns = (ChatMessage("assistant", said), ChatMessage("user", complaint))
    again = msgspec.structs.replace(request, messages=request.messages + turns)
    return _shortened(again, reply) if is_cut and again.has_our_limits else again


def _shortened(request: Request, reply: Reply) -> Request:
    """Texts of half the length; more room instead for a model that did not get to its answer."""
    output = request.output
    if not _object_in(reply.text).strip() and request.max_tokens:
        return msgspec.structs.replace(request, max_tokens=request.max_tokens * MORE_ROOM)
    if output is None:
        return request
    halved = OutputSchema(output.name, _halved(output.schema))
    return msgspec.structs.replace(request, output=halved)


def _halved(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {
        key: max(1, value // 2) if key == "maxLength" else _halved(value)
        for key, value in schema.items()
    }
