"""Secrets without a token format, recognised by the text before or around them."""

import re
from collections.abc import Callable
from itertools import pairwise

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.secrets.checks import (
    COMMON_WORDS,
    entropy,
    is_name,
    is_placeholder,
    is_sample,
)

_NEXT_PAIR = re.compile(rb"</|[;&,](?=[\w.-]{1,40}\s?[=:])")
_NAME = re.compile(
    rb"(?i)(?:passw(?:or)?[dt]|pwd|passphrase|passcode|pass|pw|secret|token|credential|"
    rb"[a-z]{3,10}[_ -]?key)"
)
_OTHER_KEYS = (
    "page|next|previous|prev|continuation|continue|cursor|sync|max|min|num|count|public|csrf|"
    "xsrf|cancel|idempotency|dedupe|primary|foreign|sort|partition|cache|row|lookup|"
    "public[ _.-]?key|pad|eos|bos|sep|unk|cls|special|hash(?:ed)?|encrypted|pagination|resume|"
    "authenticity|paging|delta|watermark|design|color|colour|fcm|boarding|ski|bus|day|season|test|"
    "salted|md5sum of|sha\\d+sum of"
)
_CAPITAL_KEYS = "|".join(each.title() for each in re.findall(r"[a-z]{3,}", _OTHER_KEYS))
_NOT_A_NAME = re.compile(
    rf"(?:(?<![A-Za-z])(?i:{_OTHER_KEYS})|(?:{_CAPITAL_KEYS}|PublicKey))[ _.-]?$".encode()
)
_WITHIN_A_WORD = re.compile(
    rb"(?<![A-Za-z])(?!(?i:db|user|usr|smtp|ftp|mail|email|admin|root|login|my|sql|redis|ssh|wifi|"
    rb"pg|app|new|old|the|proxy|api|your)$)[A-Za-z]{1,16}$"
)
_OTHER_THING = re.compile(
    rb"(?i)^(?:[_.-]|\s(?=hash|digest|manager|polic|address|checksum|fingerprint))?(?:s\s+[a-z]|address|"
    rb"digest|checksum|fingerprint|manager|sha\d|md5|arn\b|json\b|txt\b|ya?ml\b|pem\b|ids?\b|id_|name|type|ur[il]|path|file|count|limit|length|size|usage|"
    rb"budget|expir|ttl|hash|endpoint|version|format|polic|field|label|hint|used|per\b|rotation|"
    rb"s?manager|(?:key)?_?refs?\b|i[sz](?:e|ing|ation)|less|store|provider|header|param|source|scope|status|"
    rb"error|class|service|strength|generat|encod|require|valid)"
)
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
# What guards a secret without telling it, or names a place: crypt hashes, addresses of a ledger.
_DERIVED = re.compile(
    rb"\$(?:2[abxy]?|5|6|1|y|argon2\w*|scrypt|pbkdf2\S*)\$|pbkdf2_|\{(?:SSHA|SHA|CRYPT|bcrypt)\}|"
    rb"arn:|0x[0-9a-fA-F]{40}$|sha(?:1|256|384|512)[-:]|!vault\b|!secret\b"
)
_LINKED = re.compile(
    rb"(?i)(?:\s(?:is|was|are|to|as|be|reads|ist|lautet|es|est|\xc3\xa8|\xc3\xa9)|(?:'|\xe2\x80\x99)s)$"
)
_OF_THE_KIND = re.compile(
    rb"(?i)secret|token|passw|credential|(?:api|private|public|access|shared)[_-]?key|-----BEGIN"
)
_ALGORITHM = re.compile(
    rb"(?i)(?:sha|md|aes|des|base|argon|bcrypt|scrypt|pbkdf|utf|latin|iso|rsa|ed|hmac|pkcs|oauth|"
    rb"http|tls|ssl|v|version)[-_#]?\d"
)
_CALL_OR_MEMBER = re.compile(
    rb"[A-Za-z_]\w*(?:\(\)|\[\d*\])?(?:\.(?:[a-z_][A-Za-z_]{2,}\d?|[a-z_][a-z0-9_]{2,})(?:\(.*)?)+"
)
_AFTER_A_CLOSING_QUOTE = (b"", b",", b":", b"]", b"}", b"+")
_PUNCTUATION = b".,;:)]}|'\"` \t"
_PRIVATE_KEY_REACH = 16_384
_LONG = 16
_FEWEST_CHANGES = 4


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
    def said(self) -> bool:
        """Whether a sentence says that the name is, was or is set to the value."""
        return _LINKED.search(self._joint) is not None

    @property
    def told(self) -> bool:
        """Whether it is said, given to a call, or shown just after the name.

        Anything else between them is about the name: "password hashing (Argon2)".
        """
        given = self.name.rstrip(b"\"'` \t\n").endswith((b",", b"("))
        return given or self.said or _NAME.fullmatch(self._joint) is not None

    @property
    def _joint(self) -> bytes:
        return self.name.rstrip(b"\"'` \t\n").removesuffix(b"(").rstrip(b"\"'` \t\n")

    @property
    def short_name(self) -> bool:
        """Whether the name is one that other words end in, such as `bypass`."""
        return self.name[:4].lower().rstrip(b":= \"'") in (b"pass", b"pw", b"pwd")

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
    text = value.decode("latin-1")
    return (
        any("a" <= each <= "z" for each in text),
        any("A" <= each <= "Z" for each in text),
        any("0" <= each <= "9" for each in text),
        not text.isalnum(),
    )


def judge_password(given: NamedValue) -> Confidence | None:
    """A password by its name."""
    value = given.value
    if len(value) < 4 or _is_no_password(given):
        return None
    if re.search(rb"\s", value):
        told = given.quoted and (given.assigned or given.said)
        return "low" if told and value.count(b" ") < 5 else None
    small, capital, digit, other = _kinds(value)
    if digit and (small or capital):
        strong = len(value) >= 6 and (other or (small and capital) or len(value) >= 8)
        return "medium" if given.assigned or (strong and given.told) else None
    named = given.assigned and len(value) >= 6
    if given.quoted:
        return "low" if (named or given.said) and (small or capital) else None
    # Names, calls and paths: `settings.password`, `get_password(x)`, `/run/secrets/db`.
    is_code = re.fullmatch(rb"[\w./:()\[\]-]*", value) is not None
    return "low" if named and other and (small or capital) and not is_code else None


def _is_no_password(given: NamedValue) -> bool:
    value = given.value
    if _is_no_secret(given) or is_sample(value) or b"://" in value or value.endswith(b"()"):
        return True
    if given.short_name and _WITHIN_A_WORD.search(given.before):
        return True
    if _CALL_OR_MEMBER.fullmatch(value) or (b"|" in value and not given.quoted) or b"(?" in value:
        return True
    if re.search(rb"(?i)passw|secret", value) and value.isalpha():
        return True
    if given.name[:3].lower() == b"pwd" and value[:1] in b"/~":
        return True
    return not given.assigned and (_is_path(value) or _ALGORITHM.match(value) is not None)


def _is_no_secret(given: NamedValue) -> bool:
    suffix = _NAME.sub(b"", given.name, count=1)
    return (
        given.value.lower() in COMMON_WORDS
        or is_placeholder(given.value)
        or _DERIVED.match(given.value) is not None
        or given.before.endswith((b"secretsmanager:", b":secret:", b"arn:"))
        or given.value.lstrip()[:1] in _AFTER_A_CLOSING_QUOTE
        or (not given.quoted and given.name.rstrip(b"( \t\n").endswith(b","))
        or _OTHER_THING.search(suffix) is not None
        or _NOT_A_NAME.search(given.before) is not None
    )


def _is_path(value: bytes) -> bool:
    return b"/" in value or re.fullmatch(rb"\w+\.[A-Za-z]{1,8}(?::\d+)?", value) is not None


def judge_secret(given: NamedValue) -> Confidence | None:
    """A key, token or secret by its name."""
    value = given.value
    if len(value) < 10 or _is_no_secret(given) or _UUID.match(value) or re.search(rb"\s", value):
        return None
    if b"://" in value or value.startswith((b"/", b"./")) or value.count(b".") > 3:
        return None
    if is_name(value) or _OF_THE_KIND.search(value) or _CALL_OR_MEMBER.fullmatch(value):
        return None
    if not given.assigned and (_is_path(value) or not given.told):
        return None
    small, capital, digit, _ = _kinds(value)
    digits = sum(byte in b"0123456789" for byte in value)
    mixed = small and capital
    if not digit or not (small or capital) or (digits < 2 and not mixed):
        return None
    if len(value) < _LONG:
        dull = digits < 2 or _changes(value) < _FEWEST_CHANGES or entropy(value) < 2.7
    else:
        dull = entropy(value) < 3
    if dull:
        return None
    return "medium" if given.assigned or mixed else "low"


def _changes(value: bytes) -> int:
    """How often small letters, capitals, digits and signs take turns."""
    kinds = [_kinds(bytes([byte])) for byte in value]
    return sum(one != other for one, other in pairwise(kinds))


def judge_code(given: NamedValue) -> Confidence | None:
    """A code to log in with, once."""
    name = given.name
    told = re.search(rb"(?i)(?:code|otp|pin|passcode)\b.*(?:is|was|[=:])[\"'`\s]*$", name)
    if not told and not re.match(rb"(?i)otp|passcode", name) and len(given.value) < 6:
        return None  # a year, an amount
    return "medium" if len(set(given.value)) > 1 else "low"


def judge_cookie(given: NamedValue) -> Confidence | None:
    """The cookie of a session."""
    value = given.value
    looks_random = entropy(value) >= 3 and not is_placeholder(value) and not is_name(value)
    return "medium" if looks_random and _kinds(given.value)[2] else None


def judge_url_password(given: NamedValue) -> Confidence | None:
    """A password in an address."""
    value, user = given.value, given.name.removeprefix(b"://").removesuffix(b":")
    if (
        value == user
        or is_sample(value.replace(b"%20", b" "))
        or is_placeholder(value)
        or value.isdigit()
    ):
        return None
    return "high" if given.before[-1:].isalnum() and len(value) > 3 else None


def judge_command_line(given: NamedValue) -> Confidence | None:
    """A password given to a command."""
    return None if is_sample(given.value) or is_placeholder(given.value) else "medium"


def judge_told_password(given: NamedValue) -> Confidence | None:
    """A password that a sentence or a command tells."""
    value = given.value
    small, capital, digit, other = _kinds(value)
    if not digit or not (small or capital) or is_sample(value) or is_placeholder(value):
        return None
    if b"/" in value or b"://" in value or _ALGORITHM.match(value) or _UUID.match(value):
        return None
    return "medium" if other or (small and capital) or len(value) >= 8 else None


def judge_pair(given: NamedValue) -> Confidence | None:
    """The password of a user and a password in one breath: both kinds of letters, or a sign."""
    _, _, _, other = _kinds(given.value)
    if is_name(given.value) or not (other or _changes(given.value) >= _FEWEST_CHANGES):
        return None
    return judge_told_password(given)


def judge_recovery(given: NamedValue) -> Confidence | None:
    """A code that lets its holder in when the rest is lost."""
    return "medium" if any(byte in b"0123456789" for byte in given.value) else None


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
