"""Secrets without a format of their own, known by what stands before them or around them."""

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.secret_checks import COMMON_WORDS, entropy, is_placeholder

_QUOTES = r"[\"'`]"
# What may stand between a name and its value: a separator as in code, files, tables and tags,
# or a few words as in prose. Escaped quotes have become a quote with spaces before it.
_JOINT = (
    rf"[\w.-]{{0,24}}\s{{0,7}}[\"'`)\]]{{0,2}}"
    r"(?:\s{0,3}(?:=>|:=|==?|:|\||>|,)\s{0,7}|(?:\s[A-Za-z']{1,12}){0,5}[:=]?\s)"
    rf"[\"'`(]{{0,2}}"
)
_NOT_A_NAME = re.compile(
    rb"(?i)(?:page|next|previous|prev|continuation|continue|cursor|sync|max|min|num|count|public|"
    rb"csrf|cancel|idempotency|primary|foreign|sort|partition|cache|row|lookup)[ _.-]?$"
)
_OTHER_THING = re.compile(
    rb"(?i)^[_.-]?(?:s\b|id|ids|name|names|type|url|uri|path|file|count|limit|length|size|usage|"
    rb"budget|expir|ttl|hash|endpoint|version|format|policy|field|label|hint|used|per|rotation)"
)
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_PRIVATE_KEY_REACH = 16_384


class ContextRule(msgspec.Struct, frozen=True):
    """A secret that its surroundings tell; group 1 of the pattern is the value."""

    id: str
    label: str
    literals: tuple[bytes, ...]
    pattern: bytes
    judge: Callable[[bytes, bytes, bytes], Confidence | None]  # before, the whole match, the value
    severity: Severity = "high"


Judge: TypeAlias = Callable[[bytes, bytes, bytes], Confidence | None]


def _kinds(value: bytes) -> tuple[bool, bool, bool, bool]:
    """Whether a value has small letters, capitals, digits, and anything else."""
    text = value.decode("latin-1")
    return (
        any("a" <= each <= "z" for each in text),
        any("A" <= each <= "Z" for each in text),
        any("0" <= each <= "9" for each in text),
        not text.isalnum(),
    )


def _judge_password(before: bytes, whole: bytes, value: bytes) -> Confidence | None:
    name = whole[: len(whole) - len(value)]
    if _is_no_secret(before, name, value) or b"://" in value or value.endswith(b"()"):
        return None
    small, capital, digit, other = _kinds(value)
    assigned = name.rstrip(b"\"'`( \t").endswith((b"=", b":", b"|", b">"))
    if digit and (small or capital):
        strong = other or (small and capital) or len(value) >= 10
        return "medium" if assigned or strong else None
    if assigned and other and (small or capital) and not _is_code(value):
        return "low"
    quoted = name.endswith((b'"', b"'"))
    return "low" if assigned and quoted and len(value) >= 6 and not other else None


def _is_no_secret(before: bytes, name: bytes, value: bytes) -> bool:
    word = re.sub(rb"(?i)^[a-z]+", b"", name, count=1)
    return (
        value.lower() in COMMON_WORDS
        or is_placeholder(value)
        or _OTHER_THING.search(word) is not None
        or _NOT_A_NAME.search(before) is not None
    )


def _is_code(value: bytes) -> bool:
    """Names, calls and paths: `settings.password`, `get_password(x)`, `/run/secrets/db`."""
    return re.fullmatch(rb"[\w./:()\[\]-]*", value) is not None


def _judge_secret(before: bytes, whole: bytes, value: bytes) -> Confidence | None:
    name = whole[: len(whole) - len(value)]
    if _is_no_secret(before, name, value) or _UUID.match(value):
        return None
    small, capital, digit, _ = _kinds(value)
    digits = sum(byte in b"0123456789" for byte in value)
    if not digit or not (small or capital) or digits < 2 or entropy(value) < 3.0:
        return None
    if b"://" in value or value.startswith((b"/", b"./")) or value.count(b".") > 3:
        return None
    assigned = name.rstrip(b"\"'`( \t").endswith((b"=", b":", b"|", b">"))
    return "medium" if assigned or (small and capital) else "low"


def _judge_code(before: bytes, whole: bytes, value: bytes) -> Confidence | None:
    del before, whole
    return "medium" if len(set(value)) > 1 else "low"


def _judge_url_password(before: bytes, whole: bytes, value: bytes) -> Confidence | None:
    del whole
    if not before[-1:].isalnum() or is_placeholder(value) or value.lower() in COMMON_WORDS:
        return None
    return "high"


CONTEXT_RULES = (
    ContextRule(
        "password",
        "password",
        (b"password", b"passwd", b"pwd", b"passphrase", b"passcode", b"passwort"),
        rf"(?i:passw(?:or)?[dt]|pwd|passphrase|passcode){_JOINT}([^\s\x01\"'`<>,;|&]{{4,128}})".encode(),
        _judge_password,
    ),
    ContextRule(
        "assigned-secret",
        "secret by its name",
        (
            *(b"secret", b"token", b"api_key", b"apikey", b"api-key", b"api key", b"access_key"),
            *(b"access-key", b"accesskey", b"access key", b"private_key", b"privatekey"),
            *(b"auth_key", b"signing_key", b"encryption_key", b"master_key", b"credential"),
            *(b"secret_key", b"app_key", b"client_key", b"service_key", b"account_key"),
            *(b"signing key", b"encryption key", b"license_key", b"webhook_key"),
        ),
        (
            r"(?i:secret|token|(?:api|access|private|auth|signing|encryption|master|app|client|"
            rf"service|account|license|webhook)[_ -]?key|credential){_JOINT}"
            r"([\w+/=.~$@!#%^*:-]{16,512})"
        ).encode(),
        _judge_secret,
    ),
    ContextRule(
        "one-time-code",
        "one-time code",
        (
            *(b"verification code", b"security code", b"2fa", b"mfa", b"otp", b"one-time"),
            *(b"authentication code", b"login code", b"access code", b"sign-in code", b"passcode"),
            *(b"verification_code", b"security_code", b"one time", b"auth code", b"pin code"),
            *(b"authenticator code", b"two-factor code", b"backup code", b"recovery code"),
        ),
        (
            r"(?i:(?:verification|security|authentication|authenticator|login|sign-in|access|auth|"
            r"pin|two-factor|backup|recovery)[_ ]code|[2m]fa|otp|one[- ]time|passcode)"
            r"(?:[ _][A-Za-z]{1,12}){0,4}[\"'`]?\s?(?:(?:is|was|=|:)\s?){1,2}[\"'`]?"
            r"((?:G-)?\d{4,8}|\d{3}[- ]\d{3})\b"
        ).encode(),
        _judge_code,
    ),
    ContextRule(
        "url-password",
        "password in a URL",
        (b"://",),
        rb"://[^\s\x01/:@\"'<>?#]{0,64}:([^\s\x01/@\"'<>]{3,128})@[\w\[]",
        _judge_url_password,
    ),
)

_HEADER = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(rb"[\sA-Za-z0-9+/=:,.\-]{0,2000}")
PRIVATE_KEY_LITERAL = b"-----begin"


def private_key_end(data: bytes, start: int) -> int | None:
    """Where the private key ends that begins here: at its footer, else with its last key line."""
    header = _HEADER.match(data, start)
    if header is None:
        return None
    limit = min(len(data), start + _PRIVATE_KEY_REACH)
    quote = data.find(b'"', header.end(), limit)
    limit = quote if quote >= 0 else limit
    footer = data.find(b"-----END", header.end(), limit)
    if footer >= 0:
        close = data.find(b"-----", footer + 8, min(limit, footer + 60))
        end = close + 5 if close >= 0 else footer
    else:
        body = _BODY.match(data, header.end(), limit)
        end = body.end() if body else header.end()
    inside = data[header.end() : end].split(b"-----END")[0]
    return end if _is_key_material(inside) else None


def _is_key_material(body: bytes) -> bool:
    letters = re.sub(rb"[^A-Za-z0-9+/=]", b"", body)
    return len(letters) >= 24 and not is_placeholder(body) and entropy(letters) >= 3
