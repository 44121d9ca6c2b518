"""Secrets without a token format, recognised by the text before or around them."""

import re
from collections.abc import Callable

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.secrets.checks import COMMON_WORDS, entropy, is_placeholder

# What may stand between a name and its value: a separator as in code, files, tables and tags,
# or a few words as in prose. Escaped quotes have become a quote with spaces before it.
_JOINT = (
    r"[\w.-]{0,24}\s{0,7}[\"'`)\]]{0,2}"
    r"(?:\s{0,3}(?:=>|\?=|\.=|:{1,3}=|={1,3}|:|\||>|,|\()\s{0,7}|"
    r"(?:\s[A-Za-z']{1,12}){0,5}\s?[:=]?\s)\(?"
)
# Whole up to the closing quote: half a password would still say much.
_QUOTED = r"\"([^\"\n\x01]{4,256})|'([^'\"\n\x01]{4,256})|`([^`\"\n\x01]{4,256})"
_NEXT_PAIR = re.compile(rb"</|[;&,](?=[\w.-]{1,40}\s?[=:])")
_NOT_A_NAME = re.compile(
    rb"(?i)(?:page|next|previous|prev|continuation|continue|cursor|sync|max|min|num|count|public|"
    rb"csrf|cancel|idempotency|primary|foreign|sort|partition|cache|row|lookup)[ _.-]?$"
)
_OTHER_THING = re.compile(
    rb"(?i)^[_.-]?(?:s\b|id|ids|name|names|type|url|uri|path|file|count|limit|length|size|usage|"
    rb"budget|expir|ttl|hash|endpoint|version|format|policy|field|label|hint|used|per|rotation)"
)
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_AFTER_A_CLOSING_QUOTE = (b"", b",", b":", b"]", b"}")
_PUNCTUATION = b".,;:)]}|'\"` \t"
_PRIVATE_KEY_REACH = 16_384


class NamedValue(msgspec.Struct, frozen=True, gc=False):
    """A value, the name and joint before it, and some bytes before the name."""

    before: bytes
    name: bytes
    value: bytes

    @property
    def assigned(self) -> bool:
        """Whether the value is assigned to the name, not just written after it."""
        joint = self.name.rstrip(b"\"'`( \t\n")
        return joint.endswith((b"=", b":", b"|", b">")) or self.before.endswith(b"--")

    @property
    def quoted(self) -> bool:
        """Whether the value begins after a quote."""
        return self.name.endswith((b'"', b"'", b"`"))


class ContextRule(msgspec.Struct, frozen=True):
    """A secret that its surroundings tell; the pattern's one matching group is the value."""

    id: str
    label: str
    literals: tuple[bytes, ...]
    pattern: bytes
    judge: Callable[[NamedValue], Confidence | None]
    severity: Severity = "high"


def whole_value(value: bytes) -> bytes:
    """The value without what follows it in the same breath: the next pair, a tag, punctuation."""
    following = _NEXT_PAIR.search(value)
    return (value[: following.start()] if following else value).rstrip(_PUNCTUATION)


def _kinds(value: bytes) -> tuple[bool, bool, bool, bool]:
    """Whether a value has small letters, capitals, digits, and anything else."""
    text = value.decode("latin-1")
    return (
        any("a" <= each <= "z" for each in text),
        any("A" <= each <= "Z" for each in text),
        any("0" <= each <= "9" for each in text),
        not text.isalnum(),
    )


def _judge_password(given: NamedValue) -> Confidence | None:
    value = given.value
    if len(value) < 4 or _is_no_secret(given) or b"://" in value or value.endswith(b"()"):
        return None
    if not given.assigned and _is_path(value):
        return None
    if re.search(rb"\s", value):
        return "low" if given.assigned and given.quoted and value.count(b" ") < 5 else None
    small, capital, digit, other = _kinds(value)
    if digit and (small or capital):
        strong = len(value) >= 6 and (other or (small and capital) or len(value) >= 10)
        return "medium" if given.assigned or strong else None
    named = given.assigned and len(value) >= 6
    if given.quoted:
        return "low" if named and (small or capital) else None
    return "low" if named and other and (small or capital) and not _is_code(value) else None


def _is_no_secret(given: NamedValue) -> bool:
    suffix = re.sub(rb"(?i)^[a-z]+", b"", given.name, count=1)
    return (
        given.value.lower() in COMMON_WORDS
        or is_placeholder(given.value)
        or given.value.lstrip()[:1] in _AFTER_A_CLOSING_QUOTE
        or (not given.quoted and given.name.rstrip(b"( \t\n").endswith(b","))
        or _OTHER_THING.search(suffix) is not None
        or _NOT_A_NAME.search(given.before) is not None
    )


def _is_code(value: bytes) -> bool:
    """Names, calls and paths: `settings.password`, `get_password(x)`, `/run/secrets/db`."""
    return re.fullmatch(rb"[\w./:()\[\]-]*", value) is not None


def _is_path(value: bytes) -> bool:
    """A file, with or without its folders and a line number."""
    return b"/" in value or re.fullmatch(rb"\w+\.[A-Za-z]{1,8}(?::\d+)?", value) is not None


def _judge_secret(given: NamedValue) -> Confidence | None:
    value = given.value
    if len(value) < 16 or _is_no_secret(given) or _UUID.match(value) or re.search(rb"\s", value):
        return None
    if b"://" in value or value.startswith((b"/", b"./")) or value.count(b".") > 3:
        return None
    if not given.assigned and _is_path(value):
        return None
    small, capital, digit, _ = _kinds(value)
    digits = sum(byte in b"0123456789" for byte in value)
    mixed = small and capital
    if not digit or not (small or capital) or (digits < 2 and not mixed) or entropy(value) < 3:
        return None
    return "medium" if given.assigned or mixed else "low"


def _judge_code(given: NamedValue) -> Confidence | None:
    return "medium" if len(set(given.value)) > 1 else "low"


def _judge_cookie(given: NamedValue) -> Confidence | None:
    looks_random = entropy(given.value) >= 3 and not is_placeholder(given.value)
    return "medium" if looks_random and _kinds(given.value)[2] else None


def _judge_url_password(given: NamedValue) -> Confidence | None:
    word = given.value.lower() in COMMON_WORDS
    return (
        None if not given.before[-1:].isalnum() or word or is_placeholder(given.value) else "high"
    )


def _judge_command_line(given: NamedValue) -> Confidence | None:
    word = given.value.lower() in COMMON_WORDS
    return None if word or is_placeholder(given.value) else "medium"


CONTEXT_RULES = (
    ContextRule(
        "password",
        "password",
        (
            *(b"password", b"passwd", b"pwd", b"passphrase", b"passcode", b"passwort"),
            *(b"pass:", b"pass=", b"pw:", b"pw="),
        ),
        (
            r"(?i:(?:passw(?:or)?[dt]|pwd|passphrase|passcode)|pass|pw)"
            rf"{_JOINT}(?:{_QUOTED}|([^\s\"'`\x01]{{4,128}}))"
        ).encode(),
        _judge_password,
    ),
    ContextRule(
        "assigned-secret",
        "secret by its name",
        (
            *(b"secret", b"token", b"api_key", b"apikey", b"api-key", b"api key", b"access_key"),
            *(b"access-key", b"accesskey", b"access key", b"private_key", b"privatekey"),
            *(b"auth_key", b"signing_key", b"encryption_key", b"master_key", b"credential"),
            *(b"app_key", b"client_key", b"service_key", b"account_key", b"authkey"),
            *(b"signing key", b"encryption key", b"license_key", b"webhook_key"),
        ),
        (
            r"(?i:secret|token|(?:api|access|private|auth|signing|encryption|master|app|client|"
            rf"service|account|license|webhook)[_ -]?key|credential){_JOINT}"
            rf"(?:{_QUOTED}|([\w+/=.~$@!#%^*:-]{{16,512}}))"
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
            b"your code",
        ),
        (
            rb"(?i:(?:verification|security|authentication|authenticator|login|sign-in|access|auth|"
            rb"pin|two-factor|backup|recovery)[_ ]code|[2m]fa|otp|one[- ]time|passcode|your code)"
            rb"(?:(?:[ _][A-Za-z]{1,12}){0,4}[\"'`]?\s?(?:(?:is|was|=|:)\s?){1,2}[\"'`]?|\s)"
            rb"((?:G-)?\d{4,8}|\d{3}[- ]\d{3})\b"
        ),
        _judge_code,
    ),
    ContextRule(
        "session-cookie",
        "session cookie",
        (b"cookie",),
        rb"(?i:cookie)[\"'`]{0,2}\s?[:=]\s?[\"'`]{0,2}[\w.-]{1,40}=([\w%.+/=-]{16,512})",
        _judge_cookie,
    ),
    ContextRule(
        "command-line-password",
        "password on a command line",
        (b"curl ",),
        rb"(?i:curl)\s[^\n\x01]{0,200}?(?:-u|--user)[ =]?[\"']?[\w.@+-]{1,64}:"
        rb"([^\s\x01\"']{3,128})",
        _judge_command_line,
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
    for stop in (b'"', b"-----BEGIN"):
        found = data.find(stop, header.end(), limit)
        limit = found if found >= 0 else limit
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
