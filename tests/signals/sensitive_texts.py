"""Invented sensitive texts, made at run time: an example for each rule, and what comes close."""

# ruff: noqa: E501 (a table is read by its lines)

import base64
import json
import random
from re import _constants as sre
from re import _parser
from zlib import crc32

from invented_secrets import BASE62, HEX, PERSONAL, TOLD

from evalwright.signals.secrets.rules import RULES

BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def example(pattern: str, seed: str) -> str:
    """A text that a pattern matches, the same for the same seed."""
    chance = random.Random(seed)
    return "".join(_made(_parser.parse(pattern), chance))


def _made(parsed, chance):
    for kind, given in parsed:
        if kind is sre.LITERAL:
            yield chr(given)
        elif kind is sre.IN:
            yield chance.choice(_members(given))
        elif kind is sre.BRANCH:
            yield from _made(chance.choice(given[1]), chance)
        elif kind is sre.SUBPATTERN:
            yield from _made(given[3], chance)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = given
            # a name and its value stand apart, all else is as short as it may be
            count = 1 if least == 0 and most == 3 else least
            for _ in range(count):
                yield from _made(inner, chance)


def _members(given) -> str:
    found = ""
    for kind, value in given:
        if kind is sre.LITERAL:
            found += chr(value)
        elif kind is sre.RANGE:
            found += "".join(map(chr, range(value[0], value[1] + 1)))
        elif value is sre.CATEGORY_DIGIT:
            found += "0123456789"
        elif value is sre.CATEGORY_SPACE:
            found += " "
        elif value is sre.CATEGORY_WORD:
            found += BASE62
    return "".join(each for each in found if each.isalnum()) or found[0]


def a_character_off(text: str) -> str:
    """The text with another letter or digit in place of the last one."""
    last = max(place for place, each in enumerate(text) if each.isalnum())
    return text[:last] + ("7" if text[last] != "7" else "4") + text[last + 1 :]


def by_rule() -> dict[str, str]:
    """For each rule of the table a text that it finds."""
    return {
        f"{place:03} {rule.id}": "is " + example(rule.pattern, f"{place} {rule.id}") + " now"
        for place, rule in enumerate(RULES)
    }


def an_age_key() -> str:
    """Bech32: the data, then the six characters that make the checksum come out right."""
    prefix = "age-secret-key-"
    chance = random.Random(7)
    data = [chance.randrange(32) for _ in range(52)]
    spread = [ord(each) >> 5 for each in prefix] + [0] + [ord(each) & 31 for each in prefix]
    total = 1
    for value in [*spread, *data, 0, 0, 0, 0, 0, 0]:
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for place, each in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            total ^= each if (top >> place) & 1 else 0
    total ^= 1
    data += [(total >> 5 * (5 - place)) & 31 for place in range(6)]
    return (prefix + "1" + "".join(BECH32[each] for each in data)).upper()


def a_pypi_token(location: bytes = b"\x02\x01\x08pypi.org") -> str:
    made = location + random.Random(3).randbytes(60)
    return "py" + "pi-" + base64.urlsafe_b64encode(made).decode().rstrip("=")


def a_checked_token(prefix: str, payload: str) -> str:
    number, digits = crc32(payload.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        digits = BASE62[rest] + digits
    return prefix + payload + digits.rjust(6, "0")


def _chars(seed: str, count: int, alphabet: str = BASE62) -> str:
    chance = random.Random(seed)
    return "".join(chance.choice(alphabet) for _ in range(count))


def _payload_with_a_small_sum() -> str:
    """A payload whose checksum needs to be filled up with a zero."""
    return next(
        each
        for each in (_chars(f"p{number}", 30) for number in range(500))
        if crc32(each.encode()) < 62**5
    )


def checked() -> dict[str, list[str]]:
    """For each check values that pass, and values that fail by one character or one property."""
    body = "gl" + "sa_" + _chars("grafana", 32)
    grafana = f"{body}_{crc32(body.encode()).to_bytes(4, 'little').hex()}"
    token = a_checked_token("gh" + "p_", _chars("gh", 30))
    small = a_checked_token("gh" + "p_", _payload_with_a_small_sum())
    header = {"alg": "HS256"}
    tail = "." + _chars("a", 12) + "." + _chars("b", 12)
    jwt = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") + tail
           for each in (header, {"typ": "JWT"}, ["alg"], "alg", {**header, "typ": "JWT"})]  # fmt: skip
    basic = [base64.b64encode(each).decode() for each in (
        b"ann:pa55-Word", b"ann:", b":pa55", b"ann", b"ann:password", b"ann:Secret", b"user:xxxx1",
        b"j\xf6rg:pa55-Word", b"ann:pa55:Word1")]  # fmt: skip
    aws = "AK" + "IA" + _chars("aws", 16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
    return {
        "random_looking": ["aaaabbbb", "abcdefgh", "abcdefg", "aabbccdd", "abababab", "abcabcab",
                           "q8Zr-your-W1x", "change_me9Zk2", "q8Zr${HOME}1", "a1", "a", "abc",
                           "q8ZrW1xv$Ab", "q8ZrW1xv%(b", "q8ZrW1xv$ab", "x*** y123", "here q8ZrW1",
                           "q8 W1xhere", "hereq8ZrW1"],
        "mixed_case": ["abcdefgh1", "ABCDEFGH1", "abcdEFGH1", "aBcdefgh1", "abcdefghA1", "AbBcdefgh1",
                       "ABCDEFGHa1", "ABCDEFGa1", "aBcdE", "abcdA12345", "ABCDa12345", "abcdeA1234",
                       "ABCDEa1234", "aAaAaAaA"],
        "with_digit": ["ABC-12QWERTY", "ABC-QWERTY12", "ABCDE1QWERTY", "ABCDEF1QWERTY", "ABCDEFQWERT0",
                       "ABCDEFQWERT9", "111111QWERTY", "ABCDEF11111"],
        "aws_key_id": [aws, aws[:-1] + "1", aws[:-1] + "8", "AK" + "IAQWERTYUIOPASDFGH",
                       "AK" + "IAQWERTYUIOPASDFG2", "AKIA1" + aws[5:], "AK" + "IAEXAMPLE2345672A"],
        "crc32_base62": [token, a_character_off(token), small, a_character_off(small),
                         "a_b_" + _chars("c", 30), a_checked_token("x_", _chars("d_", 30))],
        "grafana": [grafana, grafana.upper(), a_character_off(grafana), body + "_" + grafana[-8:].upper()],
        "age_key": [an_age_key(), an_age_key().lower(), a_character_off(an_age_key()),
                    an_age_key()[:-1], an_age_key()[:-1] + "Q"],
        "anthropic": ["sk-" + "ant-q8ZrW1xAA", "sk-" + "ant-q8ZrW1xAB", "sk-" + "ant-q8ZrW1xaa"],
        "jwt": [*jwt, "eyJ!!" + tail, "eyJhbGc" + tail, "A" + tail, "AB" + tail],
        "basic_credentials": [*basic, *(each.rstrip("=") for each in basic), "ab!c", "a", "abcde"],
        "pypi": [a_pypi_token(), a_pypi_token(b"\x02\x01\x0dtest.pypi.org"), a_pypi_token(b"\x02\x01\x08other.org"),
                 a_pypi_token() + "A", a_pypi_token() + "AB", a_pypi_token() + "ABC", "py" + "pi-AgEIabcde"],
    }  # fmt: skip


_K = _chars("key", 32)
_H = _chars("hex", 32, HEX)
_UUID = "1b2a3c4d-5e6f-4a1b-8c2d-3e4f5a6b7c8d"
# Texts around passwords, secrets, codes, cookies and addresses.
NAMED = [
    f"{name}{joint}{value}"
    for name in ("password", "DB_PASSWORD", "passwd", "pw", "pass", "passphrase", "password_hint")
    for joint in ("=", ": ", ' = "', " is ", " => '", "\n", ", ", "(")
    for value in ("Tr0ub4dor&3", "qzk1", "qz1", "qzkvwm1", "hunter", "open-sesame", "Qzkvw1", "q1z7k3v9w5")
] + [
    f"{name}{joint}{value}"
    for name in ("api_key", "access token", "client_secret", "next_page_token", "token_type", "tokens")
    for joint in ("=", ": ", ' = "', " is ", "|", ">")
    for value in (_K, _H, _K[:16], _K[:15], _UUID, "q8zr-w1xv-k2mn-p3", "qzrwxvkmnpstuvbd1", "/run/secrets/q8Zr12")
] + [
    'password = "one two three four5"', 'password = "one two three four five six"', "password one two",
    'password: "correct horse 1"', "password = get_password()", "password=settings.password",
    "password https://a.example/x1y2z3", "password in src/app/x1y2z3.py:12", "password see config1.yaml:12",
    "password: hunter2;user=ann", "password=hunter2&user=ann", "<password>hunter2</password>", "--password hunter2",
    'password": "", "x": "q8Zr12"', "password('hunter2', 1)", "password `hunter2!` now", "password 'hunter2!x' now",
    "the password was Qzkvw1 then", "the password was qzkvwm71384 then", "password = ****", "password=$PASSWORD1",
    "password: hunter", 'password: "hunter"', "password: hunter-two", "password: HUNTER-two!", "password = secret",
    "the secret q8ZrW1xvK2mnP3tU is here", "token q8zrw1xvk2mnp3tu", "token: a.b.c.d.q8ZrW1xvK2mn", "secret: ./q8ZrW1xvK2mnP3tU",
    "secret = q8 ZrW1xvK2mnP3tUv5", 'secret = "q8 ZrW1xvK2mnP3tUv5"', "token: aaaaaaaaaaaaaaa1", "api key: a://q8ZrW1xvK2mnP3",
    "secret kept in q8ZrW1/xvK2mnP3tU5", "token: 1234567890123456", "token: abcdefghijklmnop", "token: abcdefghijklmno1",
    "Your verification code is 482913.", "otp 1111", "2fa code: 123 456", "one-time code is G-482913", "passcode 4829",
    "MFA token is: 12345678", "verification code is 123", "your code 482-913", "backup_code = '48291355'",
    f"Set-Cookie: sid={_K}; Path=/", "Cookie: theme=lightlightlightlight", f"cookie={_K}", "cookie: a=aaaaaaaaaaaaaaaa1",
    "cookie: a=abcdefghijklmnopqr", "curl -u ann:hunter2 https://a.example", "curl --user=ann:password x", "curl -u ann:xxxx y",
    "postgres://app:q8Zr-W1x@db.internal/x", "://app:q8Zr@db", "x://app:password@db", "x://app:your-pw@db", "x://:q8Zr1@db",
    "Authorization: Bearer " + _K, "Authorization: Basic " + base64.b64encode(b"ann:pa55-Word").decode(),
]  # fmt: skip

PII = [
    "4539 5787 6362 1486", "4539 5787 6362 1487", "4539578763621486", "1-4539578763621486", "4539578763621486-1",
    "4539578763621486.5", "4539578763621486-x", "-4539578763621486", "a-4539578763621486", "4539578763621486.",
    "378282246310005", "3782 822463 10005", "30569309025904", "6011 0009 9013 9424", "5555-5555-5555-4444",
    "536-22-8145", "000-22-8145", "666-22-8145", "900-22-8145", "899-22-8145", "536-00-8145", "536-22-0000", "1-536-22-8145",
    "DE89 3704 0044 0532 0130 00", "DE89370400440532013000", "DE88370400440532013000", "DE8937040044053201300", "XX89370400440532013000",
    "GB82 WEST 1234 5698 7654 32 and", "NO93 8601 1117 947", "NO9386011117947X", "DE89 3704 0044 0532 0130 00 1234",
    "+44 20 7946 0958", "+1234567", "+12345678", "+123456789012345", "+1234567890123456", "(415) 555-0199", "x415-555-0199",
    "415-555-0199", "=415-555-0199", "_415-555-0199", "/415-555-0199", "=+44 20 7946 0958", "x+44 20 7946 0958", "1-415-555-0199-2",
    "phone: 555 01 99", "tel 5550199", "mobile number is 020 7946 0958", "phone 555019", "call 415.555.0199 now",
    "81.2.69.142", "v81.2.69.142", "version 81.2.69.142", "version: 81.2.69.142", "81.2.69.142-1", "81.2.69.142_x", "/81.2.69.142", "http://81.2.69.142/x",
    "7 81.2.69.142", "x 81.2.69.142", "1.2.3.29", "1.2.3.30", "29.2.3.4", "30.2.3.4", "10.0.0.77", "192.168.1.50", "224.0.0.99",
    "300.1.1.1", "8.8.8.8", "081.2.69.142", "-81.2.69.142", ".81.2.69.142", "127.0.0.1", "255.255.255.255", "81.2.69.142.",
    "12 Old Mill Road, Springfield, IL 62704", "12 Old Mill Road", "12 N. High St Apt 4", "12 old mill road",
    "Date of birth: 1984-02-29", "born on 3 May 1984", "DOB 03/05/84", "birthday: May 3rd, 1984", "made 1984-02-29",
    "Passport number: X12345678", "passport X1234", "passport: 123456A", "driver's license: D123-4567-8901",
    "SSN 12 34 56", "tax id AB 12 C", "national insurance number QQ 12 34 56 C", "nhs number: 943 476 5919",
    "ann.lee@acme.test", "noreply@acme.test", "Support@acme.test", ".ann@acme.test", "%ann@acme.test", "ann@acme", "@acme.test",
    "https://ann@acme.test/x", "https://x/ann@acme.test", "a" * 70 + "@acme.test", "a@b.co@c.de", "ann@a.b.c.d.e.f.g.h.i.example",
    "ann.@acme.test and bob+x@acme.test", "ann@acme.test.",
]  # fmt: skip


def mixed() -> list[str]:
    """Escapes, masks, overlaps and letters of several bytes around what is sensitive."""
    key = a_checked_token("gh" + "p_", _chars("gh", 30))
    pem = "-----BEGIN RSA PRIVATE KEY-----"
    lines = "\n".join(_chars(f"l{each}", 64) for each in range(3))
    end = "-----END RSA PRIVATE KEY-----"
    return [
        f"{key}", f"é {key} ü", f"\U0001f511{key}\U0001f511 {key}", f"x{key}", f"{key}x", f"{key}_", f"{key}.", f"-{key}",
        f"a\\n{key}\\tb", f'{{\\"k\\": \\"{key}\\"}}', f"\\u0067{key[1:]}", f"\\\\u0067{key[1:]}\\u0020x",
        f"\\u00e9{key}\\u0001", f"https:\\/\\/app:{_K[:12]}@db.example\\/x", f"\\r{key}\\f\\b", f"a\\{key}",
        "[masked:github-token#0a1b2c]", "password: [masked:password]", "password: [masked:nothing]", f"[masked:email]{key}",
        f"api_key={key} token: {key}", f"mail to ann@acme.test?api_key={key}", f"Bearer {key}", "password=ann1@acme.test",
        f"{pem}\n{lines}\n{end} tail", f"{pem}\n{lines}", f"{pem}\n{lines}\n-----END RSA", f"{pem}\nshort\n{end}", f'"{pem}\\n{lines}" next',
        f"{pem}\n{lines}\n{pem}\n{lines}\n{end}", f"{pem}\nyour key here {lines}\n{end}", "-----BEGIN CERTIFICATE-----\n" + lines,
        f"{pem}{'a' * 30}{end}", f"{pem}{_chars('m', 23)}{end}", f"{pem}{_chars('m', 24)}{end}", f"{pem}\n{lines}\n{end[:20]}{' ' * 60}-----",
        "hv" + "s." + _chars("long", 3000) + " end", "eyJ" + _chars("j", 2100) + "." + _chars("k", 20) + "." + _chars("n", 20),
        "ü" + json.dumps({"password": "Tr0ub4dor&3", "n": 4539578763621486}), "",
    ]  # fmt: skip


def told() -> list[str]:
    """The examples with the words that tell them."""
    return [text.format(value) for text, value in (*TOLD.values(), *PERSONAL.values())]
