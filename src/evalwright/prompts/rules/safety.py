"""Rules about what a prompt should not hold, and about text that comes from outside."""

import re
from collections.abc import Iterator
from functools import lru_cache

from evalwright.prompts.document import Placeholder
from evalwright.prompts.findings import Fix, Hit, Rule
from evalwright.prompts.rules.reading import Reading, quick_pattern
from evalwright.prompts.rules.variables import core_variables
from evalwright.signals.sensitive import scan
from evalwright.signals.sensitive_part import SensitivePart

_GRAVE_PII = frozenset(
    {"credit-card", "us-ssn", "iban", "passport", "national-id", "date-of-birth", "phone", "email"}
)
# Addresses that documentation uses, and numbers that are kept free for stories.
_MADE_UP_MAIL = (
    r"(?i)@(?:[\w-]+\.)*(?:example|test|invalid|localhost|contoso|fabrikam|northwind|adventure-works|acme"
    r"|(?:your|my|the)?-?(?:company|domain|organi[sz]ation|org|business|corp|email|mail|site|"
    r"website|app|school|university)|techcorp|foo|bar|xyz)(?:\.[a-z]{2,})*$"
)
_MADE_UP_PHONE = r"555|(\d)\1{5}|123-?456|0000"

_ANNOUNCED = re.compile(
    r"(?:following|below|this|provided|attached|given)\s+(?:[a-z]+\s+){0,2}"
    r"(?:text|document|email|message|article|code|transcript|content|input|data|log)s?\b[^\n:]{0,40}"
    r":[*_ ]*\s*$"
)
_GUARD = re.compile(
    r"\btreat\b[^\n.]{0,60}\b(?:as data|as untrusted|as content|only as)"
    r"|\b(?:do not|don't|never|ignore)\b[^\n.]{0,30}\b(?:instructions?|commands?|directives?)\b"
    r"[^\n.]{0,40}\b(?:in|inside|within|from|contained|embedded|appear|between)\b"
    r"|\buntrusted\b|\bprompt injection\b"
)
_GUARD_SIGNS = ("treat", "instruction", "command", "directive", "untrusted", "prompt injection")
_OPENED = re.compile(
    r"(?:```[^\n`]*|~~~[^\n]*|\"\"\"|'''|<[A-Za-z][^<>\n]*>|[\"“'`«]|[-=#*]{3,})\s*$"
)
_ALONE_BEFORE = re.compile(r"(?:\n[ \t>*_-]*|:[*_]{0,2}[ \t]*)$")
_ALONE_AFTER = re.compile(r"[*_.]{0,2}[ \t\r]*(?:\n|$)")
# The last words of variables that bring in whole texts, and the first words of those of strangers.
_OUTSIDE_TEXTS = frozenset(
    """
    text texts content contents document documents transcript transcripts article articles code
    diff log logs snippet snippets conversation comments body input
    """.split()
)
_OUTSIDERS = frozenset("pasted paste raw retrieved scraped untrusted".split())
_FILLED_IN = ("", "here", "your", "the")
_CLOSING = {"{{}}": "}}", "[]": "]", "${}": "}", "<>": ">", "{}": "}"}

# Zero-width joiners and variation selectors belong to emoji and scripts; these belong to nothing.
_INVISIBLE = re.compile(
    "[\u200b\u2060\u180e\u202a-\u202e\u2066-\u2069\U000e0001\U000e0020-\U000e007f]+|(?<!^)\ufeff+"
)
_INVISIBLE_BYTES = (
    rb"\xe2\x80[\x8b\xaa-\xae]|\xe2\x81[\xa0\xa6-\xa9]|\xe1\xa0\x8e|\xef\xbb\xbf|\xf3\xa0[\x80\x81]"
)
_FLAG = "\U0001f3f4"  # the one emoji that tag characters follow


def _secrets(reading: Reading) -> Iterator[Hit]:
    for found in _sensitive(reading):
        if found.family == "secret" and found.confidence != "low":
            yield Hit(
                found.start, f"This looks like a secret ({found.label}): revoke and remove it."
            )


def _personal_data(reading: Reading) -> Iterator[Hit]:
    for found in _sensitive(reading):
        if found.family == "pii" and _is_personal(found, reading.text[found.start : found.end]):
            yield Hit(
                found.start,
                f"This looks like personal data ({found.label}): use a variable or made-up data.",
            )


@lru_cache(maxsize=1)
def _sensitive(reading: Reading) -> list[SensitivePart]:
    return scan(reading.text)


def _is_personal(found: SensitivePart, value: str) -> bool:
    if found.rule not in _GRAVE_PII or found.confidence != "high":
        return False
    if found.rule == "email":
        return re.search(_MADE_UP_MAIL, value) is None
    return found.rule != "phone" or re.search(_MADE_UP_PHONE, value) is None


def _injection(reading: Reading) -> Iterator[Hit]:
    outside = [each for each in core_variables(reading) if _is_open(reading, each)]
    lowered = reading.lowered
    signed = outside and any(sign in lowered for sign in _GUARD_SIGNS)
    if signed and _GUARD.search(lowered) is not None:
        return
    seen: set[str] = set()
    for each in outside:
        if each.name not in seen:
            seen.add(each.name)
            yield Hit(
                each.offset,
                f"“{each.name}” brings in text from outside without delimiters: put it between "
                "tags or fences, and say that it is data.",
            )


def _is_open(reading: Reading, each: Placeholder) -> bool:
    """Whether text from outside has its place to itself, with nothing around to mark it off."""
    text = reading.text
    before = text[max(0, each.offset - 160) : each.offset]
    # With a slash it is a choice between options.
    name = "" if "/" in each.name else each.name.lower()
    words = [word for word in re.split(r"[\W_\d]+", name) if word not in _FILLED_IN]
    is_text = bool(words) and (words[-1] in _OUTSIDE_TEXTS or words[0] in _OUTSIDERS)
    if not is_text and not _is_announced(before):
        return False
    if _OPENED.search(before) or not _ALONE_BEFORE.search(before):
        return False
    end = text.find(_CLOSING[each.style], each.offset)
    return end >= 0 and _ALONE_AFTER.match(text, end + len(_CLOSING[each.style])) is not None


def _is_announced(before: str) -> bool:
    return before.rstrip("*_ \n").endswith(":") and _ANNOUNCED.search(before.lower()) is not None


def _invisible(reading: Reading) -> Iterator[Hit]:
    text = reading.text
    if text.isascii() or not quick_pattern(_INVISIBLE_BYTES).search(reading.data):
        return
    for match in _INVISIBLE.finditer(text):
        start, end = match.span()
        if text[start - 1 : start] != _FLAG:
            code = f"U+{ord(match[0][0]):04X}"
            fence = reading.fence_at(start)
            yield Hit(
                start,
                f"An invisible character ({code}) that readers cannot see and models can.",
                None if fence is not None and fence.is_code else Fix(start, end, ""),
            )


RULES = (
    Rule(
        id="PE401",
        name="secret",
        severity="error",
        criterion="safety",
        summary="A key, token or password.",
        explanation=(
            "A prompt is copied, logged and sent to providers. Revoke the secret, remove it, and "
            "pass it outside the prompt."
        ),
        check=_secrets,
    ),
    Rule(
        id="PE402",
        name="personal-data",
        severity="warning",
        criterion="safety",
        summary="Data of a person: card, account or identity numbers, phone, e-mail.",
        explanation=(
            "Replace it by a variable, or by a value that is kept for documentation, such as an "
            "address at example.com. Those are not reported."
        ),
        check=_personal_data,
    ),
    Rule(
        id="PE403",
        name="injection-prone-interpolation",
        severity="warning",
        criterion="safety",
        summary="Text from outside is put between the instructions without delimiters.",
        explanation=(
            "Documents, messages and code may contain instructions. Put the variable between tags "
            "or fences, and say that what is between them is data and never an "
            "instruction. Variables for single words are left alone."
        ),
        check=_injection,
    ),
    Rule(
        id="PE404",
        name="invisible-characters",
        severity="warning",
        criterion="safety",
        summary="Characters that nobody sees: zero-width, direction overrides, tags.",
        explanation=(
            "They can hide instructions from reviewers, and break search and comparison. The fix "
            "removes them; joiners within emoji and scripts stay."
        ),
        check=_invisible,
        fixable=True,
    ),
)
