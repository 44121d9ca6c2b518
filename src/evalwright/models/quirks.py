"""What a model does not accept, learnt from the provider's own refusals."""

import re
from typing import Literal

import msgspec

from evalwright.models.protocol import Request

LENGTHS = "maxLength"  # the keyword of schemas: some refuse it, all answers are short without it
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]

_UNSUPPORTED = re.compile(
    r"unsupported|n[o']t (?:currently )?(?:be )?support|not available|not (?:allowed|permitted)"
    r"|unrecognized|unknown|unexpected|extra inputs|extra_forbidden|deprecated|only the default"
    r"|invalid schema|use 'max_",
    re.IGNORECASE,
)
_SCHEMA = re.compile(r"response_?format|json_?schema|structured outputs?", re.IGNORECASE)
_OPTIONAL = {  # a reply is still useful without these parameters
    "temperature": re.compile(r"\btemperature\b"),
    "top_p": re.compile(r"\btop_p\b"),
    "seed": re.compile(r"\bseed\b"),
    "logprobs": re.compile(r"\b(?:top_)?logprobs\b"),
}


# A provider's words for more tokens than it gives, or than have room beside the question.
_TOO_MANY = re.compile(
    r"max(?:_completion)?_tokens.{0,40}(?:too (?:large|high)|>)|at most \d+ completion tokens"
    r"|maximum context length",
    re.IGNORECASE,
)
_FEWEST_TOKENS = 64


class Quirks(msgspec.Struct, frozen=True):
    """How a model must be asked."""

    forced_tool: bool = False  # JSON output through a tool, not through response_format
    max_tokens_field: MaxTokensField = "max_tokens"
    field_changed: bool = False  # at most once
    dropped: frozenset[str] = frozenset()
    most_tokens: int | None = None  # that may be asked for

    def max_tokens(self, request: Request) -> int | None:
        if request.max_tokens is None or self.most_tokens is None:
            return request.max_tokens
        return min(request.max_tokens, self.most_tokens)

    def joined(self, other: "Quirks") -> "Quirks":
        return Quirks(
            self.forced_tool or other.forced_tool,
            self.max_tokens_field if self.field_changed else other.max_tokens_field,
            self.field_changed or other.field_changed,
            self.dropped | other.dropped,
            min(filter(None, (self.most_tokens, other.most_tokens)), default=None),
        )


def learn(quirks: Quirks, request: Request, complaint: str) -> Quirks | None:
    """The quirks that answer the complaint about a refused request; None if none would."""
    sent = quirks.max_tokens(request)
    if sent is None or sent <= _FEWEST_TOKENS or not _TOO_MANY.search(complaint):
        fewer = None
    else:
        named = [int(number) for number in re.findall(r"\b[0-9]{2,7}\b", complaint)]
        fewer = max(
            [number for number in named if _FEWEST_TOKENS <= number < sent], default=sent // 2
        )
    if fewer is not None:
        return msgspec.structs.replace(quirks, most_tokens=fewer)
    if not _UNSUPPORTED.search(complaint):
        return None
    if request.output is not None and "maxLength" in complaint and LENGTHS not in quirks.dropped:
        return msgspec.structs.replace(quirks, dropped=quirks.dropped | {LENGTHS})
    if request.output is not None and not quirks.forced_tool and _SCHEMA.search(complaint):
        return msgspec.structs.replace(quirks, forced_tool=True)
    names_field = re.search(rf"\b{quirks.max_tokens_field}\b", complaint)
    if request.max_tokens is not None and names_field and not quirks.field_changed:
        other = (
            "max_tokens"
            if quirks.max_tokens_field == "max_completion_tokens"
            else "max_completion_tokens"
        )
        return msgspec.structs.replace(quirks, max_tokens_field=other, field_changed=True)
    for name, pattern in _OPTIONAL.items():
        sent = getattr(request, "top_logprobs" if name == "logprobs" else name)
        if sent is not None and name not in quirks.dropped and pattern.search(complaint):
            return msgspec.structs.replace(quirks, dropped=quirks.dropped | {name})
    return None
