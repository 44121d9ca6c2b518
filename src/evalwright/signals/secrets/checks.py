"""What is known of a token beyond its shape: checksums, structure, entropy, placeholders."""

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias
from zlib import crc32

import msgspec

from evalwright.contracts.report import CONFIDENCES, Confidence

_PLACEHOLDER = re.compile(
    rb"example|placeholder|redacted|masked|change_?me|change_?it|your|my[_-]|dummy|insert|sample|"
    rb"todo|fixme|a1b2c3|1a2b3c|\bfake|mock[_-]|not[_-]?a?[_-]?(?:real|valid)|replace[_-]?(?:me|with|this)|"
    rb"xxxx|\*\*\*|\.\.\.|\xe2\x80[\xa2\xa6]|here\b|[<>{}\[\]]|"
    rb"^\$\w+$|\$\(|\$(?-i:[A-Z][A-Z_]{2,})|%\(|%(?-i:[A-Z][A-Z_]+)%|"
    rb"\b(?:dein|deine|ihr|ihre|tu|su|votre|vos|seu|sua)[_-]|"
    rb"\xd0\xb2\xd0\xb0\xd1\x88|\xe6\x82\xa8\xe7\x9a\x84|\xe4\xbd\xa0\xe7\x9a\x84|"
    rb"\xe3\x81\x82\xe3\x81\xaa\xe3\x81\x9f\xe3\x81\xae",  # Russian, Chinese, Japanese: your
    re.IGNORECASE,
)
_WORD = re.compile(rb"[a-z]+")
_SEPARATED = re.compile(rb"[-_./:@ ]+")
_NAMED_PIECE = re.compile(rb"[A-Za-z]+\d{0,6}|\d{1,10}[A-Za-z]{0,2}")
_AT_ITS_ENDS = re.compile(rb"^[\d\W_]+|[\d\W_]+$")
_LEET = bytes.maketrans(b"@0134578$", b"aoleastbs")
_FEWEST_IN_ORDER = 3
_FEWEST_REPEATED = 8
# Keys that documentations show, by the start of their digest: whole, they would alarm scanners.
_PUBLISHED = frozenset(("2cafc097", "f2d6ca16", "051d093c"))

COMMON_WORDS = frozenset(
    b"password passwd pass pwd secret token key value string str text none null nil true false "
    b"required optional hidden user username admin root test testing guest default unknown "
    b"undefined empty invalid incorrect wrong expired missing reset field input type object "
    b"boolean integer number varchar bytes any your the and for self this prompt login email "
    b"foobar foo bar baz enter forgot new old current confirm".split()
)
# Only of such words is a password made that shows what a password looks like.
_SAMPLE_WORDS = COMMON_WORDS | frozenset(
    b"a my our some top super very so strong secure sensitive private real actual temp temporary "
    b"demo initial passwort kennwort geheim geheimnis contrasena clave motdepasse senha parola "
    b"mypassword mypass mysecret testpassword testpass adminpassword userpassword apikey api "
    b"phrase passphrase changeme is not that it used to generate challenge postgres mysql docker "
    b"rabbitmq minio abc xyz opensesame".split()
)


def is_placeholder(value: bytes) -> bool:
    """Whether a value is a placeholder for a secret."""
    if _PLACEHOLDER.search(value) is not None or len(set(value)) <= 2:
        return True
    return is_in_order(value) or _is_published(value)


def is_in_order(value: bytes) -> bool:
    """Whether half of a value is in the order of the alphabet, or all of it the same again."""
    return _in_order(value) or _is_repeated(value)


def _in_order(value: bytes) -> bool:
    run, covered, written = 1, 0, 0
    for place, byte in enumerate(value):
        written += chr(byte).isalnum()
        if place and byte - value[place - 1] == 1:
            run += 1
            covered += _FEWEST_IN_ORDER if run == _FEWEST_IN_ORDER else run > _FEWEST_IN_ORDER
        else:
            run = 1
    return covered >= _FEWEST_IN_ORDER and 2 * covered >= written


def _is_repeated(value: bytes) -> bool:
    size = len(value)
    return size >= _FEWEST_REPEATED and value in (value + value)[1:-1]


def _is_published(value: bytes) -> bool:
    return sha256(value.rpartition(b".")[2]).hexdigest()[:8] in _PUBLISHED


def is_sample(value: bytes) -> bool:
    """Whether a value is `password1`, `P@ssw0rd!`, `a secret` or another show-piece."""
    core = _AT_ITS_ENDS.sub(b"", value.lower())
    words = _WORD.findall(core.translate(_LEET) if b" " not in core else core)
    return bool(words) and all(word in _SAMPLE_WORDS for word in words)


def is_name(value: bytes) -> bool:
    """Whether a value is a name: words and numbers with something between, `prod-tls-2024`."""
    pieces = _SEPARATED.split(value.strip(b"-_./:@ "))
    return len(pieces) > 1 and all(map(_NAMED_PIECE.fullmatch, pieces))


# The confidence that a value deserves, given the one its rule has; None if it is not a secret.
Check: TypeAlias = Callable[[bytes, Confidence], Confidence | None]

_BASE62 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LETTER_AND_DIGIT = re.compile(rb"[A-Za-z]\d|\d[A-Za-z]")
_FEWEST_MIXED = 4
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def entropy(value: bytes) -> float:
    """Shannon entropy in bits per byte."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())


def lower(confidence: Confidence) -> Confidence:
    """One step less confident."""
    return CONFIDENCES[max(CONFIDENCES.index(confidence) - 1, 0)]


def random_looking(value: bytes, confidence: Confidence) -> Confidence | None:
    """Neither a placeholder nor a word: what most formats can say."""
    return None if is_placeholder(value) or entropy(value) < 3 else confidence


def mixed_case(value: bytes, confidence: Confidence) -> Confidence | None:
    """Random letters have both cases; an identifier that fits the shape is made of words."""
    capitals = sum(byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ" for byte in value)
    small = sum(byte in b"abcdefghijklmnopqrstuvwxyz" for byte in value)
    if 4 * capitals < small or 4 * small < capitals:
        return None
    return random_looking(value, confidence)


def with_digit(value: bytes, confidence: Confidence) -> Confidence | None:
    """A token without any digit in its payload is more likely a name."""
    if not any(byte in b"0123456789" for byte in value[6:]):
        return None
    return random_looking(value, confidence)


def unguessable(value: bytes, confidence: Confidence) -> Confidence | None:
    """Part of an address that is no title, no date and no number: letters and digits, mixed up."""
    if len(_LETTER_AND_DIGIT.findall(value)) < _FEWEST_MIXED:
        return None
    return random_looking(value, confidence)


def aws_key_id(value: bytes, confidence: Confidence) -> Confidence | None:
    """Key ids are base32 after the prefix; ones without a digit could be a word in capitals."""
    payload = value[4:]
    in_base32 = all(byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" for byte in payload)
    if not in_base32 or payload.isalpha():
        confidence = "low"
    return random_looking(value, confidence)


def crc32_base62(value: bytes, confidence: Confidence) -> Confidence | None:
    """The last six characters are the CRC-32 of those after the prefix, in base 62."""
    payload = value[value.index(b"_") + 1 :]
    checked = confidence if _base62(crc32(payload[:-6])) == payload[-6:] else lower(confidence)
    return random_looking(value, checked)


def _base62(number: int) -> bytes:
    digits = bytearray()
    while number:
        number, rest = divmod(number, 62)
        digits.append(_BASE62[rest])
    return bytes(digits[::-1]).rjust(6, b"0")


def grafana(value: bytes, confidence: Confidence) -> Confidence | None:
    """Ends in the little-endian CRC-32 of the rest."""
    body, _, checksum = value.rpartition(b"_")
    right = crc32(body).to_bytes(4, "little").hex().encode() == checksum.lower()
    return random_looking(value, confidence if right else lower(confidence))


def age_key(value: bytes, confidence: Confidence) -> Confidence | None:
    """Bech32 with its six-character checksum."""
    prefix, _, data = value.decode("latin-1").lower().rpartition("1")
    values = [ord(each) >> 5 for each in prefix] + [0] + [ord(each) & 31 for each in prefix]
    values += [_BECH32.index(each) for each in data]
    return random_looking(value, confidence if _bech32_sum(values) == 1 else lower(confidence))


def _bech32_sum(values: list[int]) -> int:
    generators = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
    total = 1
    for value in values:
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for place, generator in enumerate(generators):
            total ^= generator if top >> place & 1 else 0
    return total


def anthropic(value: bytes, confidence: Confidence) -> Confidence | None:
    """Keys end in the padding of their base 64."""
    return random_looking(value, confidence if value.endswith(b"AA") else lower(confidence))


def jwt(value: bytes, confidence: Confidence) -> Confidence | None:
    """The header is a JSON object that names its algorithm."""
    if is_placeholder(value):
        return None
    header = _base64_json(value.split(b".", 1)[0])
    return confidence if isinstance(header, dict) and "alg" in header else "low"


def _base64_json(text: bytes) -> object:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        return None


def basic_credentials(value: bytes, confidence: Confidence) -> Confidence | None:
    """HTTP basic authentication is `user:password` in base 64."""
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return None
    _, colon, password = decoded.partition(b":")
    if not colon or not password or not decoded.isascii():
        return None
    return None if is_placeholder(decoded) or is_sample(password) else confidence


def pypi(value: bytes, confidence: Confidence) -> Confidence | None:
    """A macaroon: base 64 of the version, then the location."""
    text = value[len(b"pypi-") :]
    try:
        macaroon = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        return random_looking(value, lower(confidence))
    right = macaroon.startswith((b"\x02\x01\x08pypi.org", b"\x02\x01\x0dtest.pypi.org"))
    return random_looking(value, confidence if right else lower(confidence))
