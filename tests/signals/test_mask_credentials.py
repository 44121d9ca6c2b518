"""Masking by the host: JSON stays JSON, ordinary words stay, what has a credential's shape goes."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from evalwright.signals.masking.credentials import (
    CREDENTIAL,
    mask_json_strictly,
    mask_strictly,
    mask_strings_strictly,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
SHAPED = st.from_regex(r"(sk|pk|rk)-[A-Za-z0-9_-]{8,30}", fullmatch=True)


@given(VALUES, SHAPED)
def test_a_masked_document_is_still_json_and_holds_no_credential(value, secret):
    masked = mask_json_strictly(msgspec.json.encode({"value": value, "key": f"it is {secret}."}))
    assert msgspec.json.decode(masked)["key"].startswith("it is [masked:")
    assert secret.encode() not in masked


@given(SHAPED)
def test_texts_and_values_are_masked_alike(secret):
    assert secret not in mask_strictly(f"take {secret} now")
    assert secret not in str(mask_strings_strictly({"a": [secret, {secret: 1}]}))


def test_numbers_and_ordinary_words_stay():
    value = {"score": 0.4111111111111111, "words": ["ask-me-anything", "risk-assessment", "sk-1"]}
    assert mask_strings_strictly(value) == value


def test_a_key_of_the_host_itself_is_masked():
    assert mask_strictly("Bearer: ew_abc123_0123456789abcdef") == f"Bearer: {CREDENTIAL}"
