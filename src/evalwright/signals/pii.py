"""Finds personal data in bytes: validated shapes, and values that a word before them tells."""

import re
from collections.abc import Callable
from ipaddress import IPv4Address

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.patterns import pattern_at_place, quick_pattern, spans_in
from evalwright.signals.sensitive_part import SensitivePart

_IBAN_LENGTHS = (
    "NO15 BE16 BI16 DK18 FK18 FI18 FO18 GL18 NL18 SD18 MK19 SI19 AT20 BA20 EE20 KZ20 LT20 LU20 "
    "MN20 XK20 CH21 HR21 LI21 LV21 BG22 BH22 CR22 DE22 GB22 GE22 IE22 ME22 RS22 VA22 AE23 GI23 "
    "IL23 IQ23 OM23 SO23 TL23 AD24 CZ24 ES24 MD24 PK24 RO24 SA24 SE24 SK24 TN24 VG24 LY25 PT25 "
    "ST25 IS26 TR26 BF28 BJ28 CI28 DJ27 FR27 GR27 IT27 MC27 ML28 MR27 SM27 SN28 AL28 AZ28 BY28 "
    "CY28 DO28 GT28 HU28 LB28 NI28 PL28 SV28 BR29 EG29 PS29 QA29 UA29 JO30 KW30 MU30 YE30 MT31 "
    "SC31 LC32 RU33"
)
_STREETS = (
    "Street|St|Avenue|Ave|Road|Rd|Drive|Dr|Lane|Ln|Boulevard|Blvd|Court|Ct|Way|Place|Terrace|"
    "Parkway|Pkwy|Square|Circle|Highway|Hwy|Trail|Crescent|Close|Gardens|Row"
)
_GAP = (
    r"[\"'`)\]]{0,2}\s{0,2}(?:(?:number|no\.?|num|is|was|on|of|[:=#|])[\"'`]?\s{0,3}){0,4}[\"'`]?"
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|"
    rf"(?i:{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|"
    rf"\d{{1,2}}(?:st|nd|rd|th)? {_MONTH},? \d{{4}})"
)
_LOCAL = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-"
_DOMAIN = re.compile(rb"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,7}\.[A-Za-z]{2,24}")
_USER_OF_URL = re.compile(rb"://[^\s/@]{0,64}$")
_LARGE_OCTET = 30  # four numbers below it are almost always a version
_ROLES = frozenset(
    b"noreply no-reply donotreply do-not-reply support info contact help sales admin billing "
    b"hello office team security postmaster abuse webmaster notifications".split()
)


class PiiKind(msgspec.Struct, frozen=True):
    """One kind of personal data; `before` must precede it but is not part of it.

    `validate` is asked with the text and the place, and gives the length to take, 0 for none of it.
    """

    id: str
    label: str
    pattern: str
    validate: Callable[[bytes, int, int], int]
    severity: Severity
    confidence: Confidence = "high"
    before: str = ""


def _digits(text: bytes) -> bytes:
    return bytes(byte for byte in text if byte in b"0123456789")


def _all(data: bytes, start: int, end: int) -> int:
    del data
    return end - start


def _card(data: bytes, start: int, end: int) -> int:
    """Luhn: every second digit from the right counts double."""
    total = 0
    for place, byte in enumerate(reversed(_digits(data[start:end]))):
        doubled = (byte - 48) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled
    return 0 if total % 10 or _is_inside_number(data, start, end) else end - start


def _is_inside_number(data: bytes, start: int, end: int) -> bool:
    """Whether the number goes on at either side, with a sign that joins digits."""
    before, after = data[max(0, start - 2) : start], data[end : end + 2]
    joined_before = before[-1:] in b"-./_" and before[:1].isdigit() and len(before) == 2
    joined_after = len(after) == 2 and after[:1] in b"-./_" and after[1:].isdigit()
    return joined_before or joined_after


def _ssn(data: bytes, start: int, end: int) -> int:
    area, group, serial = data[start:end].split(b"-")
    unused = area in (b"000", b"666") or area >= b"900" or group == b"00" or serial == b"0000"
    return 0 if unused or _is_inside_number(data, start, end) else end - start


def _iban(data: bytes, start: int, end: int) -> int:
    """The length is the country's, and the rearranged digits leave 1 modulo 97."""
    place = _IBAN_LENGTHS.find(data[start : start + 2].decode("latin-1"))
    if place < 0:
        return 0
    wanted = int(_IBAN_LENGTHS[place + 2 : place + 4])
    compact = bytearray()
    for offset, byte in enumerate(data[start:end]):
        if byte != 32:
            compact.append(byte)
        if len(compact) == wanted:
            return offset + 1 if _mod97(compact) == 1 else 0
    return 0


def _mod97(iban: bytearray) -> int:
    moved = (iban[4:] + iban[:4]).decode("latin-1")
    return int("".join(str(int(each, 36)) for each in moved)) % 97


def _phone(data: bytes, start: int, end: int) -> int:
    count = len(_digits(data[start:end]))
    before = data[start - 1 : start]
    joined = before in (b"_", b"=", b"/") and data[start : start + 1] != b"+"
    in_word = before.isalnum() or joined
    if not 7 <= count <= 15 or (start and in_word) or _is_inside_number(data, start, end):
        return 0
    return end - start


def _ip(data: bytes, start: int, end: int) -> int:
    """Only addresses of the public net; a version, or a number in a path or a row, is none."""
    before = data[max(0, start - 9) : start].lower()
    after = data[end : end + 1]
    slashed = before.endswith(b"/") and not before.endswith(b"://")
    in_a_row = before[-1:] == b" " and before[-2:-1].isdigit()
    if before.endswith((b".", b"-", b"v", b"version ")) or after in (b"-", b"_"):
        return 0
    if slashed or in_a_row or max(map(int, data[start:end].split(b"."))) < _LARGE_OCTET:
        return 0
    try:
        address = IPv4Address(data[start:end].decode("latin-1"))
    except ValueError:
        return 0
    return end - start if address.is_global and not address.is_multicast else 0


def _identity(data: bytes, start: int, end: int) -> int:
    return end - start if len(_digits(data[start:end])) >= 5 else 0


PII_KINDS = (
    PiiKind(
        "credit-card",
        "payment card number",
        r"\b(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|4[4-9]\d|5\d\d)|35(?:2[89]|[3-8]\d))"
        r"(?:[ -]?\d{4}){3}\b|\b3[47]\d\d[ -]?\d{6}[ -]?\d{5}\b|\b3[068]\d\d[ -]?\d{6}[ -]?\d{4}\b",
        _card,
        "high",
    ),
    PiiKind("us-ssn", "US social security number", r"\b\d{3}-\d\d-\d{4}\b", _ssn, "high"),
    PiiKind(
        "iban",
        "bank account number",
        r"\b[A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b",
        _iban,
        "medium",
    ),
    PiiKind(
        "phone",
        "phone number",
        r"\+\d(?:[ .()/-]{0,2}\d){7,14}\b|\([2-9]\d\d\) ?\d{3}[-. ]\d{4}\b|"
        r"\b(?:1[-. ])?[2-9]\d\d[-.][2-9]\d\d[-.]\d{4}\b",
        _phone,
        "low",
    ),
    PiiKind("ip-address", "IP address", r"\b(?:\d{1,3}\.){3}\d{1,3}\b", _ip, "low", "medium"),
    PiiKind(
        "street-address",
        "street address",
        rf"\b\d{{1,6}} (?:[NSEW]\.? )?(?:[A-Z][a-z]{{1,20}} ){{1,3}}(?:{_STREETS})\b"
        r"(?:,? (?:Apt|Apartment|Suite|Unit|Ste)\.? [A-Z0-9-]{1,6})?"
        r"(?:, [A-Z][A-Za-z.]{1,20}(?: [A-Z][A-Za-z.]{1,20}){0,2}){0,2}"
        r"(?:,? (?:[A-Z]{2},? )?\d{5}(?:-\d{4})?\b)?",
        _all,
        "low",
        "medium",
    ),
    PiiKind(
        "date-of-birth",
        "date of birth",
        rf"(?:{_DATE})\b",
        _all,
        "medium",
        before=rf"(?i:\bdate[ _-]of[ _-]birth|\bbirth[ _-]?date|\bbirthday|\bdob|\bborn){_GAP}",
    ),
    PiiKind(
        "passport",
        "passport number",
        r"[A-Z]{0,3}\d{6,9}[A-Z]?\b",
        _identity,
        "high",
        before=rf"(?i:\bpassport)[ _]?(?i:number|no|id)?{_GAP}",
    ),
    PiiKind(
        "national-id",
        "national identity number",
        r"[A-Z0-9]{1,4}(?:[ -]?[A-Z0-9]{2,4}){1,4}\b",
        _identity,
        "high",
        "medium",
        r"(?i:\bssn|\bsocial security|\bnational[ _](?:id|insurance)|\btax[ _]id|\bnino|"
        r"\bdriver'?s?[ _]licen[cs]e|\bnhs[ _]number|\bidentity card)"
        rf"[ _]?(?i:number|no|id)?{_GAP}",
    ),
    PiiKind(
        "phone",
        "phone number",
        r"\(?\d(?:[ .()/-]{0,2}\d){6,14}\b",
        _phone,
        "low",
        "medium",
        rf"(?i:\bphone|\btel|\btelephone|\bmobile|\bcell|\bwhatsapp)[ _]?(?i:number|no)?{_GAP}",
    ),
)


# What all personal data matches, except e-mail addresses. It has no groups, so a search is quicker.
SHAPES = "|".join(f"{kind.before}(?:{kind.pattern})" for kind in PII_KINDS).encode()
_ANY_SHAPE = quick_pattern(SHAPES)
_SHAPE = pattern_at_place("|".join(f"{each.before}({each.pattern})" for each in PII_KINDS).encode())


def find_pii(data: bytes) -> list[SensitivePart]:
    """Every piece of personal data: first what has a shape, then e-mail addresses."""
    found: list[SensitivePart] = []
    for place, _ in spans_in(_ANY_SHAPE, data):
        shape = _SHAPE.match(data, place)
        kind = PII_KINDS[shape.lastindex - 1]
        start, end = shape.span(shape.lastindex)
        length = kind.validate(data, start, end)
        if length:
            found.append(
                SensitivePart(
                    *(start, start + length, kind.id, "pii"),
                    *(kind.severity, kind.confidence, kind.label),
                )
            )
    at = data.find(b"@")
    while at >= 0:
        window = data[max(0, at - 64) : at]
        name = window[len(window.rstrip(_LOCAL)) :].lstrip(b".%+-")
        name = b"" if _USER_OF_URL.search(window) else name
        domain = _DOMAIN.match(data, at + 1, at + 255) if name else None
        if domain is not None:
            confidence: Confidence = "medium" if name.lower() in _ROLES else "high"
            address = at - len(name), domain.end()
            found.append(
                SensitivePart(*address, "email", "pii", "low", confidence, "e-mail address")
            )
        at = data.find(b"@", at + 1)
    return found
