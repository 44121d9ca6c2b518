"""What stands where a secret would, and is none: placeholders, samples, names, sequences."""

import re
from hashlib import sha256

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
