"""Redaction: no known secret is left in a document, and nothing else is touched."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from builders import a_log, a_suite
from evalwright.contracts.events import ToolCalled
from evalwright.contracts.redaction import NOTHING_SECRET, SHORTEST_SECRET, Redactor
from strategies import json_of, json_values

KEY = "sk-live-0123456789"

# Few letters, so that secrets overlap often; quotes, backslashes and letters that JSON may escape.
# Neither `[`, `]` nor capitals: those are what a replacement is made of.
letters = st.sampled_from(list('ab"\\/\n\x07é🔑'))
short_texts = st.text(letters, max_size=SHORTEST_SECRET - 1)
secret_values = st.text(letters, min_size=SHORTEST_SECRET, max_size=14)
known_secrets = st.dictionaries(
    st.text("ABC", min_size=1, max_size=3), secret_values, min_size=1, max_size=4
)


@st.composite
def documents_with_secrets(draw: st.DrawFn) -> tuple[dict[str, str], Any]:
    """Secrets, and a JSON value whose texts and keys are put together from parts of them."""
    secrets = draw(known_secrets)
    value = st.sampled_from(sorted(secrets.values()))
    cut = st.builds(lambda text, at: text[:at], value, st.integers(1, 14))
    text = st.lists(value | cut | short_texts, max_size=4).map("".join)
    return secrets, draw(json_of(st.none() | st.integers() | st.floats(-9, 9) | text, text))


def strings(value: Any) -> list[str]:
    """Every key and every text within a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (key, *strings(each))]
    return []


def shape(value: Any) -> Any:
    """A JSON value with every text and key blotted out."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    return value


def texts_within(text: str) -> list[str]:
    """The texts of a text that is JSON; it is none once a secret took an escape's backslash."""
    try:
        return strings(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return [text]


def redacted(value: Any, secrets: dict[str, str]) -> Any:
    return msgspec.json.decode(Redactor(secrets).redact(msgspec.json.encode(value)))


@given(documents_with_secrets())
def test_no_secret_is_left_in_any_text_or_key_however_json_spells_it_and_nothing_is_done_twice(
    given_: tuple[dict[str, str], Any],
) -> None:
    secrets, value = given_
    redactor = Redactor(secrets)
    once = redactor.redact(msgspec.json.encode(value))
    for text in strings(msgspec.json.decode(once)):
        assert not any(secret in text for secret in secrets.values())
    assert redactor.redact(once) is once
    foreign = redactor.redact(json.dumps(value).replace("/", "\\/").encode())
    assert msgspec.json.decode(foreign) == msgspec.json.decode(once)
    for wrapped in (msgspec.json.encode(value).decode(), json.dumps(value)):
        (text,) = redacted([wrapped], secrets)  # a text that is JSON itself
        for within in texts_within(text):
            assert not any(secret in within for secret in secrets.values())


def test_a_secret_of_backslashes_goes_with_the_escape_it_meets() -> None:
    secret = "\\" * 8
    (text,) = redacted([msgspec.json.encode({f'{secret}"': None}).decode()], {"A": secret})
    assert text == '{"[REDACTED:A]"":null}'


@given(known_secrets, st.lists(short_texts))
def test_texts_without_a_secret_stay_beside_those_with_one(
    secrets: dict[str, str], texts: list[str]
) -> None:
    beside = [*secrets.values(), *texts]
    assert redacted(beside, secrets)[len(secrets) :] == texts


@given(
    json_of(st.none() | st.integers() | st.floats(-9, 9) | secret_values, st.text("kmn")),
    known_secrets,
)
def test_the_form_of_a_document_and_its_numbers_stay(value: Any, secrets: dict[str, str]) -> None:
    assert shape(redacted(value, secrets)) == shape(value)


@given(json_values, st.dictionaries(st.text(), short_texts))
def test_a_document_without_secrets_is_returned_as_the_same_object(
    value: Any, too_short: dict[str, str]
) -> None:
    document = msgspec.json.encode(value)
    for redactor in (NOTHING_SECRET, Redactor(too_short), Redactor({"KEY": KEY})):
        assert redactor.redact(document) is document


@given(st.text(), st.text())
@example("é" * 9, '"\\')
def test_a_text_loses_the_secret_and_nothing_else(before: str, after: str) -> None:
    assume(KEY not in before + after)
    redactor = Redactor({"KEY": KEY})
    assert redactor.redact_text(f"{before}{KEY}{after}") == f"{before}[REDACTED:KEY]{after}"


@pytest.mark.parametrize(
    ("secrets", "text", "expected"),
    [
        ({"SHORT": "seven77"}, "it is seven77", "it is seven77"),
        ({"EIGHT": "eight888"}, "it is eight888", "it is [REDACTED:EIGHT]"),
        ({"IN": "bcdefghi", "OUT": "abcdefghij"}, "-abcdefghij-", "-[REDACTED:OUT]-"),
        ({"IN": "bcdefghi", "OUT": "abcdefghij"}, "-bcdefghi-", "-[REDACTED:IN]-"),
        ({"A": "12345678", "LONGER": "5678abcdef"}, "<12345678abcdef>", "<[REDACTED:LONGER]>"),
        ({"A": "12345678", "B": "abcdefgh"}, "12345678abcdefgh", "[REDACTED:A][REDACTED:B]"),
        ({"A": "abababab"}, "<ababababab>", "<[REDACTED:A]>"),
        ({"B": "samesame", "A": "samesame"}, "samesame", "[REDACTED:A]"),
        ({"A": "pa+s[w]o.d*"}, "pa+s[w]o.d* paas", "[REDACTED:A] paas"),
    ],
    ids=[
        "seven characters stay",
        "eight go",
        "the longest first",
        "the shorter one alone",
        "overlapping ones go whole",
        "neighbours keep their names",
        "one that overlaps itself",
        "two names, one value",
        "no pattern, plain text",
    ],
)
def test_which_part_goes_and_in_whose_name(
    secrets: dict[str, str], text: str, expected: str
) -> None:
    assert Redactor(secrets).redact_text(text) == expected
    assert redacted([text], secrets) == [expected]


def test_a_key_is_redacted_unless_it_is_a_field_name_of_ours() -> None:
    secrets = {"ODD": "invocationId", "KEY": "abcdefghij"}
    document = {"invocationId": "invocationId", "abcdefghij": 1}
    assert redacted(document, secrets) == {"invocationId": "[REDACTED:ODD]", "[REDACTED:KEY]": 1}


def test_what_is_around_a_secret_stays_byte_for_byte() -> None:
    source = b'{ "n" : 1.50, "big": 123456789012345678901234567890, "n": -0.0, "t":\n["%s"] }'
    redactor = Redactor({"KEY": KEY})
    assert redactor.redact(source % KEY.encode()) == source % b"[REDACTED:KEY]"


def test_an_event_with_a_secret_in_it_can_still_be_read() -> None:
    inputs = {"url": f"https://shop.example/?key={KEY}", KEY: [KEY, 1]}
    called = msgspec.json.encode(ToolCalled("acme.clerk", "web:get", "inv-0001:c1", inputs))
    read = msgspec.json.decode(Redactor({"KEY": KEY}).redact(called), type=ToolCalled)
    assert read.tool_name == "web:get"
    assert read.inputs == {
        "url": "https://shop.example/?key=[REDACTED:KEY]",
        "[REDACTED:KEY]": ["[REDACTED:KEY]", 1],
    }


def test_the_field_names_of_a_whole_log_stay_readable() -> None:
    for event in a_log(a_suite(2)):
        document = event.payload()
        names = {f"S{n}": key for n, key in enumerate(document) if len(key) >= SHORTEST_SECRET}
        assert list(redacted(document, names)) == list(document)


def test_a_secret_that_json_cannot_hold_is_no_obstacle() -> None:
    redactor = Redactor({"BYTES": "\udcff" * 9, "KEY": KEY})
    assert redactor.redact_text(KEY) == "[REDACTED:KEY]"
